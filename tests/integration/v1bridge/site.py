"""The bridge on an embedded runtime, and a plugin that does what a test tells it to, started each way that there is.

A way is ``cold`` (started for each request), ``warm`` (a resident) or ``foreign`` (any program, started for each
request).
"""

from __future__ import annotations

import socket
import sys
import threading
from pathlib import Path
from typing import Any, Self

from nri import adaptation
from nri.config.entries import PluginEntry
from nri.v1bridge import Bridge, BridgeOptions
from nri.v2 import api, stub
from nri.v2.stub import Identity, Session
from tests.support.connected import at_work
from tests.support.host import Host
from tests.support.node import Node, bridge_options
from tests.support.pods import container, pod
from tests.support.runtime import Runtime
from tests.support.waiting import SOON, wait_until

SOURCE = str(Path(__file__).parents[3])

AMPLE = 60.0
"""Seconds of a deadline that is not what is tested: a machine that is twenty times slower keeps it."""

SHORT = 0.3
"""Seconds of a deadline for a plugin that never answers."""

NOTING = """
def note(file, text):
    with open(file, "a") as notes:
        notes.write(text + "\\n")
"""

SKEL = """#!{python}
import sys
sys.path.insert(0, {source!r})
import os, signal, time
from nri import skel
{noting}
class Rude(skel.Plugin):
    type = "rude"
    resident = True

    def invoke(self, request):
        result = request.new_result(self.type)
        if request.conf:
            note({notes!r}, str(os.getpid()))
            names = globals() | {{"request": request, "result": result}}
            exec(request.conf["do"], names)
            result = names["result"]
        return result

if __name__ == "__main__":
    skel.main(Rude())
"""

FOREIGN = """#!{python} -IS
import json, os, signal, sys, time
{noting}
def say(data):
    while data:
        data = data[os.write(1, data):]

conf = json.loads(sys.stdin.buffer.read()).get("conf") if {reads} else {{"do": "os.close(0)"}}
if conf:
    note({notes!r}, str(os.getpid()))
    exec(conf["do"])
say(b'{{"plugin": "rude", "version": "0.1", "error": ""}}')
"""


def install(host: Host, way: str, *, reads: bool = True) -> Path:
    """Install the plugin ``rude`` that is started this way."""
    text = SKEL if way in ("cold", "warm") else FOREIGN
    values = {
        "python": sys.executable,
        "source": SOURCE,
        "noting": NOTING,
        "notes": f"{host.root}/notes",
    }
    return host.script("rude", text.format(**values, reads=reads))


def entry(way: str, do: str = "", **options: Any) -> PluginEntry:
    """An entry for it that has it do this; nothing at all by default."""
    return PluginEntry(type="rude", conf={"do": do} if do else None, **options)


def start_error(runtime: adaptation.Runtime, **changes: Any) -> str:
    """A container starts; the error, "" for none."""
    try:
        runtime.start_container(pod(**changes), container())
    except adaptation.EventError as error:
        return str(error)
    return ""


class Attached:
    """A bridge in this process, and an embedded runtime that it serves."""

    def __init__(self, host: Host, *, resident: bool) -> None:
        self.host = host
        self._resident = resident
        self.bridge = Bridge(self._options(), lambda _text: self._options())
        host.closing.append(self.bridge.close)
        self.runtime = adaptation.Runtime(request_timeout=AMPLE)
        ours, theirs = socket.socketpair()
        session = Session(self.bridge, Identity(name="v1bridge", index="10"), theirs)
        self._session = threading.Thread(target=session.run, name="session")
        self._session.start()
        self.runtime.start()
        self.runtime.attach(ours)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def keeps_the_bridge(self) -> bool:
        return self.runtime.plugins == ["10-v1bridge"]

    def _options(self) -> BridgeOptions:
        return bridge_options(self.host, resident=self._resident, timeout=AMPLE, late_create=False)

    def close(self) -> None:
        self.end()
        assert wait_until(lambda: not at_work())
        assert wait_until(
            lambda: not [each for each in threading.enumerate() if each.name == "resident"]
        )
        assert wait_until(lambda: not self.host.processes())

    def end(self) -> None:
        """End the session and what waits for requests."""
        self._resident = False
        self.bridge.configure("", stub.RuntimeInfo(name="over", version="1.0"))
        self.runtime.close()
        self._session.join(SOON)
        assert not self._session.is_alive()


class Site(Attached):
    """A host with one plugin ``rude``, its bridge, and a runtime that the bridge serves."""

    def __init__(self, host: Host, way: str) -> None:
        self.way = way
        self.notes = host.root / "notes"
        install(host, way)
        host.configure(entry(way))
        super().__init__(host, resident=way == "warm")

    def install(self) -> Path:
        return install(self.host, self.way)

    def configure(self, do: str = "", *others: PluginEntry, **options: Any) -> None:
        """Have the plugin do this when it is asked next; nothing at all by default."""
        self.host.configure(entry(self.way, do, **options), *others)

    def start(self, **changes: Any) -> str:
        """A container starts; the error, "" for none."""
        return start_error(self.runtime, **changes)

    def make_ready(self) -> set[int]:
        """Wait for the resident, where there is one; returns its number."""
        if self.way != "warm":
            return set()
        self.configure()
        path = str(self.host.bin / "rude")

        def is_ready() -> bool:
            return self.start() == "" and wait_until(
                lambda: self.bridge.chains.residents.standing(path).state == "ready", 1
            )

        assert wait_until(is_ready)
        return set(self.host.processes())

    def served(self) -> list[int]:
        """The numbers of the processes that have been asked, in order."""
        return [int(pid) for pid in self.notes.read_text().split()] if self.notes.exists() else []


# The bridge with a runtime that a test drives step by step


class Connected(Node):
    """The bridge at one end of a socket, a runtime at the other."""

    def __init__(self, host: Host, **changes: Any) -> None:
        super().__init__(host, **changes)
        self.connect()

    def connect(self) -> None:
        ours, theirs = socket.socketpair()
        self.socket = ours
        self.fake = Runtime(theirs)
        self.session = Session(self.bridge, Identity(name="v1bridge", index="10"), ours)
        self.thread = threading.Thread(target=self.session.run)
        self.thread.start()

    def close(self) -> None:
        self.fake.close()
        self.thread.join(SOON)
        assert not self.thread.is_alive()


def ask(node: Connected, seconds: float = SOON) -> Any:
    request = api.StartContainerRequest(pod=pod(), container=container())
    return node.fake.event(api.Event.START_CONTAINER, request, timeout=seconds)
