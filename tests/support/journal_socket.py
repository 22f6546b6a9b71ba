"""A journal for tests: a real datagram socket, read by the rules of systemd.io/JOURNAL_NATIVE_PROTOCOL."""

from __future__ import annotations

import array
import fcntl
import os
import re
import socket
from typing import TYPE_CHECKING

from tests.support.waiting import SOON

if TYPE_CHECKING:
    from pathlib import Path

Entry = dict[str, list[str]]
"""The fields of an entry; a field can have several values."""

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL


class Journal:
    """Listens at ``path``; :attr:`large` counts the entries that came in a memfd."""

    def __init__(self, path: Path | str) -> None:
        self.large = 0
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(SOON)

    def entry(self) -> Entry:
        """Return the next entry."""
        payload, ancillary, flags, _ = self.socket.recvmsg(1 << 20, socket.CMSG_SPACE(16))
        assert not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
        if not ancillary:
            assert payload
            return parse(payload)
        ((level, kind, data),) = ancillary
        assert (level, kind, payload) == (socket.SOL_SOCKET, socket.SCM_RIGHTS, b"")
        fds = array.array("i", data)
        assert len(fds) == 1
        self.large += 1
        with open(fds[0], "rb") as file:
            assert fcntl.fcntl(file.fileno(), fcntl.F_GET_SEALS) == SEALS
            assert os.readlink(f"/proc/self/fd/{file.fileno()}").startswith("/memfd:")
            return parse(os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0))

    def close(self) -> None:
        """Take no more entries."""
        self.socket.close()


def parse(data: bytes) -> Entry:
    """Return an entry's fields."""
    entry: Entry = {}
    while data:
        line, end, rest = data.partition(b"\n")
        assert end
        key, is_text, value = line.partition(b"=")
        if is_text:
            data = rest
        else:
            size = int.from_bytes(rest[:8], "little")
            value, end, data = rest[8 : 8 + size], rest[8 + size : 9 + size], rest[9 + size :]
            assert (len(value), end) == (size, b"\n")
        name = key.decode("ascii")
        assert re.fullmatch("[A-Z][A-Z0-9_]{0,63}", name), name  # journald drops others
        entry.setdefault(name, []).append(value.decode())
    return entry
