"""The bridge as a process: launched by a runtime, or from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nri.status import status
from nri.v2 import api
from tests.support.host import Host, plugin
from tests.support.node import Node
from tests.support.pods import container, pod
from tests.support.processes import MEASURED
from tests.support.runtime import Runtime
from tests.support.waiting import SOON, wait_until

SOURCE = str(Path(__file__).parents[3])
START = """
import os
from nri import places
places.DEFAULT_RECORD_DIR = os.path.abspath("v1bridge.record")
from nri.v1bridge import log
log.SYSLOG = "/nonexistent"
log.DIRECTORY = os.path.abspath("var-log")
from nri.v1bridge import options
options.CONF_DIR = os.path.abspath("conf.d")
from nri.client import standing
from tests.support import scripts
standing.is_built = scripts.is_plugin
from nri.cli.bridge_entry import main
main()
"""
"""The executable, which keeps scripts running, too, and by default uses neither the machine's record nor its logs."""
COMMAND = [sys.executable, "-c", START]
AS_THREE = """
import os, sys
number = int(sys.argv[1])
os.dup2(number, 3)
os.set_inheritable(number, number == 3)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""What a runtime does between fork and exec: the socket becomes descriptor 3."""


class BridgeProcess:
    """A bridge's process on a host; its runtimes, and its log."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.node = Node(host)
        self.log_file = host.root / "bridge.log"
        self.path = str(host.root / "nri.sock")
        self.changes: dict[str, Any] = {}
        """Settings of ``outside``."""
        self.child: subprocess.Popen[bytes] | None = None
        self._listener: socket.socket | None = None
        self._runtimes: list[Runtime] = []

    def settings(self, **changes: Any) -> str:
        host = self.host
        places = {
            "confDir": str(host.conf),
            "confFile": f"{host.root}/conf.json",
            "binDirs": [str(host.bin)],
        }
        files = {"logFile": str(self.log_file), "recordDir": str(host.root / "v1bridge.record")}
        return json.dumps({**places, **files, "pluginTimeout": SOON, **changes})

    @property
    def log(self) -> str:
        return self.log_file.read_text() if self.log_file.exists() else ""

    @property
    def status(self) -> dict[str, Any]:
        """The document that its status socket sends."""
        return status(str(self.host.root / "v1bridge.sock"))

    # How it is started

    def start(self, *words: str, environment: dict[str, str] | None = None, **options: Any) -> None:
        self.child = subprocess.Popen(
            [*words],
            env={"PYTHONPATH": SOURCE, **MEASURED, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=options.pop("stdout", subprocess.DEVNULL),
            stderr=options.pop("stderr", subprocess.DEVNULL),
            cwd=self.host.root,
            **options,
        )

    def launch(
        self,
        name: str = "v1bridge",
        index: str = "10",
        *,
        command: Sequence[str] = tuple(COMMAND),
        **options: Any,
    ) -> Runtime:
        """As a runtime does."""
        ours, theirs = socket.socketpair()
        environment = {"NRI_PLUGIN_NAME": name, "NRI_PLUGIN_IDX": index, "NRI_PLUGIN_SOCKET": "3"}
        words = [sys.executable, "-IS", "-c", AS_THREE, str(theirs.fileno()), *command]
        self.start(*words, environment=environment, pass_fds=[theirs.fileno()], **options)
        theirs.close()
        self._runtimes.append(Runtime(ours))
        return self._runtimes[-1]

    def listen(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(SOON)
        here = os.getcwd()
        os.chdir(self.host.root)  # a socket's path is short
        try:
            self._listener.bind("nri.sock")
        finally:
            os.chdir(here)
        self._listener.listen()

    def accept(self) -> Runtime:
        assert self._listener is not None
        self._runtimes.append(Runtime(self._listener.accept()[0]))
        return self._runtimes[-1]

    def outside(self, *words: str, **options: Any) -> None:
        """By hand, with settings of its own, and paths that count from where it is started."""
        (self.host.root / "settings.json").write_text(self.settings(**self.changes))
        self.start(*COMMAND, "--socket", "nri.sock", "--config", "settings.json", *words, **options)

    def connect(
        self, *containers: api.Container, pods: Sequence[api.PodSandbox] | None = None
    ) -> Runtime:
        """Its next connection, with a pod and these containers; started from outside, if it does not run.

        :param pods: other pods.
        """
        if self.child is None:
            self.outside()
        runtime = self.accept()
        runtime.configure()
        runtime.synchronize([pod()] if pods is None else pods, containers)
        return runtime

    def serve(self, *words: str, **options: Any) -> Runtime:
        """From outside; its runtime, which has no pods."""
        self.listen()
        self.outside(*words, **options)
        runtime = self.accept()
        runtime.start()
        return runtime

    # How it ends

    @property
    def pid(self) -> int:
        assert self.child is not None
        return self.child.pid

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL
        self.child = None

    def end(self, runtime: Runtime) -> None:
        """End it as an upgrade does."""
        self.signal(signal.SIGTERM)
        assert self.wait() == 0
        self.child = None
        runtime.close()

    def wait(self) -> int:
        assert self.child is not None
        return self.child.wait(SOON)

    def signal(self, number: int) -> None:
        assert self.child is not None
        self.child.send_signal(number)

    def output(self) -> tuple[str, str]:
        """Its stdout and stderr, when it has ended."""
        assert self.child is not None
        stdout, stderr = self.child.communicate(timeout=SOON)
        self.child = None
        return (stdout or b"").decode(), (stderr or b"").decode()

    def close(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.output()
        for runtime in self._runtimes:
            runtime.close()
        if self._listener is not None:
            self._listener.close()

    def refusal(self, *words: str, **options: Any) -> str:
        """Start it, so that it ends at once; its stderr: one line."""
        self.start(*COMMAND, *words, stderr=subprocess.PIPE, **options)
        assert self.wait() == 1
        (line,) = self.output()[1].splitlines()
        assert line.isprintable()
        return line


@contextlib.contextmanager
def a_bridge(host: Host) -> Iterator[BridgeProcess]:
    """A bridge that a test starts; at the end it is killed, and no process of the host may be left."""
    bridge = BridgeProcess(host)
    try:
        yield bridge
    finally:
        bridge.close()
    assert wait_until(lambda: not host.processes())


def start_container(runtime: Runtime, seconds: float = SOON) -> Any:
    request = api.StartContainerRequest(pod=pod(), container=container())
    return runtime.event(api.Event.START_CONTAINER, request, timeout=seconds)


def stop_container(runtime: Runtime) -> None:
    request = api.StopContainerRequest(pod=pod(), container=container())
    runtime.event(api.Event.STOP_CONTAINER, request)


def create_container(runtime: Runtime, **changes: Any) -> None:
    request = api.CreateContainerRequest(pod=pod(), container=container(pid=0, **changes))
    runtime.event(api.Event.CREATE_CONTAINER, request)


def slow(host: Host, **options: Any) -> Any:
    """A plugin that notes the id of each request, and goes on when the file ``go`` is there."""
    host.script(
        "slow",
        f'#!/bin/sh\nsed \'s/.*"id":"\\([^"]*\\)".*/\\1 /\' >>{host.root}/begun\n'
        f"while [ ! -e {host.root}/go ]; do sleep 0.01; done\necho '{{}}'\n",
    )
    return plugin("slow", **options)
