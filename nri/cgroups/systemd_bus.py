"""Talk to systemd over D-Bus: on its private socket, as root's ``systemctl`` does, or else on the system bus.

jeepney makes and reads the messages. It takes longer to load than the rest of a plugin, so this module is imported
only for a cgroup that looks like a unit's.

Sources: the D-Bus specification ("Message Protocol", "Authentication Protocol"), ``org.freedesktop.systemd1(5)``,
systemd's ``bus_label_escape`` (src/basic/bus-label.c).
"""

from __future__ import annotations

import os
import socket
import time

from jeepney import DBusAddress, HeaderFields, Message, MessageType, Parser, new_method_call
from jeepney.auth import BEGIN, Authenticator

from .errors import UntoldError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Value = int | bytes | str | bool | tuple[object, ...] | list[object]

TIMEOUT = 1.0
"""Seconds for all questions of one process. systemd may be busy for longer (a reload), and a runtime waits for us."""

MAX_REPLY = 65536
"""Bytes of a reply; the largest expected one is a set of CPUs."""

SOCKETS = (("systemd/private", False), ("dbus/system_bus_socket", True))
"""Where systemd is reached, below /run; and whether that is a bus, which wants to be greeted."""

_DIGITS = frozenset("0123456789")
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_SYSTEMD = "org.freedesktop.systemd1"
_MANAGER = DBusAddress("/org/freedesktop/systemd1", bus_name=_SYSTEMD, interface=f"{_SYSTEMD}.Manager")
_BUS = DBusAddress("/org/freedesktop/DBus", bus_name="org.freedesktop.DBus", interface="org.freedesktop.DBus")


def object_path(unit: str) -> str:
    """Return the D-Bus path of a unit: all but ASCII letters and digits, and a digit in front, are escaped."""
    return f"{_MANAGER.object_path}/unit/" + "".join(
        character
        if character in _LETTERS or (place and character in _DIGITS)
        else "".join(f"_{byte:02x}" for byte in os.fsencode(character))
        for place, character in enumerate(unit)
    )


def connect(run: str) -> Bus:
    """Return a connection to systemd; *run* is where the node's ``/run`` is.

    :raises UntoldError: none of its sockets answers.
    """
    reasons = []
    for name, is_bus in SOCKETS:
        path = f"{run}/{name}"
        try:
            return Bus(path, is_bus=is_bus)
        except UntoldError as error:
            reasons.append(str(error))
    raise UntoldError("; ".join(reasons))


class Bus:
    """A connection to systemd. All methods raise UntoldError."""

    __slots__ = ("_path", "_serial", "_socket", "_until")

    def __init__(self, path: str, *, is_bus: bool) -> None:
        """Connect to the socket at *path*, and greet the bus if *is_bus*."""
        self._path, self._serial, self._until = path, 0, time.monotonic() + TIMEOUT
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self._authenticate()
            if is_bus:
                self._call(new_method_call(_BUS, "Hello"))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def __del__(self) -> None:
        self.close()

    def unit_of(self, cgroup: str) -> str:
        """Return the D-Bus path of the unit that a cgroup belongs to; "" for none."""
        try:
            return str(self._call(new_method_call(_MANAGER, "GetUnitByControlGroup", "s", (cgroup,)))[0])
        except _NoUnitError:
            return ""

    def get(self, path: str, interface: str, name: str) -> Value:
        """Return a property of a unit."""
        address = DBusAddress(path, bus_name=_SYSTEMD, interface="org.freedesktop.DBus.Properties")
        value: Value
        ((_, value),) = self._call(new_method_call(address, "Get", "ss", (interface, name)))  # type and value
        return value

    def set(self, path: str, name: str, signature: str, value: Value) -> None:
        """Set a property of a unit for as long as the unit, or the node, runs."""
        address = DBusAddress(path, bus_name=_SYSTEMD, interface=f"{_SYSTEMD}.Unit")
        self._call(new_method_call(address, "SetProperties", "ba(sv)", (True, [(name, (signature, value))])))

    def _authenticate(self) -> None:
        try:
            self._socket.settimeout(TIMEOUT)
            self._socket.connect(self._path)
            self._socket.sendall(b"\0")
            dialogue = Authenticator(inc_null_byte=False)
            for line in dialogue:
                self._socket.sendall(line)
                dialogue.feed(self._received())
            self._socket.sendall(BEGIN)
        except (OSError, ValueError) as error:
            raise UntoldError(f"systemd cannot be asked at {self._path}: {_reason(error)}") from error

    def _call(self, message: Message) -> tuple[Any, ...]:
        self._serial += 1
        what = message.header.fields[HeaderFields.member]
        try:
            self._socket.sendall(message.serialise(self._serial))
            reply = self._reply()
        except (OSError, ValueError, LookupError) as error:
            raise UntoldError(f"systemd did not answer {what} at {self._path}: {_reason(error)}") from error
        if reply.header.message_type is MessageType.error:
            name = str(reply.header.fields.get(HeaderFields.error_name, ""))
            text = f"systemd refused {what}: {name}: {' '.join(map(str, reply.body))}"
            raise (_NoUnitError if name.endswith(".NoSuchUnit") else UntoldError)(text)
        return tuple(reply.body)

    def _reply(self) -> Message:
        """Return the reply to the last message; a bus may send signals before it."""
        parser, received = Parser(), 0
        while True:
            while (message := parser.get_next_message()) is not None:
                if message.header.fields.get(HeaderFields.reply_serial) == self._serial:
                    return message
            data = self._received()
            received += len(data)
            if received > MAX_REPLY:
                raise ValueError(f"more than {MAX_REPLY} bytes")
            parser.add_data(data, fds=[])

    def _received(self) -> bytes:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        data = self._socket.recv(4096)
        if not data:
            raise ConnectionResetError("the connection was closed")
        return data


class _NoUnitError(UntoldError):
    """There is no such unit."""


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer after {TIMEOUT:g} s"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
