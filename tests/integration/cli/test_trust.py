"""The commands on a host where others can write to what is run."""

from __future__ import annotations

import pytest

from tests.integration.cli.running import command
from tests.support.host import Host, plugin

WARNING = (
    "warning: owners and modes of plugins and configuration are not checked; whoever can write to one of them "
    "decides what is run here (--no-check-owner)\n"
)
CHECK, INVOKE = ["check"], ["invoke", "create", "--request", "-"]


@pytest.fixture
def host(host: Host) -> Host:
    host.install("noop")
    host.configure(plugin("noop"))
    return host


@pytest.mark.parametrize(("words", "status"), [(CHECK, 1), (INVOKE, 1)])
def test_a_plugin_that_others_can_write_to_is_named_and_not_run(host: Host, words: list[str], status: int) -> None:
    (host.bin / "noop").chmod(0o777)
    ran = command(host, *words, stdin=b'{"id": "web"}')
    assert f"not run: {host.bin}/noop is writable by others (mode 0777, owner " in ran.stdout + ran.stderr
    assert ran.status == status


@pytest.mark.parametrize("words", [CHECK, INVOKE], ids=" ".join)
def test_a_configuration_that_others_can_write_to_is_a_fault(host: Host, words: list[str]) -> None:
    host.conf.chmod(0o1777)
    ran = command(host, *words, stdin=b'{"id": "web"}')
    assert ran.status == 1
    assert f"{host.conf}:1:1: (document): is writable by others (mode 1777, owner " in ran.stderr


@pytest.mark.parametrize("words", [CHECK, INVOKE], ids=" ".join)
def test_no_check_owner_runs_it_with_a_warning(host: Host, words: list[str]) -> None:
    for path in (host.bin, host.bin / "noop", host.conf, host.conf / "10-test.conf"):
        path.chmod(0o777)
    ran = command(host, *words, "--no-check-owner", stdin=b'{"id": "web"}')
    assert ran.status == 0, ran.stderr
    assert WARNING in ran.stderr
