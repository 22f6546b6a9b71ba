"""`nri status`: what it prints of a bridge that answers, of one that does not, and where none runs."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from nri.config.entries import PluginEntry
from tests.integration.cli.running import COMMAND, SOURCE, Ran, command, process
from tests.support import status_documents as documents
from tests.support.host import plugin
from tests.support.processes import MEASURED
from tests.support.status_server import serving
from tests.support.waiting import SOON, until, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.host import Host


@pytest.fixture
def path(host: Host) -> Path:
    return host.root / "v1bridge.sock"


def both_ways(host: Host, *words: str) -> Ran:
    """Run a command by click and as a process, which answers a probe without click: they agree."""
    ours, theirs = command(host, "status", *words), process("status", *words)
    assert (ours.status, ours.stdout, ours.stderr) == (theirs.status, theirs.stdout, theirs.stderr)
    return theirs


@pytest.mark.parametrize(
    ("make", "status", "line"),
    [
        (documents.healthy, 0, "well: connected to containerd v2.1.9, 2 plugins"),
        (documents.connecting, 1, "degraded: the bridge looks for its runtime"),
    ],
)
def test_a_check_is_a_line_and_a_status(host: Host, path: Path, make: Any, status: int, line: str) -> None:
    with serving(path, make()):
        ran = both_ways(host, "--check", "--socket", str(path))
    assert (ran.status, ran.stdout, ran.stderr) == (status, f"{line}\n", "")


def test_a_check_judges_against_thresholds(host: Host, path: Path) -> None:
    late = documents.healthy(events=[documents.event(late=3)])
    with serving(path, late):
        assert both_ways(host, "--check", "--socket", str(path), "--max-late", "3").status == 0
        ran = both_ways(host, "--check", "--socket", str(path), "--max-late", "2")
    assert (ran.status, ran.stdout) == (1, "degraded: 3 events were answered late, expected at most 2\n")


@pytest.mark.parametrize("answer", [b"", b'{"protocol": 9}', b"\x1b[2J"])
def test_an_answer_that_is_no_status_counts_as_no_bridge(host: Host, path: Path, answer: bytes) -> None:
    with serving(path, answer):
        ran = both_ways(host, "--check", "--socket", str(path))
        assert (ran.status, ran.stderr) == (2, "")
        assert ran.stdout.startswith(f"no bridge: {path}: ")
        page = command(host, "status", "--socket", str(path))
    assert (page.status, page.stdout) == (1, "")
    assert page.stderr.startswith(f"{path}: ")


def test_a_check_without_a_bridge(host: Host, path: Path) -> None:
    ran = both_ways(host, "--check", "--socket", str(path))
    assert (ran.status, ran.stdout) == (2, f"no bridge: {path} does not exist\n")


def test_a_check_finds_the_socket_by_the_bridge_options(host: Host, path: Path) -> None:
    file = host.root / "v1bridge.json"
    file.write_text(json.dumps({"recordFile": f"{host.root}/v1bridge.record"}))
    with serving(path, documents.healthy()):
        assert both_ways(host, "--check", "--config", str(file)).status == 0
    file.write_text("{")
    ran = both_ways(host, "--check", "--config", str(file))
    assert (ran.status, ran.stdout) == (
        2,
        f"no bridge: {file} cannot be used: it is not JSON; expected the bridge options\n",
    )


@pytest.mark.parametrize("stdout", ["closed", "full", "latin-1"])
def test_the_status_of_a_check_does_not_depend_on_its_stdout(path: Path, stdout: str) -> None:
    name = "\u2026\u0416"
    shell = {"closed": ">&-", "full": "> /dev/full", "latin-1": ""}[stdout]
    environment = {"PYTHONPATH": SOURCE, "PATH": os.environ["PATH"], "PYTHONIOENCODING": "latin-1", **MEASURED}
    with serving(path, documents.healthy(plugins=[documents.plugin(name, problem="not found")])):
        ran = subprocess.run(
            ["sh", "-c", f'exec "$@" {shell}', "sh", *COMMAND, "status", "--check", "--socket", str(path)],
            env=environment,
            capture_output=True,
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (1, b"")


def test_the_page_of_a_bridge(host: Host, path: Path) -> None:
    with serving(path, documents.healthy()):
        ran = command(host, "status", "--socket", str(path))
    assert (ran.status, ran.stderr) == (0, "")
    assert ran.stdout.startswith("well: connected to containerd v2.1.9, 2 plugins\n\nbridge         0.9.0 (")


def test_a_page_needs_no_unicode(path: Path) -> None:
    with serving(path, documents.healthy(plugins=[documents.plugin("caf\u00e9-\u0416")])):
        ran = subprocess.run(
            [*COMMAND, "status", "--socket", str(path)],
            env={"PYTHONPATH": SOURCE, "PATH": os.environ["PATH"], "PYTHONIOENCODING": "latin-1", **MEASURED},
            capture_output=True,
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"\ncaf\xe9-\\u0416 " in ran.stdout


def test_the_document_of_a_bridge(host: Host, path: Path) -> None:
    with serving(path, documents.degraded()):
        ran = command(host, "status", "--socket", str(path), "--json")
    assert (ran.status, ran.json) == (0, documents.degraded())


def test_the_exchanges_with_a_pod(host: Host, path: Path) -> None:
    answer = documents.pod(documents.exchange())
    with serving(path, answer) as server:
        ran = command(host, "status", "--socket", str(path), "--pod", "default/web")
        assert command(host, "status", "--socket", str(path), "--pod", "default/web", "--json").json == answer
    assert json.loads(server.requests[0]) == {"get": "pod", "namespace": "default", "name": "web"}
    assert (ran.status, ran.stderr) == (0, "")
    assert ran.stdout.startswith("default/web: 1 exchange\n\n")


def test_a_pod_without_a_bridge_is_an_error(host: Host, path: Path) -> None:
    ran = command(host, "status", "--socket", str(path), "--pod", "default/web")
    assert (ran.status, ran.stdout, ran.stderr) == (1, "", f"{path} does not exist\n")


@pytest.mark.parametrize("name", ["web", "/web", "default/", "a/b/c", "x" * 254 + "/web", "default/" + "x" * 254])
def test_a_pod_is_a_namespace_and_a_name(host: Host, name: str) -> None:
    ran = command(host, "status", "--pod", name)
    assert ran.status == 2
    assert "expected NAMESPACE/NAME" in " ".join(ran.stderr.split())


@pytest.mark.parametrize(
    "words",
    [
        ["--socket", "/a", "--config", "/b"],
        ["--no-bridge", "--socket", "/a"],
        ["--no-bridge", "--pod", "a/b"],
        ["--check", "--pod", "a/b"],
        ["--check", "--watch"],
        ["--check", "--json"],
    ],
    ids=" ".join,
)
def test_options_that_exclude_each_other(host: Host, words: list[str]) -> None:
    ran = command(host, "status", *words)
    assert (ran.status, ran.stdout) == (2, "")
    assert "exclude each other" in ran.stderr


def install(host: Host) -> None:
    host.script("clearcfs", "#!/bin/sh\n")
    host.configure(PluginEntry(type="clearcfs"))


def test_a_node_where_no_bridge_is_expected_and_all_is_well(host: Host) -> None:
    install(host)
    ran = command(host, "status", "--check", "--no-bridge")
    assert (ran.status, ran.stdout) == (0, "well: no bridge is expected; 1 plugin configured\n")
    document = command(host, "status", "--no-bridge", "--json").json
    assert (document["bridge"], document["configuration"]["valid"]) == (None, True)
    (entry,) = document["plugins"]
    assert (entry["binary"], entry["problem"], entry["states"]) == (
        f"{host.bin}/clearcfs",
        None,
        ["create", "delete"],
    )
    page = command(host, "status", "--no-bridge")
    assert (page.status, page.stderr) == (0, "")
    assert page.stdout.startswith("well: no bridge is expected")


def test_a_plugin_that_is_missing_or_broken_is_degraded_without_a_bridge_too(host: Host) -> None:
    host.script("broken", "#!/nowhere/python\n")
    host.configure(plugin("absent"), plugin("broken"))
    ran = command(host, "status", "--check", "--no-bridge")
    assert ran.status == 1
    assert ran.stdout.startswith("degraded: absent: not found")
    assert "broken: " in ran.stdout


def test_a_configuration_that_is_broken_is_degraded_without_a_bridge_too(host: Host) -> None:
    host.configure_text('{"version": "0.1", "plugins": [{}]}')
    ran = command(host, "status", "--check", "--no-bridge")
    assert ran.status == 1
    assert ran.stdout.startswith(f"degraded: the configuration is not valid, no plugin can run: {host.conf}/10-test")


def test_the_page_without_a_bridge_says_so_and_shows_what_is_known(host: Host, path: Path) -> None:
    install(host)
    host.configure(plugin("absent"), name="20-absent.conf")
    ran = command(host, "status", "--socket", str(path))
    assert (ran.status, ran.stderr) == (0, "")
    shown = "".join(ran.stdout.split())
    assert ran.stdout.startswith("no bridge\n- ")
    assert f"-{path}doesnotexist-absent:notfound" in shown
    assert f"{host.bin}/clearcfs" in shown


class Watching:
    """`nri status --watch` as a process."""

    def __init__(self, *words: str, stdout: int) -> None:
        self.child = subprocess.Popen(
            [*COMMAND, "status", "--watch", "0.1", *words],
            env={"PYTHONPATH": SOURCE, "PATH": os.environ["PATH"], "TERM": "xterm", **MEASURED},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
        )

    def end(self) -> tuple[int, bytes]:
        """Its status and stderr after Ctrl-C."""
        self.child.send_signal(signal.SIGINT)
        _, stderr = self.child.communicate(timeout=SOON)
        return self.child.returncode, stderr

    def close(self) -> None:
        self.child.kill()
        self.child.communicate()


@pytest.fixture
def watchings() -> Iterator[list[Watching]]:
    started: list[Watching] = []
    yield started
    for each in started:
        each.close()


def test_a_watch_prints_again_says_that_the_bridge_has_gone_and_ends_with_ctrl_c(
    host: Host, path: Path, tmp_path: Path, watchings: list[Watching]
) -> None:
    printed = tmp_path / "printed"
    with printed.open("wb") as file:
        watch = Watching("--socket", str(path), *host.options, stdout=file.fileno())
    watchings.append(watch)
    with serving(path, documents.healthy()):
        assert wait_until(lambda: printed.read_text().count("well: connected to containerd") > 2)
    assert wait_until(lambda: printed.read_text().rpartition("no bridge\n- ")[1])
    with serving(path, b"{"):
        assert wait_until(lambda: "not JSON" in printed.read_text())
    with serving(path, documents.degraded()):
        assert wait_until(lambda: "\ndegraded\n" in printed.read_text())
    assert watch.end() == (0, b"")
    assert "\x1b" not in printed.read_text()


def test_a_watch_of_documents_prints_one_in_each_line(path: Path, tmp_path: Path, watchings: list[Watching]) -> None:
    printed = tmp_path / "printed"
    with serving(path, documents.healthy()):
        with printed.open("wb") as file:
            watchings.append(Watching("--json", "--socket", str(path), stdout=file.fileno()))
        assert wait_until(lambda: printed.read_text().count("\n") > 2)
        assert watchings[0].end() == (0, b"")
    for line in printed.read_text().splitlines():
        assert json.loads(line) == documents.healthy()


def test_a_watch_redraws_on_a_terminal(path: Path, watchings: list[Watching]) -> None:
    ours, theirs = pty.openpty()
    try:
        with serving(path, documents.healthy()):
            watchings.append(Watching("--socket", str(path), stdout=theirs))
            shown = bytearray()

            def redrawn() -> bool:
                shown.extend(os.read(ours, 65536))
                return shown.count(b"\x1b[H\x1b[2Jwell: ") > 2

            until(redrawn, "a page in place of the one before")
            assert watchings[0].end() == (0, b"")
    finally:
        os.close(ours)
        os.close(theirs)
