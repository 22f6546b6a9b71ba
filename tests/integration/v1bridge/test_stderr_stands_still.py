"""A bridge that logs to its stderr, which is full, and whose reader stands still: from source, and compiled."""

from __future__ import annotations

import contextlib
import signal
import sys
import termios
from collections.abc import Iterator

import pytest

from nri import adaptation
from nri.config.entries import PluginEntry
from tests.integration.v1bridge.bridge_process import SOURCE, a_bridge
from tests.integration.v1bridge.site import start_error
from tests.support.blocked import KINDS, Ends, ends
from tests.support.host import Host
from tests.support.listening import listening
from tests.support.waiting import SOON, wait_until

COMMANDS = {
    "from source": [sys.executable, "-c", "from nri.cli.entry import main; main()", "bridge"],
    "compiled": [f"{SOURCE}/dist/nri/v1bridge"],
}
IN_BACKGROUND = """
import fcntl, os, signal, sys, termios
os.setsid(); fcntl.ioctl(2, termios.TIOCSCTTY, 0)
pid = os.fork()
if pid == 0: os.setpgid(0, 0); os.execv(sys.argv[1], sys.argv[1:])
signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
"""A shell whose terminal is stderr, and which runs a command in the background."""


@contextlib.contextmanager
def outside(host: Host, command: list[str], stderr: Ends) -> Iterator[adaptation.Runtime]:
    """A runtime with a bridge from outside whose log is its stderr, and which ends in time at SIGTERM."""
    runtime = adaptation.Runtime(request_timeout=SOON)
    with a_bridge(host) as bridge, listening(runtime, bridge.path):
        (host.root / "settings.json").write_text(bridge.settings(logFile=None))
        bridge.start(
            *command, "--socket", bridge.path, "--config", "settings.json", stderr=stderr.fd
        )
        assert wait_until(lambda: runtime.plugins)
        chatty(host)
        assert start_error(runtime) == ""
        yield runtime
        bridge.signal(signal.SIGTERM)
        assert bridge.wait() == 0


def chatty(host: Host, says: str = "seq 500") -> None:
    """A plugin that says much, and fails."""
    host.script("chatty", f"#!/bin/sh\ncat >/dev/null\n{says} >&2\nexit 3\n")
    host.configure(PluginEntry(type="chatty", failure_policy="ignore"))


def says(stderr: Ends, *texts: str) -> str:
    """Wait for texts in the log, which has a thread of its own; return all that was read."""
    said: list[str] = []

    def are_there() -> bool:
        said.append(stderr.read())
        return all(text in "".join(said) for text in texts)

    assert wait_until(are_there), "".join(said)
    return "".join(said)


@pytest.mark.parametrize(
    ("kind", "command"), [*[(kind, "from source") for kind in KINDS], ("a pipe", "compiled")]
)
def test_pods_start_and_it_ends_in_time(
    request: pytest.FixtureRequest, host: Host, kind: str, command: str
) -> None:
    if command == "compiled":
        request.getfixturevalue("binaries")
    with ends(kind) as stderr, outside(host, COMMANDS[command], stderr) as runtime:
        says(stderr, "says state=create container=default/web/app id=1f92 plugin=chatty line=1\n")
        stderr.fill()
        for _ in range(20):
            assert start_error(runtime) == ""
        host.configure_text("{", name="20-broken.conf")
        assert start_error(runtime) == ""
        assert runtime.plugins == ["10-v1bridge"]
        assert stderr.is_blocking
        said = [stderr.read()]
        chatty(host, "echo one line")
        assert start_error(runtime) == ""
        # What the queue has room for is not lost; what fills stderr may cut a line or two.
        said.append(says(stderr, "the end of its stderr: one line"))
        assert "".join(said).count(" error ignored state=create ") >= 20
        stderr.fill()
        assert start_error(runtime) == ""


def test_one_that_starts_with_a_full_stderr_is_connected(host: Host) -> None:
    with ends("a pipe") as stderr:
        stderr.fill()
        with outside(host, COMMANDS["from source"], stderr):
            pass


def test_terminal_with_tostop_does_not_stop_it(host: Host) -> None:
    """``stty tostop``: whoever writes and is not in the foreground is stopped by SIGTTOU."""
    with ends("a terminal") as stderr:
        modes = termios.tcgetattr(stderr.fd)
        modes[3] |= termios.TOSTOP
        termios.tcsetattr(stderr.fd, termios.TCSANOW, modes)
        command = [sys.executable, "-IS", "-c", IN_BACKGROUND, *COMMANDS["from source"]]
        with outside(host, command, stderr):
            says(stderr, "says state=create")
