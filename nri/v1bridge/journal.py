"""The log in the journal, with fields: ``journalctl POD_NAME=web``.

The protocol is journald's own: a datagram for each entry, or an empty one with a sealed memfd for an entry that no
datagram can hold (https://systemd.io/JOURNAL_NATIVE_PROTOCOL/).
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import socket
from typing import TYPE_CHECKING, Any

from nri.types.gojson import shorten
from nri.v1bridge.datagrams import FACILITY, IDENTIFIER, DatagramHandler, severity

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterable, Iterator

SOCKET = "/run/systemd/journal/socket"
"""Where journald listens."""

STREAM = "JOURNAL_STREAM"
"""The variable that systemd sets for a service whose stderr is the journal: device and inode, systemd.exec(5)."""

MAX_FIELD = 1024
"""Maximum length of a field but the message, in characters: names are a runtime's."""

_OUTCOMES = {"answered": "ok", "failed": "error", "passed over": "passedOver"}
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL


class JournalHandler(DatagramHandler):
    """Send each line to the journal, as its message and with its fields.

    :raises OSError: the socket does not exist, or has no reader.
    """

    def __init__(self, path: str = SOCKET) -> None:
        super().__init__("the journal", path)

    def _encode(self, record: logging.LogRecord) -> bytes:
        pairs = [
            ("MESSAGE", self.format(record)),
            ("PRIORITY", str(severity(record))),
            ("SYSLOG_IDENTIFIER", IDENTIFIER),
            ("SYSLOG_FACILITY", str(FACILITY)),
        ]
        return encode([*pairs, *_fields(record)])

    def _transmit(self, sock: socket.socket, data: bytes) -> None:
        try:
            sock.send(data)
        except OSError as error:
            if error.errno not in (errno.EMSGSIZE, errno.ENOBUFS):
                raise
            fd = _sealed(data)
            try:
                rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))
                sock.sendmsg([], [rights])
            finally:
                os.close(fd)


def encode(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Return an entry of the journal."""
    entry = bytearray()
    for key, value in pairs:
        data = value.encode("utf-8", "backslashreplace")
        if b"\n" in data:
            entry += b"%s\n%s%s\n" % (key.encode(), len(data).to_bytes(8, "little"), data)
        else:
            entry += b"%s=%s\n" % (key.encode(), data)
    return bytes(entry)


def is_stderr() -> bool:
    """Return whether descriptor 2 is a stream to the journal."""
    try:
        status = os.fstat(2)
    except OSError:
        return False
    return os.environ.get(STREAM) == f"{status.st_dev}:{status.st_ino}"


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, str]]:
    """Give the fields of an event, or of a line about a pod or a plugin."""
    fields: dict[str, Any] = getattr(record, "fields", {})
    if "state" in fields:
        yield "STATE", fields["state"]
    if name := fields.get("container") or fields.get("pod"):
        namespace, _, rest = name.partition("/")
        pod, _, container = rest.rpartition("/") if "container" in fields else (rest, "", "")
        yield "POD_NAMESPACE", shorten(namespace, MAX_FIELD)
        yield "POD_NAME", shorten(pod, MAX_FIELD)
        if container:
            yield "CONTAINER_NAME", shorten(container, MAX_FIELD)
    if "id" in fields:
        yield "CONTAINER_ID", fields["id"]
    plugins = fields.get("plugins", ())
    if plugins or "plugin" in fields:
        for plugin in dict.fromkeys([each["plugin"] for each in plugins] or [fields["plugin"]]):
            yield "PLUGIN", shorten(plugin, MAX_FIELD)
    if outcome := _OUTCOMES.get(record.msg):
        yield "OUTCOME", outcome


def _sealed(data: bytes) -> int:
    """Return the descriptor of a memfd with these bytes, which no one can change any more."""
    fd = os.memfd_create(IDENTIFIER, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        written = 0
        while written < len(data):
            written += os.write(fd, data[written:])
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd
