"""What a plugin gets when it starts, and that it ends with its processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nri.client import ChainError, Step
from nri.process import children, conversation
from nri.process.conversation import launch
from tests.support.host import Host, plugin, request
from tests.support.processes import all_reaped, has_zombie, is_running, kill
from tests.support.waiting import SOON, wait_until

SOURCE = str(Path(__file__).parents[3])


def soon() -> float:
    return time.monotonic() + SOON


def ignore(*_line: str) -> None:
    pass


def echo(host: Host, **options: Any) -> dict[str, Any]:
    """Run the plugin; return what it found."""
    host.install("noop")
    (result,) = host.client(plugin("noop", ["echo"]), **options).invoke(request(), "create")
    found: dict[str, Any] = result.extra["echo"]
    return found


def steps(host: Host, *do: list[list[Any]], **options: Any) -> tuple[Step, ...]:
    """Run the plugin with each of these lists of steps; not all of them must succeed."""
    host.install("noop")
    try:
        client = host.client(*[plugin("noop", *each) for each in do], log=ignore, **options)
        return tuple(client.steps(request(), "delete"))
    except ChainError as error:
        return error.steps


# What it gets


def test_plugin_is_run_by_its_path_without_a_shell(host: Host) -> None:
    odd = host.folder("bin; touch hacked; $(touch hacked) `touch hacked` | ' \" & *")
    host.install("noop", into=odd)
    found = echo(host, bin_dirs=[str(odd)])
    # The kernel replaces the first argument of a script.
    assert found["argv"] == [f"{odd}/noop", "invoke"]
    assert found["parent"] == os.getpid()
    assert found["leads its group"] is True
    assert found["request"] == json.loads(request(conf={"do": [["echo"]]}).to_json())
    output = launch(
        "/bin/sh", ["noop", "-c", "tr '\\0' '|' < /proc/$$/cmdline"], b"", soon(), log=ignore
    )
    assert output.stdout.startswith(b"noop|-c|")


@pytest.mark.parametrize(
    "do", [[], [["close", 0], ["stderr", "x\n", 2000]]], ids=["open", "closed"]
)
def test_request_that_is_not_read_is_no_fault(host: Host, do: list[Any]) -> None:
    host.install("noop", do=do)
    big = request(labels={"text": "x" * 1_000_000})  # more than a pipe holds
    assert len(host.client(plugin("noop"), log=ignore).invoke(big, "create")) == 1


@pytest.mark.parametrize("closed", ["1", "2", "0 1 2"])
def test_caller_without_standard_descriptors_is_served_the_same(host: Host, closed: str) -> None:
    """No pipe takes their place, or the host would print to the plugin's pipe."""
    host.install("noop")
    answer = host.root / "answer"
    code = f"""
import os
closed = {closed.split()!r}
def left():
    return [fd for fd in closed if os.path.exists(f"/proc/self/fd/{{fd}}")]
for fd in closed:
    os.close(int(fd))
from nri.client import Client, Invoker
from nri.config.entries import ConfigList, PluginEntry
from nri.process.spawn import prepare_process
from nri.process.spawn import pipe
from nri.types.v1 import Request
ends = pipe()
found = [min(ends) > 2, any(map(os.get_inheritable, ends)), left()]
plugin = PluginEntry(type="noop", conf={{"do": [["stderr", "said\\n"], ["echo"]]}})
lines = []
client = Client(ConfigList(plugins=[plugin]), Invoker([{str(host.bin)!r}]))
steps = client.invoke(Request(state="create", id="x"), "create", log=lambda *line: lines.append(line))
found += [sorted(steps[0].result.extra["echo"]["fds"]), lines, left()]
prepare_process()
found += [os.readlink(f"/proc/self/fd/{{fd}}") for fd in closed]
with open({str(answer)!r}, "w") as file:
    print(found, file=file)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": SOURCE}, timeout=10 * SOON, check=False
    )
    assert done.returncode == 0
    found = [
        True,
        False,
        [],
        [0, 1, 2],
        [("noop", "said")],
        [],
        *["/dev/null" for _ in closed.split()],
    ]
    assert answer.read_text() == f"{found}\n"


# That it ends


def test_hanging_plugin_is_killed_at_its_deadline(host: Host) -> None:
    kinds: list[list[list[Any]]] = [
        [["ignore", "SIGTERM"], ["ignore", "SIGINT"], ["ignore", "SIGHUP"], ["hang"]],
        [["answer"], ["hang"]],
        [["close", 1], ["close", 2], ["hang"]],
    ]
    done = steps(host, *kinds, timeout=0.3)
    assert [step.error and step.error.reason for step in done] == [
        "killed: no result after 0.3 s"
    ] * 3
    assert done[1].stdout.startswith(b"{")
    assert wait_until(lambda: len(host.processes()) <= 1)  # only a child that is in another group
    for pid in host.processes():
        kill(pid)


def test_plugin_that_does_not_read_is_killed_at_its_deadline(host: Host) -> None:
    host.install("noop", do=[["hang"]])
    big = request(labels={"text": "x" * 1_000_000})
    with pytest.raises(ChainError, match=r"^plugin noop: killed: no result after 0\.3 s$"):
        host.client(plugin("noop"), timeout=0.3).invoke(big, "create")


def test_kernel_without_pidfd_is_served(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def pidfd_open(_pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", pidfd_open)
    assert echo(host)["argv"][1] == "invoke"
    (exited,) = steps(host, [["answer"], ["exit", 3]])
    (hanging,) = steps(host, [["hang"]], timeout=0.2)
    assert str(exited.error) == "noop: exit status 3, although it wrote a result without error"
    assert str(hanging.error) == "noop: killed: no result after 0.2 s"


def test_caller_that_ignores_the_end_of_its_children_is_served(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert echo(host)["argv"][1] == "invoke"
        monkeypatch.setattr(os, "pidfd_open", lambda _pid: os.stat("/nowhere"))
        assert echo(host)["argv"][1] == "invoke"
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize(
    "end", [["answer"], ["exit", 1], ["flood", 1]], ids=["succeeds", "fails", "is killed"]
)
def test_children_of_a_plugin_end_with_it(host: Host, end: list[Any]) -> None:
    pid_file = host.root / "pid"
    (step,) = steps(host, [["child", str(pid_file)], end])
    assert (step.error is None) == (end == ["answer"])
    assert wait_until(lambda: not is_running(int(pid_file.read_text())))


def test_daemon_that_holds_stdout_open_is_not_waited_for(host: Host) -> None:
    pid_file = host.root / "pid"
    (step,) = steps(host, [["daemon", str(pid_file)]], timeout=1000)
    assert step.error is None
    assert is_running(int(pid_file.read_text()))  # it has left its parent and its group
    kill(int(pid_file.read_text()))


def test_nothing_is_left_when_the_log_fails(host: Host) -> None:
    def log(_plugin: str, _line: str) -> None:
        raise KeyboardInterrupt

    host.install("noop")
    with pytest.raises(KeyboardInterrupt):
        host.client(plugin("noop", ["stderr", "x\n"], ["hang"]), log=log).invoke(
            request(), "create"
        )
    assert wait_until(lambda: not host.processes())
    assert all_reaped()


def test_process_that_ends_late_is_reaped_by_the_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = set(children.started)
    with monkeypatch.context() as patch:
        # As in an uninterruptible system call.
        patch.setattr(conversation, "kill_group", lambda _pid: None)
        output = launch("/bin/sleep", ["sleep", "1000"], b"", time.monotonic() + 0.1, log=ignore)
    assert (output.stopped, output.status) == ("deadline", -signal.SIGKILL)
    (late,) = children.started - before
    assert is_running(late)
    kill(late)
    assert wait_until(has_zombie)
    launch("/bin/true", ["true"], b"", soon(), log=ignore)
    assert not has_zombie()
    assert children.started == before


STARTING = """
import os
from nri.process import children, watchdog
from nri.process.spawn import Pipes
watchdog.start(then=lambda: open("killed", "w").close())
os.chdir("/")
def begin():
    actions = [(os.POSIX_SPAWN_DUP2, pipes.theirs[0], 0)]
    print(os.posix_spawn("/bin/sleep", ["sleep", "1000"], {}, file_actions=actions, setsid=True), flush=True)
    os.kill(os.getpid(), 9)
with Pipes() as pipes:
    children.start_plugin(begin, pipes.theirs[0])
"""


def test_host_killed_while_it_starts_a_plugin_leaves_none(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTING]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL
    assert wait_until(lambda: not is_running(int(done.stdout)))
    assert wait_until((tmp_path / "killed").exists)  # in the host's first directory
