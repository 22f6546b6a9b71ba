"""A plugin in a forked process: it finds what the contract names, and leaves nothing."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from nri.client import forking
from nri.process import children
from tests.support.forking import NAME, ROOT, forked, start_host, started
from tests.support.processes import is_running, open_fds
from tests.support.waiting import SOON, wait_until

INTROSPECTIVE = Path(__file__).parents[2] / "plugins/introspective.py"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / NAME


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory that both processes get from their parents."""
    monkeypatch.chdir("/")


def test_forked_process_finds_what_a_new_one_finds(script: Path) -> None:
    script.write_text(INTROSPECTIVE.read_text())
    own = json.loads(forked(script, stdin="a text", watchdog=True)["stdout"])
    new = json.loads(started(script, "a text")["stdout"])
    # Of an interpreter; a plugin's is its type.
    assert new["found"].pop("argv") == [str(script), "invoke"]
    assert own["found"].pop("argv") == [NAME, "invoke"]
    assert new["found"].pop("name").startswith("python")
    assert own["found"].pop("name") == NAME[:15]
    assert own["found"] == new["found"]
    assert own["own"] == {"session": True}


ENDS = {
    "exit 3": "import sys; sys.exit(3)",
    "exit 256": "import sys; sys.exit(256)",
    "an exception": "def fail():\n    raise ValueError('a reason')\nfail()",
    "os._exit": "import os\nos._exit(5)",
    "a signal": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "input": "import os, sys\nos.write(1, repr(sys.stdin.buffer.read()).encode()); sys.exit(0)",
}


@pytest.mark.parametrize("end", ENDS)
def test_forked_process_ends_as_a_new_one(script: Path, end: str) -> None:
    script.write_text(ENDS[end] + "\n")
    own, new = forked(script, stdin="a"), started(script, "a")
    for outcome in (own, new):
        # A traceback has the host's functions, too.
        outcome["stderr"] = outcome["stderr"].splitlines()[-1:]
    assert {key: own[key] for key in new} == new


@pytest.mark.parametrize("watchdog", [False, True], ids=["alone", "with a watchdog"])
def test_signal_runs_no_handler_of_the_host_in_it(script: Path, watchdog: bool) -> None:
    pid_file = script.with_suffix(".pid")
    script.write_text(
        f"import os, time\nopen({str(pid_file)!r}, 'w').write(str(os.getpid()))\ntime.sleep(1000)\n"
    )
    with start_host(script, watchdog=watchdog) as process:
        assert process.stdout is not None
        assert wait_until(lambda: pid_file.exists() and pid_file.read_text() != "")
        pid = int(pid_file.read_text())
        assert wait_until(lambda: is_asleep(pid))
        os.kill(pid, signal.SIGHUP)
        done = json.loads(process.stdout.readline())
    assert (done["status"], done["stderr"]) == (-signal.SIGHUP, "")


def is_asleep(pid: int) -> bool:
    """Whether a process has its own signal handlers, and sleeps."""
    status = Path(f"/proc/{pid}/status").read_text()
    return "State:\tS" in status and "SigCgt:\t0000000000000002\n" in status


def test_watchdog_ends_it_when_the_host_is_killed(script: Path, tmp_path: Path) -> None:
    marker = tmp_path / "begun"
    script.write_text(
        f"import os, time\nos.fork()\nopen({str(marker)!r}, 'a').write(f'{{os.getsid(0)}} ')\ntime.sleep(1000)\n"
    )
    with start_host(script, watchdog=True) as process:
        assert process.stdout is not None
        assert wait_until(lambda: marker.exists() and len(marker.read_text().split()) == 2)
        pid, same = marker.read_text().split()
        assert pid == same
        assert is_running(int(pid))
        process.kill()
        process.stdout.read()  # until none of them holds it
    assert wait_until(lambda: not is_running(int(pid)))


@pytest.mark.parametrize("call", ["fork", "pipe2", "set_blocking"])
def test_failing_system_call_leaves_nothing(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def fail(*_: object) -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(forking, "own_plugin", lambda _path: print)
    invoker = forking.ForkingInvoker()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    before = open_fds()
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(BlockingIOError):
            invoker.run("/bin/x", "x", b"", time.monotonic() + SOON, print)
    assert open_fds() == before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == mask
    assert not children.lock.locked()


# The project's plugins: their output is that of new processes, byte for byte

PLUGINS = [
    "clearcfs",
    "konfine",
    "logger",
    "device_injector",
    "hook_injector",
    "ulimit_adjuster",
    "qos",
]
CONF = {plugin: {"mountinfo": "/dev/null"} for plugin in ("clearcfs", "konfine")}
"""Confs of the plugins that look for a cgroup: it must not be looked for on this machine."""

TIME = re.compile(r'"time":"[^"]*"')  # in what the logger writes

RECORDED = [
    ROOT / f"nri/testing/recorded/containerd-{name}.json"
    for name in ("1.6.20-native.container-create", "1.7.24-adapter.container-delete")
]
BROKEN = '{"version": "0.1", "state": 7}'
