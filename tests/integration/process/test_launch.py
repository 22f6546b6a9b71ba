"""What a plugin gets when it starts, and that it ends with its processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nri.client import ChainError
from nri.process import children, wait
from nri.process.launch import launch
from tests.support.host import Host, plugin, request
from tests.support.processes import all_reaped, has_zombie, is_running, kill, open_fds
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = str(Path(__file__).parents[3])


def echo(host: Host, **options: Any) -> dict[str, Any]:
    """Run the plugin; return what it found."""
    host.install("noop")
    (result,) = host.client(plugin("noop", ["echo"]), **options).invoke(request(), "create")
    found: dict[str, Any] = result.extra["echo"]
    return found


def failure(host: Host, *do: list[Any], **options: Any) -> str:
    """Run one plugin; return why it failed."""
    host.install("noop")
    with pytest.raises(ChainError) as caught:
        host.client(plugin("noop", *do), **options).invoke(request(), "create")
    return str(caught.value)


@pytest.fixture
def pid_file(host: Host) -> Iterator[Path]:
    """The file that a plugin's child writes its pid to; the child is killed at the end of the test."""
    file = host.root / "pid"
    yield file
    if file.exists():
        kill(int(file.read_text()))


def is_gone(pid_file: Path) -> bool:
    """Wait for the end of the child; return whether it came."""
    return wait_until(lambda: not is_running(int(pid_file.read_text())), SOON)


# What it gets


def test_it_is_run_by_its_path_with_its_type_and_invoke(host: Host) -> None:
    assert echo(host)["argv"] == [f"{host.bin}/noop", "invoke"]  # the kernel replaces the first argument of a script


def test_its_first_argument_is_the_callers() -> None:
    output = launch("/bin/sh", ["noop", "-c", "tr '\\0' '|' < /proc/$$/cmdline"], b"", soon(), log=ignore)
    assert output.stdout.startswith(b"noop|-c|")


def test_no_shell_runs_it(host: Host) -> None:
    odd = host.folder("bin; touch hacked; $(touch hacked) `touch hacked` | ' \" & *")
    host.install("noop", into=odd)
    (result,) = host.client(plugin("noop", ["echo"]), bin_dirs=[str(odd)]).invoke(request(), "create")
    assert result.extra["echo"]["argv"] == [f"{odd}/noop", "invoke"]
    assert result.extra["echo"]["parent"] == os.getpid()


def test_its_environment_is_fixed(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LD_PRELOAD", "PYTHONPATH", "SECRET", "PATH", "HOME", "LANG", "TMPDIR"):
        monkeypatch.setenv(name, "/nowhere")
    assert echo(host)["environment"] == [
        "HOME=/",
        "LANG=C.UTF-8",
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ]


def test_it_has_no_descriptors_but_three(host: Host) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    high = os.dup2(writer, 200, inheritable=True)
    try:
        assert sorted(echo(host)["fds"]) == [0, 1, 2]
    finally:
        for fd in (reader, writer, high):
            os.close(fd)


def test_it_leads_a_process_group_of_its_own(host: Host) -> None:
    assert echo(host)["leads its group"] is True


def test_no_signal_is_ignored_or_blocked(host: Host) -> None:
    signals = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGRTMAX]
    before = {number: signal.signal(number, signal.SIG_IGN) for number in signals}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGALRM})
    try:
        host.script("sh", "#!/bin/sh\nexec grep Sig /proc/self/status >&2\n")
        lines: list[str] = []
        launch(f"{host.bin}/sh", ["sh"], b"", soon(), log=lines.append)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number, handler in before.items():
            signal.signal(number, handler)
    masks = dict(line.split(": ") for line in lines)
    of_the_c_library = 0b111 << 31  # 32 to 34
    assert int(masks["SigIgn"], 16) & ~of_the_c_library == 0
    assert int(masks["SigBlk"], 16) == 0


def test_it_is_sent_the_whole_request(host: Host) -> None:
    assert echo(host)["request"] == json.loads(request(conf={"do": [["echo"]]}).to_json())


def test_a_request_of_megabytes_arrives(host: Host) -> None:
    host.install("noop")
    big = request(labels={"text": "x" * 3_000_000})
    (result,) = host.client(plugin("noop", ["echo"]), max_output=10_000_000).invoke(big, "create")
    assert result.extra["echo"]["request"]["labels"] == big.labels


def test_a_request_that_is_not_read_is_no_fault(host: Host) -> None:
    host.install("noop", do=[])
    results = host.client(plugin("noop")).invoke(request(labels={"text": "x" * 1_000_000}), "create")
    assert len(results) == 1


def test_a_plugin_that_closes_its_stdin_is_no_fault(host: Host) -> None:
    host.install("noop", do=[["close", 0], ["stderr", "x\n", 2000]])
    results = host.client(plugin("noop"), log=ignore).invoke(request(labels={"text": "x" * 1_000_000}), "create")
    assert len(results) == 1


@pytest.mark.parametrize("closed", ["0", "1", "2", "0 1 2"])
def test_a_caller_without_standard_descriptors_is_served_the_same(host: Host, closed: str) -> None:
    host.install("noop")
    answer = host.root / "answer"
    code = f"""
import os
for fd in {closed.split()!r}:
    os.close(int(fd))
from nri.client import Client, DirectInvoker
from nri.config.entries import ConfigList, PluginEntry
from nri.types.v1 import Request
plugin = PluginEntry(type="noop", conf={{"do": [["stderr", "said\\n"], ["echo"]]}})
lines = []
client = Client(ConfigList(plugins=[plugin]), DirectInvoker([{str(host.bin)!r}]))
steps = client.invoke(Request(state="create", id="x"), "create", log=lambda *line: lines.append(line))
result = steps[0].result
with open({str(answer)!r}, "w") as file:
    print(sorted(result.extra["echo"]["fds"]), lines, file=file)
"""
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": SOURCE}, timeout=SOON, check=False)
    assert done.returncode == 0
    assert answer.read_text() == "[0, 1, 2] [('noop', 'said')]\n"


def test_where_standard_descriptors_are_closed_no_pipe_takes_their_place(host: Host) -> None:
    """Otherwise the host would print to the plugin's pipe."""
    answer = host.root / "answer"
    code = f"""
import os
from nri.process.spawn import pipe
for fd in (0, 1, 2):
    os.close(fd)
ends = pipe()
left = [fd for fd in (0, 1, 2) if os.path.exists(f"/proc/self/fd/{{fd}}")]
with open({str(answer)!r}, "w") as file:
    print(min(ends) > 2, any(map(os.get_inheritable, ends)), left, file=file)
"""
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": SOURCE}, timeout=SOON, check=False)
    assert done.returncode == 0
    assert answer.read_text() == "True False []\n"


@pytest.mark.parametrize("closed", ["1", "0 1 2"])
def test_a_process_of_our_own_opens_the_standard_descriptors_that_are_closed(host: Host, closed: str) -> None:
    answer = host.root / "answer"
    code = f"""
import os
from nri.process.inherit import prepare_process
for fd in {closed.split()!r}:
    os.close(int(fd))
prepare_process()
with open({str(answer)!r}, "w") as file:
    print(file.fileno() > 2, *[os.readlink(f"/proc/self/fd/{{fd}}") for fd in {closed.split()!r}], file=file)
"""
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": SOURCE}, timeout=SOON, check=False)
    assert done.returncode == 0
    assert answer.read_text().split() == ["True", *["/dev/null" for _ in closed.split()]]


# That it ends


def soon() -> float:
    return time.monotonic() + SOON


def ignore(*_line: str) -> None:
    pass


@pytest.mark.parametrize(
    "do",
    [
        [["hang"]],
        [["ignore", "SIGTERM"], ["ignore", "SIGINT"], ["ignore", "SIGHUP"], ["hang"]],
        [["answer"], ["hang"]],
        [["close", 1], ["close", 2], ["hang"]],
        [["leave_group"], ["hang"]],
    ],
    ids=["sleeps", "ignores signals", "has answered", "has closed its output", "has left its group"],
)
def test_a_plugin_that_does_not_end_is_killed_at_its_deadline(host: Host, do: list[Any]) -> None:
    started = time.monotonic()
    assert failure(host, *do, timeout=0.3) == "plugin noop: killed: no result after 0.3 s"
    assert time.monotonic() - started < SOON
    # A child in another group is left, and this test ends it; the plugin itself is killed.
    others = 1 if do[0] == ["leave_group"] else 0
    assert wait_until(lambda: len(host.processes()) <= others)
    for pid in host.processes():
        kill(pid)


def test_a_plugin_that_hangs_before_it_has_read_its_request_is_killed_at_its_deadline(host: Host) -> None:
    host.install("noop", do=[["hang"]])
    big = request(labels={"text": "x" * 1_000_000})  # more than a pipe holds
    with pytest.raises(ChainError, match=r"^plugin noop: killed: no result after 0\.3 s$"):
        host.client(plugin("noop"), timeout=0.3).invoke(big, "create")


def test_a_kernel_without_pidfd_is_served(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def pidfd_open(_pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", pidfd_open)
    assert echo(host)["argv"][1] == "invoke"
    assert failure(host, ["hang"], timeout=0.2) == "plugin noop: killed: no result after 0.2 s"
    assert "exit status 3" in failure(host, ["answer"], ["exit", 3])


def test_a_caller_that_ignores_its_childrens_end_is_served(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert echo(host)["argv"][1] == "invoke"
        monkeypatch.setattr(os, "pidfd_open", lambda _pid: os.stat("/nowhere"))
        assert echo(host)["argv"][1] == "invoke"
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize("end", [["hang"], ["exit", 1], ["crash", "SIGKILL"], ["flood", 1]], ids=str)
def test_children_of_a_plugin_that_fails_are_killed_with_it(host: Host, end: list[Any], pid_file: Path) -> None:
    failure(host, ["child", str(pid_file)], end, timeout=1.0)
    assert is_gone(pid_file)


def test_children_of_a_plugin_that_succeeds_end_with_it(host: Host, pid_file: Path) -> None:
    host.install("noop")
    results = host.client(plugin("noop", ["child", str(pid_file)])).invoke(request(), "create")
    assert len(results) == 1
    assert is_gone(pid_file)


def test_a_daemon_that_holds_stdout_open_is_not_waited_for(host: Host, pid_file: Path) -> None:
    host.install("noop")
    started = time.monotonic()
    results = host.client(plugin("noop", ["daemon", str(pid_file)])).invoke(request(), "create")
    assert len(results) == 1
    assert time.monotonic() - started < SOON
    assert is_running(int(pid_file.read_text()))  # it has left its parent and its group
    kill(int(pid_file.read_text()))


def test_nothing_is_left_when_the_log_fails(host: Host) -> None:
    def log(_plugin: str, _line: str) -> None:
        raise KeyboardInterrupt

    host.install("noop")
    with pytest.raises(KeyboardInterrupt):
        host.client(plugin("noop", ["stderr", "x\n"], ["hang"]), log=log).invoke(request(), "create")
    assert wait_until(lambda: not host.processes())
    assert all_reaped()


class Powerless:
    """``os``, except that nothing is killed, as in an uninterruptible system call."""

    def kill(self, pid: int, number: int) -> None:
        pass

    killpg = kill

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)


def test_a_process_that_ends_late_is_reaped_when_the_next_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(children.started)
    with monkeypatch.context() as patch:
        patch.setattr(wait, "os", Powerless())
        output = launch("/bin/sleep", ["sleep", "1000"], b"", time.monotonic() + 0.1, log=ignore)
    assert (output.stopped, output.status) == ("deadline", -signal.SIGKILL)
    (late,) = children.started - before
    assert is_running(late)
    kill(late)
    assert wait_until(has_zombie)
    launch("/bin/true", ["true"], b"", soon(), log=ignore)
    assert not has_zombie()
    assert children.started == before


FAULTS: dict[str, list[list[Any]]] = {
    "none": [],
    "error": [["error", "no"]],
    "exit status": [["exit", 3]],
    "signal": [["crash", "SIGSEGV"]],
    "nothing": [["nothing"]],
    "garbage": [["write", "<html>"]],
    "deadline": [["hang"]],
    "flood": [["flood", 1]],
    "stderr": [["stderr", "x\n", 100_000]],
    "closed": [["close", 0], ["close", 1], ["close", 2], ["exit", 0]],
}


def test_no_fault_leaves_a_descriptor_or_a_zombie(host: Host) -> None:
    host.install("noop")
    host.script("broken", "#!/nowhere\n")
    plugins = [plugin("noop", *do, failure_policy="ignore") for do in FAULTS.values()]
    plugins += [plugin("broken", failure_policy="ignore"), plugin("missing", failure_policy="ignore")]
    client = host.client(*plugins, timeout=0.5, log=ignore)
    before = open_fds()
    client.invoke(request(), "create")
    assert open_fds() == before
    assert all_reaped()
    assert wait_until(lambda: not host.processes())
