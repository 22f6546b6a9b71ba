"""Talk to systemd over D-Bus: on its private socket, as root's ``systemctl`` does, or else on the system bus.

Sources: the D-Bus specification ("Authentication Protocol"), ``org.freedesktop.systemd1(5)``, systemd's
``bus_label_escape`` (src/basic/bus-label.c).
"""

from __future__ import annotations

import _socket  # the standard library's own; `socket` around it takes longer to load than all that is done here
import os
import time

from nri.errors import reason_of

from . import dbus
from .errors import UntoldError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Value = str | int | bytes | None

TIMEOUT = 0.3
"""Seconds for all questions of one process, on both sockets together. systemd may be busy for longer (a reload), and
a runtime waits for a chain of plugins, of which several may ask.
"""

MAX_LINE = 4096
"""Bytes of the answer to the authentication."""

SOCKETS = (("systemd/private", False), ("dbus/system_bus_socket", True))
"""Where systemd is reached, below /run; and whether that is a bus, which wants to be greeted."""

_SYSTEMD = "org.freedesktop.systemd1"
_OBJECT = "/org/freedesktop/systemd1"
_DIGITS = b"0123456789"
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def object_path(unit: str) -> str:
    """Return the D-Bus path of a unit: all but ASCII letters and digits, and a digit in front, are escaped."""
    path = f"{_OBJECT}/unit/"
    kept = _LETTERS
    for byte in os.fsencode(unit):
        if byte in kept:
            path += chr(byte)
        else:
            path += f"_{byte:02x}"
        kept = _LETTERS + _DIGITS
    return path


def connect(run: str) -> Bus:
    """Return a connection to systemd; *run* is where the node's ``/run`` is.

    :raises UntoldError: none of its sockets answers.
    """
    reasons = []
    until = time.monotonic() + TIMEOUT
    for name, is_bus in SOCKETS:
        try:
            return Bus(f"{run}/{name}", until, is_bus=is_bus)
        except UntoldError as error:
            reasons.append(str(error))
    raise UntoldError("; ".join(reasons))


class Bus:
    """A connection to systemd. All methods raise UntoldError."""

    __slots__ = ("_path", "_rest", "_serial", "_socket", "_until")

    def __init__(self, path: str, until: float, *, is_bus: bool) -> None:
        """Connect to the socket at *path*, and greet the bus if *is_bus*; all answers come *until* then."""
        self._path = path
        self._serial = 0
        self._rest = b""
        self._until = until
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        self._authenticate()
        if is_bus:
            self._ask("Hello", _hello)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def __del__(self) -> None:
        self.close()

    def unit_of(self, cgroup: str) -> Value:
        """Return the D-Bus path of the unit that a cgroup belongs to; "" for none."""
        try:
            return self._call(_OBJECT, f"{_SYSTEMD}.Manager", "GetUnitByControlGroup", cgroup)
        except _NoUnitError:
            return ""

    def get(self, path: str, interface: str, name: str) -> Value:
        """Return a property of a unit."""
        return self._call(path, "org.freedesktop.DBus.Properties", "Get", interface, name)

    def set(self, path: str, name: str, value: int | bytes) -> None:
        """Set a property of a unit for as long as the unit, or the node, runs."""
        self._ask(
            "SetProperties",
            lambda serial: dbus.set_properties(serial, path, name, value, destination=_SYSTEMD),
        )

    def _call(self, path: str, interface: str, member: str, *arguments: str) -> Value:
        return self._ask(
            member,
            lambda serial: dbus.call(
                serial, path, interface, member, *arguments, destination=_SYSTEMD
            ),
        )

    def _authenticate(self) -> None:
        try:
            self._wait()
            self._socket.connect(self._path)
            identity = str(os.geteuid()).encode().hex()
            self._socket.sendall(b"\0AUTH EXTERNAL " + identity.encode() + b"\r\n")
            while b"\r\n" not in self._rest:
                if len(self._rest) > MAX_LINE:
                    raise dbus.FormatError(f"an answer of more than {MAX_LINE} bytes")
                self._receive()
            line, _, self._rest = self._rest.partition(b"\r\n")
            if not line.startswith(b"OK "):
                raise dbus.FormatError(f"it answered {line[:80]!r}, expected OK")
            self._socket.sendall(b"BEGIN\r\n")
        except (OSError, dbus.FormatError) as error:
            raise UntoldError(
                f"systemd cannot be asked at {self._path}: {_reason(error)}"
            ) from error

    def _ask(self, member: str, message: Callable[[int], bytes]) -> Value:
        self._serial += 1
        try:
            self._socket.sendall(message(self._serial))
            reply = self._reply()
        except (OSError, dbus.FormatError) as error:
            raise UntoldError(
                f"systemd did not answer {member} at {self._path}: {_reason(error)}"
            ) from error
        if reply.type == dbus.ERROR:
            text = f"systemd refused {member}: {reply.error}: {reply.value!r}"
            if reply.error.endswith(".NoSuchUnit"):
                raise _NoUnitError(text)
            raise UntoldError(text)
        return reply.value

    def _reply(self) -> dbus.Message:
        """Return the reply to the last message; a bus may send signals before it."""
        while True:
            while len(self._rest) < dbus.FIXED or len(self._rest) < dbus.size(self._rest):
                self._receive()
            end = dbus.size(self._rest)
            message = dbus.read(self._rest[:end])
            self._rest = self._rest[end:]
            if message.reply_to == self._serial and message.type in (dbus.REPLY, dbus.ERROR):
                return message

    def _receive(self) -> None:
        self._wait()
        data = self._socket.recv(4096)
        if not data:
            raise ConnectionResetError("the connection was closed")
        self._rest += data

    def _wait(self) -> None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)


def _hello(serial: int) -> bytes:
    bus = "org.freedesktop.DBus"
    return dbus.call(serial, "/org/freedesktop/DBus", bus, "Hello", destination=bus)


class _NoUnitError(UntoldError):
    """There is no such unit."""


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer after {TIMEOUT:g} s"
    return reason_of(error)
