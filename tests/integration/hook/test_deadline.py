"""The hook ends in time, whatever blocks it: a plugin, stdin, stderr, a file."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from nri import hook
from nri.client import read_config
from tests.integration.hook.running import NRI, SOURCE, ended, give, hanging, make_hang, start
from tests.support.host import plugin
from tests.support.processes import MEASURED, is_running
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from tests.support.host import Host


@pytest.fixture
def host(host: Host) -> Host:
    return make_hang(host)


# The deadline


def test_a_plugin_that_hangs_is_killed_at_the_hooks_deadline(host: Host) -> None:
    process = start(host, "--deadline=2")
    give(process, host.state())
    status, said = ended(process)
    assert status == 1
    assert said.startswith("nri hook create redis: not done within 2 s: plugin hanging: killed: no result after ")
    assert said.count("\n") == 1
    assert wait_until(lambda: not any(map(is_running, hanging(host))), SOON)


def test_the_default_is_less_than_the_ten_seconds_that_runtimes_are_told(host: Host) -> None:
    arguments = hook.parse(["create"])
    assert arguments is not None
    assert arguments.deadline == 8
    assert "default: 8.0" in " ".join(help_text().split())


def help_text() -> str:
    done = subprocess.run(
        [*NRI, "hook", "--help"], env={"PYTHONPATH": SOURCE, **MEASURED}, capture_output=True, check=True, text=True
    )
    return done.stdout


def test_a_plugin_that_is_passed_over_leaves_nothing_either(host: Host) -> None:
    host.configure(plugin("hanging", failure_policy="ignore", timeout=1))
    process = start(host)
    give(process, host.state())
    status, said = ended(process)
    assert status == 0
    assert said == "nri: hanging: failed, ignored (failurePolicy: ignore): killed: no result after 1 s\n"
    assert wait_until(lambda: not any(map(is_running, hanging(host))), SOON)


def test_the_time_that_loading_the_hook_takes_counts(host: Host) -> None:
    late = "import sys, time; from nri import hook; hook.main(hook.parse(sys.argv[1:]), time.monotonic() - 100)"
    command = [sys.executable, "-c", late, "create", *host.options, "--deadline=50"]
    done = subprocess.run(
        command, env={"PYTHONPATH": SOURCE}, input=host.state(), capture_output=True, check=False, timeout=SOON
    )
    assert b"not done within 50 s: " in done.stderr


def test_plugins_after_the_deadline_are_not_started(host: Host) -> None:
    host.configure(plugin("hanging", failure_policy="ignore"), plugin("hanging"))
    process = start(host, "--deadline=2")
    give(process, host.state())
    status, said = ended(process)
    assert status == 1
    last = said.splitlines()[-1]
    assert last == "nri hook create redis: not done within 2 s: plugin hanging: not started: no time is left"


@pytest.mark.parametrize("begun", [b"", b'{"id": "redis", '], ids=["nothing", "half of it"])
def test_a_stdin_that_does_not_end_is_not_waited_for(host: Host, begun: bytes) -> None:
    process = start(host, "--deadline=0.5")
    assert process.stdin is not None
    process.stdin.write(begun)
    process.stdin.flush()
    assert process.wait(SOON) == 1
    what = f"the container's state on stdin is incomplete after {len(begun)} bytes"
    expected = "expected what an OCI runtime writes"
    assert ended(process) == (1, f"nri hook create: not done within 0.5 s: {what}; {expected}\n")


def test_a_stdin_that_is_shared_stays_as_it_is(host: Host) -> None:
    reads, writes = os.pipe()
    process = start(host, "--deadline=0.5", stdin=reads)
    assert ended(process)[0] == 1
    assert fcntl.fcntl(reads, fcntl.F_GETFL) & os.O_NONBLOCK == 0
    os.close(reads)
    os.close(writes)


@pytest.mark.parametrize("is_blocking", [True, False], ids=["blocking", "non-blocking"])
def test_a_state_that_comes_late_is_in_time(host: Host, is_blocking: bool) -> None:
    host.install("hanging")
    reads, writes = os.pipe()
    os.set_blocking(reads, is_blocking)
    process = start(host, stdin=reads)
    os.close(reads)
    state = host.state()
    with open(writes, "wb", buffering=0) as file:
        file.write(state[:10])
        assert wait_until(lambda: process.poll() is not None, 0.3) is False
        file.write(state[10:])
    assert ended(process) == (0, "")


def test_a_fifo_as_stdin_is_not_waited_for_either(host: Host) -> None:
    os.mkfifo(host.root / "fifo")
    fifo = os.open(host.root / "fifo", os.O_RDWR)
    process = start(host, "--deadline=0.5", stdin=fifo)
    assert "not done within 0.5 s: the container's state on stdin" in ended(process)[1]
    os.close(fifo)


# Files


def make_config(host: Host, kind: str) -> str:
    """A bundle whose config.json is not one; returns what is wrong with it."""
    file = host.root / "bundle/config.json"
    file.unlink()
    if kind == "fifo":
        os.mkfifo(file)
        return f"{file}: is a FIFO, expected a regular file"
    if kind == "link to a fifo":
        os.mkfifo(host.root / "fifo")
        file.symlink_to(host.root / "fifo")
        return f"{file}: is a FIFO, expected a regular file"
    if kind == "device":
        file.symlink_to("/dev/zero")
        return f"{file}: is a character device, expected a regular file"
    if kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(file))
        return f"{file}: is a socket, expected a regular file"
    if kind == "directory":
        file.mkdir()
        return f"{file}: is a directory, expected a regular file"
    if kind == "link to itself":
        file.symlink_to(file)
        return f"{file}: cannot be read: Too many levels of symbolic links"
    (host.root / "bundle").rmdir()
    os.mkfifo(host.root / "bundle")
    return f"{file}: cannot be read: Not a directory"


@pytest.mark.parametrize(
    "kind", ["fifo", "link to a fifo", "device", "socket", "directory", "link to itself", "bundle is a fifo"]
)
def test_a_config_json_that_is_no_file_is_named_and_not_waited_for(host: Host, kind: str) -> None:
    wrong = make_config(host, kind)
    process = start(host)
    give(process, host.state())
    assert ended(process) == (1, f"nri hook create redis: {wrong}\n")


def test_a_config_json_that_is_read_by_hand_may_be_a_fifo(host: Host) -> None:
    fifo = host.root / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_text('{"annotations": {"a": "b"}}'))
    writer.start()
    assert read_config(str(fifo)) == {"annotations": {"a": "b"}}
    writer.join()


def test_a_log_that_is_a_fifo_without_a_reader_does_not_block(host: Host) -> None:
    log = host.root / "log"
    os.mkfifo(log)
    process = start(host, f"--log-file={log}")
    give(process, b"")
    status, said = ended(process)
    assert status == 1
    lines = said.splitlines()
    assert "the document is empty" in lines[0]
    assert lines[1] == f"nri hook: the log file {log} cannot be written: it is a FIFO that no process reads"


def test_a_log_that_is_a_full_fifo_does_not_block(host: Host) -> None:
    log = host.root / "log"
    os.mkfifo(log)
    fifo = os.open(log, os.O_RDWR | os.O_NONBLOCK)
    fill(fifo)
    process = start(host, f"--log-file={log}")
    give(process, b"")
    status, said = ended(process)
    assert status == 1
    assert f"the log file {log} cannot be written: Resource temporarily unavailable" in said
    os.close(fifo)


def test_a_log_may_be_a_fifo_with_a_reader_or_a_device(host: Host) -> None:
    log = host.root / "log"
    os.mkfifo(log)
    fifo = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    for path in (str(log), "/dev/null"):
        process = start(host, f"--log-file={path}")
        give(process, b"")
        assert "cannot be written" not in ended(process)[1]
    assert b" nri hook create: the container's state on stdin: the document is empty" in os.read(fifo, 4096)
    os.close(fifo)


def fill(fd: int) -> None:
    """Write to a pipe until it takes no more."""
    os.set_blocking(fd, False)
    for size in (65536, 1):
        try:
            while True:
                os.write(fd, b"x" * size)
        except BlockingIOError:
            pass
    os.set_blocking(fd, True)


@pytest.mark.parametrize("writes_much", [False, True], ids=["the reason", "a plugin's lines"])
def test_a_stderr_that_nobody_reads_does_not_keep_the_hook(host: Host, writes_much: bool) -> None:
    reads, writes = os.pipe()
    fill(writes)
    if writes_much:
        host.install("hanging", do=[["stderr", "x" * 100_000 + "\n"], ["put", "a", "b"]])
    process = start(host, stderr=writes)
    give(process, host.state() if writes_much else b"")
    assert ended(process)[0] == (0 if writes_much else 1)
    os.close(reads)
    os.close(writes)


def test_a_stderr_that_is_read_slowly_has_all_of_it(host: Host) -> None:
    said = "".join(f"{number} {'x' * 4000}\n" for number in range(40))
    host.install("hanging", do=[["stderr", said], ["put", "a", "b"]])
    process = start(host)
    give(process, host.state())
    status, stderr = ended(process)
    assert status == 0
    assert stderr == "".join(f"nri: hanging: {line}\n" for line in said.splitlines())


# What nothing else ends

STUCK = """
import os, sys, time
from nri.process.deadline import Deadline
deadline = Deadline(0.2, time.monotonic())
deadline.doing = "it was opening a FIFO"
def report(text):
    print(text, file=sys.stderr, flush=True)
    if {is_stuck}:
        open({fifo!r})
deadline.enforce(report)
open({fifo!r})
"""


@pytest.mark.parametrize(("is_stuck", "status"), [(False, 1), (True, -signal.SIGALRM)], ids=["says it", "is stuck"])
def test_whatever_blocks_the_process_ends_soon_after_its_deadline(host: Host, is_stuck: bool, status: int) -> None:
    os.mkfifo(host.root / "fifo")
    code = STUCK.format(is_stuck=is_stuck, fifo=str(host.root / "fifo"))
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": SOURCE}, capture_output=True, timeout=SOON, check=False
    )
    assert (done.returncode, done.stderr) == (status, b"not done within 0.2 s: it was opening a FIFO\n")


def test_a_timer_that_the_caller_has_blocked_counts_all_the_same(host: Host) -> None:
    os.mkfifo(host.root / "fifo")
    code = STUCK.format(is_stuck=False, fifo=str(host.root / "fifo"))
    code = f"import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": SOURCE}, capture_output=True, timeout=SOON, check=False
    )
    assert done.returncode == 1
