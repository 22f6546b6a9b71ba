"""The commands on a host where others can write to what is run."""

from __future__ import annotations

import pytest

from tests.integration.cli.running import Ran, command
from tests.support.host import Host, plugin

WARNING = (
    "warning: owners and modes of plugins and configuration are not checked; whoever can write to one of them "
    "decides what is run here (--no-check-owner)\n"
)


@pytest.mark.parametrize("words", [["check"], ["invoke", "create", "--request", "-"]], ids=" ".join)
def test_plugins_that_others_can_write_to_are_not_run(host: Host, words: list[str]) -> None:
    def run(*more: str) -> Ran:
        return command(host, *words, *more, stdin=b'{"id": "web"}')

    host.install("noop")
    host.configure(plugin("noop"))
    (host.bin / "noop").chmod(0o777)
    ran = run()
    assert (
        f"not run: {host.bin}/noop is writable by others (mode 0777, owner "
        in ran.stdout + ran.stderr
    )
    assert ran.status == 1
    host.conf.chmod(0o1777)
    ran = run()
    assert f"{host.conf}:1:1: (document): is writable by others (mode 1777, owner " in ran.stderr
    assert ran.status == 1
    for path in (host.bin, host.conf / "10-test.conf"):
        path.chmod(0o777)
    ran = run("--no-check-owner")
    assert ran.status == 0, ran.stderr
    assert WARNING in ran.stderr
