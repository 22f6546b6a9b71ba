"""A bridge that logs to its stderr, which is full, and whose reader stands still: from source, and compiled."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from nri import adaptation
from nri.config.entries import PluginEntry
from tests.integration.v1bridge.bridge_process import SOURCE
from tests.integration.v1bridge.site import start_error
from tests.support.blocked import KINDS, Ends, ends
from tests.support.host import Host
from tests.support.listening import listening
from tests.support.waiting import SOON, wait_until

COMMANDS = {
    "from source": [sys.executable, "-c", "from nri.cli.entry import main; main()", "bridge"],
    "compiled": [f"{SOURCE}/dist/nri/v1bridge"],
}


class Outside:
    """A runtime, and a bridge from outside whose log is its stderr."""

    def __init__(self, host: Host, command: list[str], stderr: int) -> None:
        self.host = host
        (host.root / "settings.json").write_text(
            f'{{"confDir": "{host.conf}", "confFile": "{host.root}/none", "binDirs": ["{host.bin}"], '
            f'"recordFile": "{host.root}/v1bridge.record"}}'
        )
        self.stack = contextlib.ExitStack()
        runtime = adaptation.Runtime(request_timeout=SOON)
        self.runtime = self.stack.enter_context(listening(runtime, f"{host.root}/nri.sock"))
        self.process = subprocess.Popen(
            [*command, "--socket", f"{host.root}/nri.sock", "--config", f"{host.root}/settings.json"],
            env={"PYTHONPATH": SOURCE},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
        assert wait_until(lambda: self.runtime.plugins, SOON)

    def start(self) -> str:
        """A container starts; the error, "" for none."""
        return start_error(self.runtime)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SOON)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.stack.close()


@pytest.fixture
def stderr() -> Iterator[Ends]:
    with ends("a pipe") as made:
        yield made


@pytest.fixture
def node(host: Host, stderr: Ends) -> Iterator[Outside]:
    host.conf.mkdir()
    node = Outside(host, COMMANDS["from source"], stderr.fd)
    yield node
    node.close()


def chatty(host: Host, *, fails: str = "") -> None:
    """A plugin that says much, and fails."""
    host.script("chatty", f"#!/bin/sh\ncat >/dev/null\nseq 500 >&2\n{fails or 'exit 3'}\n")
    host.configure(PluginEntry(type="chatty", failure_policy="ignore"))


@pytest.mark.parametrize(("kind", "command"), [*[(kind, "from source") for kind in KINDS], ("a pipe", "compiled")])
def test_pods_start_and_it_ends_in_time(request: pytest.FixtureRequest, host: Host, kind: str, command: str) -> None:
    if command == "compiled":
        request.getfixturevalue("binaries")
    host.conf.mkdir()
    with ends(kind) as stderr:
        node = Outside(host, COMMANDS[command], stderr.fd)
        try:
            serves_and_ends(host, node, stderr)
        finally:
            node.close()


def says(stderr: Ends, text: str) -> None:
    """Wait for a text in the log, which has a thread of its own."""
    said: list[str] = []

    def is_there() -> bool:
        said.append(stderr.read())
        return text in "".join(said)

    assert wait_until(is_there, SOON), "".join(said)


def serves_and_ends(host: Host, node: Outside, stderr: Ends) -> None:
    chatty(host)
    assert node.start() == ""
    says(stderr, "says state=create container=default/web/app id=1f92 plugin=chatty line=1\n")
    stderr.fill()
    for _ in range(20):
        assert node.start() == ""
    host.configure_text("{", name="20-broken.conf")
    assert node.start() == ""
    assert node.runtime.plugins == ["10-v1bridge"]
    assert stderr.is_blocking
    said = [stderr.read()]
    host.script("chatty", "#!/bin/sh\ncat >/dev/null\necho one line >&2\nexit 3\n")
    assert node.start() == ""

    def has_all() -> bool:
        said.append(stderr.read())
        text = "".join(said)
        return text.count(" error ignored state=create ") >= 20 and "the end of its stderr: one line" in text

    assert wait_until(
        has_all, SOON
    )  # what the queue has room for is not lost; what fills stderr may cut a line or two
    stderr.fill()
    assert node.start() == ""
    assert node.end() == 0


def test_a_request_that_runs_at_sigterm_is_answered(host: Host, node: Outside, stderr: Ends) -> None:
    chatty(host, fails=f": >{host.root}/begun; while [ ! -e {host.root}/go ]; do sleep 0.01; done; exit 3")
    stderr.fill()
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(node.start()))
    thread.start()
    assert wait_until((host.root / "begun").exists, SOON)
    node.process.send_signal(signal.SIGTERM)
    (host.root / "go").touch()
    thread.join(SOON)
    assert answers == [""]
    assert node.process.wait(SOON) == 0


def test_one_that_starts_with_a_full_stderr_is_connected(host: Host, stderr: Ends) -> None:
    stderr.fill()
    host.conf.mkdir()
    node = Outside(host, COMMANDS["from source"], stderr.fd)
    try:
        chatty(host)
        assert node.start() == ""
        assert node.end() == 0
    finally:
        node.close()


def test_terminal_with_tostop_does_not_stop_it(host: Host) -> None:
    """``stty tostop``: whoever writes and is not in the foreground is stopped by SIGTTOU."""
    import termios

    host.conf.mkdir()
    with ends("a terminal") as stderr:
        modes = termios.tcgetattr(stderr.fd)
        modes[3] |= termios.TOSTOP
        termios.tcsetattr(stderr.fd, termios.TCSANOW, modes)
        shell = (
            "import fcntl, os, sys, termios\n"
            "os.setsid(); fcntl.ioctl(2, termios.TIOCSCTTY, 0)\n"
            "pid = os.fork()\n"
            "if pid == 0: os.setpgid(0, 0); os.execv(sys.argv[1], sys.argv[1:])\n"
            "import signal\n"
            "signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))\n"
            "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
        )
        command = [sys.executable, "-IS", "-c", shell, *COMMANDS["from source"]]
        node = Outside(host, command, stderr.fd)
        try:
            chatty(host)
            assert node.start() == ""
            says(stderr, "says state=create")
            assert node.end() == 0
        finally:
            node.close()
