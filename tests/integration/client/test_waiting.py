"""Processes that wait: a request gets the process that was started before it, or one of its own."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from nri.client import ChainError, waiting
from nri.client import resident as module
from nri.client.resident import Residents
from nri.config.entries import PluginEntry
from nri.doctor.trying import try_waiting
from nri.process import conversation
from nri.process.children import stat_fields
from tests.support.host import Host, request
from tests.support.processes import is_running, open_fds
from tests.support.resident_host import ResidentHost
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


ANSWER = '{"plugin": "shell", "version": "0.1", "metadata": {"pid": "\'$$\'"}}'


class WaitingNode(ResidentHost):
    """A host with the shell plugin ``shell``, which notes its start and waits for its request."""

    def __init__(self, host: Host) -> None:
        super().__init__(host, "shell")

    @property
    def started(self) -> list[int]:
        """The pids of all processes of the plugin, in order."""
        notes = self.host.root / "started"
        return [int(line) for line in notes.read_text().split()] if notes.exists() else []

    def install(self, first: str = "", last: str = "", reads: str = "cat > /dev/null") -> Path:
        """Install the plugin, with commands before it reads its request and after it."""
        note = f"echo $$ >> {self.host.root}/started"
        return self.put("shell", f"#!/bin/sh\n{note}\n{first}\n{reads}\n{last}\necho '{ANSWER}'\n")

    def wait(self, entries: int = 1, **entry: Any) -> None:
        """Have processes wait, and wait until their programs run."""
        before = len(self.started)
        entry.setdefault("waiting", True)
        self.keep(*["shell"] * entries, **entry)
        if entry["waiting"]:
            assert wait_until(lambda: len(self.started) == before + entries)

    def run(self, **options: Any) -> int:
        """Send a request; return the pid of the process that has answered."""
        return int(self.ask(**options).metadata["pid"])


@pytest.fixture
def node(host: Host, monkeypatch: pytest.MonkeyPatch) -> Iterator[WaitingNode]:
    monkeypatch.setattr(module, "PAUSE", 0.0)
    node = WaitingNode(host)
    before = open_fds()
    yield node
    node.residents.close()
    assert not [pid for pid in node.started if is_running(pid)]
    assert wait_until(lambda: open_fds() == before)


def test_each_request_gets_the_process_that_waits_for_it(node: WaitingNode) -> None:
    node.install()
    node.wait()
    for count in (1, 2, 3):
        assert node.standing().state == "waiting"
        assert len(node.started) == count
        assert node.run() == node.started[-1]
        node.renew()
        assert wait_until(lambda: len(node.started) > count)  # noqa: B023 - it is called at once


def test_request_that_finds_none_gets_a_process_of_its_own(node: WaitingNode) -> None:
    node.install()
    node.wait()
    (first,) = node.started
    assert [node.run(), node.run()] == [first, node.started[1]]
    assert len(node.started) == 2


def test_each_entry_has_one(node: WaitingNode) -> None:
    node.install()
    node.wait(entries=2)
    two = node.started
    assert {node.run(), node.run()} == {*two}


def test_process_gets_what_one_gets_that_is_started_for_the_request(node: WaitingNode) -> None:
    facts = node.host.root / "facts"
    node.install(reads=f"{{ cat; echo; env | sort; pwd; umask; echo $0 $1; }} > {facts}")
    node.wait()
    node.run()
    of_waiting = facts.read_text()
    facts.unlink()
    node.run()
    assert facts.read_text() == of_waiting
    assert json.loads(of_waiting.splitlines()[0])["state"] == "create"


@pytest.mark.parametrize("change", ["the file", "the mode", "the entry"])
def test_process_is_not_used_after_a_change(node: WaitingNode, change: str) -> None:
    path = node.install()
    node.wait()
    (first,) = node.started
    if change == "the file":
        node.install(last="true")
    elif change == "the mode":
        path.chmod(0o700)
    else:
        node.wait(waiting=False)
        assert node.standing().state == "off"
    assert node.run() != first
    node.residents.tidy()
    assert not is_running(first)


def test_process_that_is_old_is_replaced(
    node: WaitingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.install()
    node.wait()
    (first,) = node.started
    monkeypatch.setattr(waiting, "WAITS_FOR", 0.0)
    assert node.run() != first
    node.renew()
    monkeypatch.undo()
    assert node.standing().state == "waiting"
    assert wait_until(lambda: len(node.started) == 3)
    assert not is_running(first)


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        ("exit 0", "it does not wait for its request: it has ended before"),
        ("echo hello; exec sleep 100", "it has written to stdout before"),
    ],
)
def test_program_that_does_not_wait_is_started_for_each_request(
    node: WaitingNode, first: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = node.install(first=f"[ -e {node.host.root}/asked ] || {{ {first}; }}")
    node.wait()
    assert reason in try_waiting(str(path), "shell")
    begun = node.started[0]

    def has_failed() -> bool:
        node.residents.renew()
        return node.standing().state == "failed"

    assert wait_until(has_failed)
    (node.host.root / "asked").touch()
    assert node.run() != begun
    assert reason in node.standing().reason
    assert caplog.text.count("shell is started for each request") == 1


def test_program_that_waits_passes_the_trial(node: WaitingNode) -> None:
    reads = "[ $(wc -c) -gt 0 ] || exit 1"
    assert try_waiting(str(node.install(reads=reads)), "shell") == ""


@pytest.mark.parametrize(
    ("last", "is_right"), [("", False), ('echo \'{"error": "no request"}\'; exit', True)]
)
def test_program_that_takes_an_empty_stdin_for_a_request_is_named(
    node: WaitingNode, last: str, is_right: bool
) -> None:
    reason = try_waiting(str(node.install(last=last)), "shell")
    assert reason.startswith("it takes an empty stdin, as a killed bridge leaves it") != is_right


def test_program_that_uses_the_cpu_does_not_wait(node: WaitingNode) -> None:
    path = str(node.install(first="while :; do :; done"))
    assert try_waiting(path, "shell").startswith(
        "it does not wait for its request: it uses the CPU"
    )


def test_output_that_comes_before_the_request_is_no_answer(node: WaitingNode) -> None:
    """It is written between the look and the request."""
    go = node.host.root / "go"
    first = f"[ -e {go} ] || {{ while [ ! -e {go} ]; do sleep 0.01; done; echo early; exit 0; }}"
    node.install(first=first)
    node.wait()
    (begun,) = node.started
    go.touch()
    assert node.run() != begun


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_process_that_is_killed_or_stopped_has_not_run_the_request(
    node: WaitingNode, how: signal.Signals
) -> None:
    node.install(reads="read line")
    node.wait()
    (first,) = node.started
    os.kill(first, how)
    assert wait_until(lambda: stat_fields(first)[0] in (b"T", b"Z"))
    assert node.run() != first
    node.residents.tidy()
    assert not is_running(first)


def test_process_that_is_loading_is_waited_for(node: WaitingNode) -> None:
    node.install(first="sleep 0.8")
    node.wait()
    (first,) = node.started
    assert node.run() == first


def test_request_that_was_not_read_is_run_by_another_process(node: WaitingNode) -> None:
    """A program that closes its stdin has done nothing for this request."""
    node.install(reads="exec 0<&-; sleep 0.3")
    node.wait()
    (first,) = node.started
    assert node.run() == node.started[-1] != first
    assert node.standing().state == "failed"
    assert node.standing().reason.endswith("it has ended without reading it")


def test_request_of_a_process_that_has_not_begun_is_read_by_no_other(node: WaitingNode) -> None:
    """A daemon of the process may hold its stdin."""
    go, late, begun = (node.host.root / name for name in ("go", "late", "begun"))
    wait = f"while [ ! -e {go} ]; do sleep 0.02; done; cat <&3 > {late}; echo end >> {late}"
    daemon = f"exec 3<&0; setsid sh -c '{wait}' & touch {begun}"
    first = f"[ -e {begun} ] || {{ {daemon}; }}"
    node.install(first=first, reads="exec 0<&-; sleep 0.2")
    node.wait()
    node.run()
    go.touch()
    assert wait_until(lambda: late.exists() and late.read_text().endswith("end\n"))
    assert late.read_text() == "end\n"


def test_process_of_a_directory_that_another_one_hides_is_ended(
    node: WaitingNode, tmp_path: Path
) -> None:
    other = tmp_path / "first"
    other.mkdir()
    node.residents = Residents([str(other), str(node.host.bin)], check_owner=False)
    path = node.install()
    node.wait()
    (first,) = node.started
    hiding = other / "shell"
    hiding.write_text(path.read_text())
    hiding.chmod(0o755)
    node.residents.renew()
    assert wait_until(lambda: not is_running(first))
    node.renew()
    assert wait_until(lambda: len(node.started) == 2)
    assert node.residents.standing(str(hiding)).state == "waiting"


def test_it_works_without_pidfds(node: WaitingNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "pidfds_of", lambda _pid: [])
    node.install(last="exec 2>&-; sleep 0.1")
    node.wait()
    assert node.run() == node.started[0]


def test_request_that_was_read_is_not_run_again(node: WaitingNode) -> None:
    node.install(reads="read line; kill -9 $$")
    node.wait()
    with pytest.raises(ChainError, match="ended by signal 9"):
        node.run()
    assert len(node.started) == 1


def test_deadline_and_group_are_those_of_a_started_process(node: WaitingNode) -> None:
    child = node.host.root / "child"
    node.install(first=f"sleep 1000 & echo $! > {child}", last="sleep 1000")
    node.wait()
    assert wait_until(lambda: child.exists() and child.read_text() != "")
    with pytest.raises(ChainError, match="no result after"):
        node.run(timeout=0.5)
    assert wait_until(lambda: not is_running(int(child.read_text())))
    assert not is_running(node.started[0])


def test_long_request_is_written_and_stderr_logged(node: WaitingNode) -> None:
    node.install(reads="wc -c >&2")
    node.wait()
    lines: list[str] = []
    client = node.host.client(
        PluginEntry(type="shell", conf="x" * 500_000),
        residents=node.residents,
        log=lambda _, line: lines.append(line),
    )
    client.invoke(request(), "create")
    assert int(lines[0]) > 500_000


def test_plugin_that_cannot_be_started_is_tried_again(node: WaitingNode) -> None:
    path = node.install()
    path.write_text("#!/no/such/shell\n")
    path.chmod(0o755)
    node.residents.keep([PluginEntry(type="shell", waiting=True)])
    node.residents.prepare(SOON)
    assert node.standing().state == "failed"
    assert "cannot be started" in node.standing().reason
    node.install()
    node.wait()
    assert node.run() == node.started[0]
