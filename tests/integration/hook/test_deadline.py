"""The hook ends in time, whatever blocks it: a plugin, stdin, stderr, a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from tests.integration.hook.running import SOURCE, Ran, ended, failure, give, make_hang, start
from tests.support.blocked import ends
from tests.support.host import Host, plugin
from tests.support.waiting import SOON, wait_until


@pytest.fixture
def host(host: Host, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.chdir("/")  # the hook goes there, and the test's process comes back
    return make_hang(host)


# A plugin


def test_plugin_is_killed_at_the_deadline_and_none_started_after(host: Host) -> None:
    host.script("hanging", "#!/bin/sh\nexec sleep 1000\n")
    found = failure(host, deadline=1.0)
    assert found.startswith(
        "nri hook create redis: not done within 1 s: plugin hanging: killed: no result after "
    )
    host.configure(plugin("hanging", failure_policy="ignore"), plugin("hanging"))
    ran = Ran(host, deadline=1.0)
    ignored, last = ran.stderr.splitlines()
    assert ignored.startswith(
        "nri: hanging: create of redis failed, ignored (failurePolicy: ignore): killed: no result after "
    )
    assert (
        last
        == "nri hook create redis: not done within 1 s: plugin hanging: not started: no time is left"
    )
    assert ran.status == 1


def test_time_that_loading_the_hook_takes_counts(host: Host) -> None:
    late = "import sys, time; from nri import hook; hook.main(hook.parse(sys.argv[1:]), time.monotonic() - 1000)"
    command = [sys.executable, "-c", late, "create", *host.options, "--deadline=500"]
    done = subprocess.run(
        command,
        env={"PYTHONPATH": SOURCE},
        input=host.state(),
        capture_output=True,
        check=False,
        timeout=4 * SOON,
    )
    assert b"not done within 500 s: " in done.stderr


# stdin


def test_incomplete_state_is_waited_for_until_the_deadline(host: Host) -> None:
    reads, writes = os.pipe()
    os.write(writes, b'{"id": "redis", ')
    with open(reads, "rb"), open(writes, "wb"):
        what = "the container's state on stdin is incomplete after 16 bytes; expected what an OCI runtime writes"
        assert (
            failure(host, stdin=reads, deadline=0.7)
            == f"nri hook create: not done within 0.7 s: {what}"
        )
        assert os.get_blocking(reads)  # another process may share it


@pytest.mark.parametrize("is_blocking", [True, False], ids=["blocking", "non-blocking"])
def test_state_that_comes_in_parts_is_read(host: Host, is_blocking: bool) -> None:
    host.install("hanging")
    reads, writes = os.pipe()
    os.set_blocking(reads, is_blocking)
    state = host.state()

    def write() -> None:
        with open(writes, "wb", buffering=0) as file:
            file.write(state[:10])
            wait_until(lambda: False, 0.05)  # whatever the hook does meanwhile, it reads the rest
            file.write(state[10:])

    writer = threading.Thread(target=write)
    writer.start()
    with open(reads, "rb"):
        ran = Ran(host, stdin=reads)
    writer.join()
    assert (ran.status, ran.stderr) == (0, "")


# Files


def test_config_json_that_is_a_fifo_is_not_waited_for(host: Host) -> None:
    config = host.root / "bundle/config.json"
    config.unlink()
    os.mkfifo(config)
    process = start(host)
    give(process, host.state())
    reason = "cannot be read: found a FIFO, expected a regular file"
    assert ended(process) == (1, f"nri hook create redis: {config}: {reason}\n")


@pytest.mark.parametrize("writes_much", [False, True], ids=["the reason", "a plugin's lines"])
def test_stderr_that_is_not_read_does_not_block_the_hook(host: Host, writes_much: bool) -> None:
    if writes_much:
        host.install("hanging", do=[["stderr", "x" * 100_000 + "\n"], ["put", "a", "b"]])
    with ends("a pipe") as stderr:
        stderr.fill()
        process = start(host, stderr=stderr.fd)
        give(process, host.state() if writes_much else b"")
        assert ended(process)[0] == (0 if writes_much else 1)


# What nothing else ends

STUCK = """
import os, signal, sys, time
from nri.process.deadline import Deadline
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])  # as a caller may have done
deadline = Deadline(0.1, time.monotonic())
deadline.doing = "it was opening a FIFO"
def report(text):
    print(text, file=sys.stderr, flush=True)
    open({fifo!r})
deadline.enforce(report)
open({fifo!r})
"""


def test_process_whose_report_blocks_is_killed(host: Host) -> None:
    os.mkfifo(host.root / "fifo")
    code = STUCK.format(fifo=str(host.root / "fifo"))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": SOURCE},
        capture_output=True,
        timeout=4 * SOON,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        -signal.SIGALRM,
        b"not done within 0.1 s: it was opening a FIFO\n",
    )


def test_hook_that_is_blocked_reports_what_it_was_doing(host: Host) -> None:
    code = (
        "import os, time; from nri import hook; from nri.node import in_use\n"
        "in_use.wait = lambda *_, **__: time.sleep(1000)\n"
        f"words = {['create', *host.options, '--deadline=0.1']!r}; hook.main(hook.parse(words), time.monotonic())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": SOURCE},
        capture_output=True,
        timeout=4 * SOON,
        check=False,
    )
    doing = f"it was reading the configuration, {host.conf} or {host.root}/conf.json"
    expected = f"nri hook create: not done within 0.1 s: {doing}\n"
    assert (done.returncode, done.stderr.decode()) == (1, expected)
