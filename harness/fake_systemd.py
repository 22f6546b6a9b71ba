"""A systemd of its own for a test or a benchmark: its private socket, the calls of nri.cgroups, and faults.

Needs the package jeepney, which is a second opinion about D-Bus.

As in systemd (src/core/dbus-manager.c, dbus-unit.c, cgroup.c): GetUnitByControlGroup answers with the unit of the
cgroup or of the nearest one above; a property that is set is written to the cgroup a moment after the answer, and
with it all that the unit has for the same controller.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from jeepney import (
    DBusAddress,
    HeaderFields,
    Message,
    MessageType,
    Parser,
    new_error,
    new_method_return,
    new_signal,
)

from nri.cgroups.systemd_bus import object_path
from nri.cgroups.units import looks_like_unit

INFINITY = 2**64 - 1


class FakeSystemd:
    """Listens in ``run``, a node's ``/run``, while in its ``with`` block.

    :param units: the cgroup's path of each unit.
    :ivar properties: the properties of each unit, by its name.
    :ivar calls: the names of the methods that were called.
    :ivar fault: what to do instead of an answer: ``silent``, ``closed``, ``garbage``, ``endless`` or an error's name.
    """

    def __init__(self, run: Path, *units: str, socket_name: str = "systemd/private") -> None:
        self.run, self.fault = run, ""
        self.calls: list[str] = []
        self.cgroups: dict[str, str] = {}
        self.properties: dict[str, dict[str, Any]] = {}
        for path in units:
            self.add_unit(path)
        (run / "systemd/system").mkdir(parents=True)
        self._path = run / socket_name
        self._path.parent.mkdir(exist_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._peers: list[tuple[socket.socket, threading.Thread]] = []
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._listener.bind(str(self._path))
        self._listener.listen()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for peer, thread in self._peers:
            with suppress(OSError):  # it is closed
                peer.shutdown(socket.SHUT_RDWR)
            thread.join()
        self._listener.close()

    def add_unit(self, path: str, quota: int | None = None) -> None:
        """Add the unit of a cgroup, if its path is one that a unit has; *quota* in microseconds per second."""
        name = path.rpartition("/")[2]
        if looks_like_unit(path):
            self.cgroups[object_path(name)] = path
            self.properties[name] = {
                "CPUQuotaPerSecUSec": INFINITY if quota is None else quota,
                "AllowedCPUs": b"",
            }

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._talk, args=(peer,))
            self._peers.append((peer, thread))
            thread.start()

    def _talk(self, peer: socket.socket) -> None:
        with suppress(OSError), peer, peer.makefile("rb") as lines:
            _require(lines.read(1) == b"\0")
            _require(lines.readline().startswith(b"AUTH EXTERNAL "))
            peer.sendall(b"OK 0123456789abcdef0123456789abcdef\r\n")
            _require(lines.readline() == b"BEGIN\r\n")
            parser = Parser()
            while data := lines.read1():
                parser.add_data(data, fds=[])
                while (message := parser.get_next_message()) is not None:
                    if not self._answer(peer, message):
                        return

    def _answer(self, peer: socket.socket, message: Message) -> bool:
        member = message.header.fields[HeaderFields.member]
        self.calls.append(member)
        if self.fault == "silent":
            peer.recv(1)  # until the caller gives up
            return False
        if self.fault == "closed":
            return False
        if self.fault == "garbage":
            peer.sendall(b"\xff" * 64)
            return True
        if self.fault == "endless":
            header = bytearray(
                new_signal(DBusAddress("/", interface="a.b"), "Endless").serialise(1)
            )
            header[4:8] = (1 << 24).to_bytes(4, "little")  # the size of its body
            peer.sendall(header)
            while True:
                peer.sendall(bytes(65536))
        if self.fault:
            answer = new_error(message, self.fault, "s", ("not today",))
        else:
            answer = {
                "Hello": self.hello,
                "GetUnitByControlGroup": self.unit_of,
                "Get": self.get,
                "SetProperties": self.set_properties,
            }[member](message)
        _require(answer.header.message_type in (MessageType.error, MessageType.method_return))
        peer.sendall(answer.serialise(serial=len(self.calls)))
        return True

    def unit_of(self, message: Message) -> Message:
        """Answer with the unit that owns a cgroup."""
        above = message.body[0]
        while above:
            for path, cgroup in self.cgroups.items():
                if cgroup == above:
                    return new_method_return(message, "o", (path,))
            above = above.rpartition("/")[0]
        return new_method_return(message, "o", (object_path("-.slice"),))

    def hello(self, message: Message) -> Message:
        """Greet a connection, as a bus does."""
        return new_method_return(message, "s", (":1.7",))

    def get(self, message: Message) -> Message:
        """Answer with a property of a unit."""
        interface, name = message.body
        unit = self._unit(message)
        _require(interface.lower() == f"org.freedesktop.systemd1.{unit.rpartition('.')[2]}")
        value = self.properties[unit][name]
        return new_method_return(
            message, "v", (("ay" if isinstance(value, bytes) else "t", value),)
        )

    def set_properties(self, message: Message) -> Message:
        """Set properties of a unit, for as long as it runs."""
        runtime, properties = message.body
        _require(runtime is True)
        self.properties[self._unit(message)].update(
            {name: value for name, (_, value) in properties}
        )
        return new_method_return(message)

    def _unit(self, message: Message) -> str:
        return self.cgroups[message.header.fields[HeaderFields.path]].rpartition("/")[2]


def _require(is_right: bool) -> None:
    if not is_right:
        raise AssertionError("a client has sent what systemd does not understand")
