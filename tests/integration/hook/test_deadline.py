"""The hook's own end: whatever blocks, it is done in time; whatever ends it, its plugin ends with it."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nri import hook
from nri.client import read_config
from nri.hook.deadline import Deadline
from nri.hook.reporter import Outlet
from tests.support.host import OCI_CONFIG, plugin
from tests.support.processes import has_zombie, is_running
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.host import Host

SOURCE = str(Path(__file__).parents[3])
NRI = [sys.executable, "-c", "from nri.cli.entry import main; main()"]
PR_SET_CHILD_SUBREAPER = 36

HANGING = """#!{python} -IS
import os, time
if os.fork() == 0:
    os.setpgid(0, 0)
with open({pids!r}, "a") as file:
    file.write(f"{{os.getpid()}} ")
time.sleep(1000)
"""
"""Hangs with a child in a group of its own."""


@pytest.fixture
def host(host: Host) -> Host:
    """A host with a bundle and one plugin, which hangs with a child."""
    host.bundle(OCI_CONFIG)
    host.script("hanging", HANGING.format(python=sys.executable, pids=str(host.root / "pids")))
    host.configure(plugin("hanging"))
    return host


@pytest.fixture(autouse=True)
def no_signal_is_ignored() -> Iterator[None]:
    """A child would ignore what the caller of the tests ignores: nohup and background jobs of scripts do so."""
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGINT)}
    ignored = [number for number, handler in before.items() if handler == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)  # which another program does not inherit
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def start(host: Host, *words: str, **options: Any) -> subprocess.Popen[bytes]:
    """The hook as a process, as a runtime starts it: in the session and the group of its caller."""
    pipe = subprocess.PIPE
    streams = {"stdin": pipe, "stdout": pipe, "stderr": pipe} | options
    environment = {"PYTHONPATH": SOURCE}
    return subprocess.Popen([*NRI, "hook", "create", *host.options, *words], env=environment, **streams)


def give(process: subprocess.Popen[bytes], state: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(state)
    process.stdin.close()
    process.stdin = None


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Its exit status and stderr, when both have come to their end."""
    with process:
        _, stderr = process.communicate(timeout=SOON)
    return process.returncode, (stderr or b"").decode()


def hanging(host: Host) -> list[int]:
    """The plugin and its child, when they hang."""
    pids = host.root / "pids"
    assert wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2, SOON)
    return [int(pid) for pid in pids.read_text().split()]


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
        [*NRI, "hook", "--help"], env={"PYTHONPATH": SOURCE}, capture_output=True, check=True, text=True
    )
    return done.stdout


def test_a_plugin_that_is_passed_over_leaves_nothing_either(host: Host) -> None:
    host.configure(plugin("hanging", failure_policy="ignore", timeout=1))
    process = start(host)
    give(process, host.state())
    status, said = ended(process)
    assert status == 0
    assert said == "nri: hanging: failed, and is passed over (failurePolicy: ignore): killed: no result after 1 s\n"
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
    what = f"the container's state on stdin has not come to its end, after {len(begun)} bytes"
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


def test_a_log_that_can_not_be_opened_is_told_as_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(log))
    Outlet(sys.stderr, str(log)).say("hello")
    assert capsys.readouterr().err.endswith(f"the log file {log} cannot be written: it is a socket\n")
    # A process that leads a session has no terminal, and opening /dev/tty fails as opening such a FIFO does.
    program = "import sys; from nri.hook.reporter import Outlet; Outlet(sys.stderr, '/dev/tty').say('hello')"
    ran = subprocess.run(
        [sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, check=True, start_new_session=True
    )
    assert ran.stderr.endswith("the log file /dev/tty cannot be written: No such device or address\n")


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
from nri.hook.deadline import Deadline
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


def test_the_line_has_what_was_done_when_the_time_was_over() -> None:
    deadline = Deadline(8)
    assert 7 < deadline.left() <= 8
    assert Deadline(8, 0.0).left() in (0.0, pytest.approx(8, abs=8))
    assert deadline.passed("it was reading") == "not done within 8 s: it was reading"
    Outlet(None).say("nothing happens")


# The guard


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("how", ["by a runtime", "in a shell"])
def test_a_hook_that_a_signal_ends_leaves_no_plugin(host: Host, number: int, how: str) -> None:
    # A shell makes a job the leader of a process group: it can't have a session of its own then.
    process = start(host, process_group=0 if how == "in a shell" else None)
    give(process, host.state())
    pids = hanging(host)
    process.send_signal(number)
    assert ended(process) == (-number, "")
    assert wait_until(lambda: not any(map(is_running, pids)), SOON)
    assert wait_until(lambda: not host.processes(), SOON)


def guard_of(process: subprocess.Popen[bytes]) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    (guard,) = [int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_text() == "nri-watchdog\n"]
    return guard


def test_the_guard_holds_nothing_that_a_runtime_waits_for(host: Host) -> None:
    process = start(host, cwd=host.root)
    give(process, host.state())
    hanging(host)
    guard = guard_of(process)
    held = {int(fd): os.readlink(f"/proc/{guard}/fd/{fd}") for fd in os.listdir(f"/proc/{guard}/fd")}
    assert [held.pop(number) for number in (0, 1, 2)] == ["/dev/null"] * 3
    assert [each.partition(":")[0] for each in held.values()] == ["pipe"]  # by which it knows that the hook is there
    assert os.readlink(f"/proc/{guard}/cwd") == "/"
    os.kill(guard, signal.SIGSTOP)  # it can't end now, and the end of stderr comes all the same
    process.kill()
    for pid in hanging(host):
        os.kill(pid, signal.SIGKILL)
    assert ended(process) == (-signal.SIGKILL, "")
    os.kill(guard, signal.SIGKILL)


@pytest.fixture
def subreaper() -> Iterator[None]:
    """Subreaper become children of the test's process."""
    prctl = ctypes.CDLL(None).prctl
    assert prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    assert prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0


@pytest.mark.parametrize("how", ["by a runtime", "in a shell"])
@pytest.mark.parametrize("does", [["put", "a", "b"], ["error", "no"]], ids=["succeeds", "fails"])
def test_a_hook_that_ends_by_itself_leaves_neither_guard_nor_zombie(
    host: Host, subreaper: None, how: str, does: list[Any]
) -> None:
    host.install("hanging", do=[does])
    process = start(host, process_group=0 if how == "in a shell" else None)
    give(process, host.state())
    assert ended(process)[0] == (does[0] == "error")
    assert host.processes() == []
    assert not has_zombie()


def test_without_plugins_there_is_no_guard(host: Host, subreaper: None) -> None:
    host.configure()
    process = start(host)
    give(process, host.state())
    assert ended(process) == (0, "")
    assert not has_zombie()


def test_the_runtimes_own_processes_are_left_alone(host: Host) -> None:
    bystander = subprocess.Popen(["sleep", "1000"])
    other_group = subprocess.Popen(["sleep", "1000"], process_group=0)
    for how in (None, 0):
        (host.root / "pids").unlink(missing_ok=True)
        process = start(host, process_group=how)
        give(process, host.state())
        pids = hanging(host)
        process.kill()
        ended(process)
        assert wait_until(lambda: not any(map(is_running, pids)), SOON)  # noqa: B023
        assert wait_until(lambda: not host.processes(), SOON)
    for each in (bystander, other_group):
        assert each.poll() is None
        each.kill()
        each.wait()
