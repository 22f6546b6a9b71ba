"""Descriptors to write to whose reader does not read: a full pipe, socket or terminal."""

from __future__ import annotations

import fcntl
import os
import select
import socket
import termios
import tty
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = ("a pipe", "a socket", "a terminal")
_MOVES = 300  # milliseconds for the kernel to deliver a terminal's pending output


class Ends:
    """The end that is written to, and the end that is not read until a test reads it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        if kind == "a pipe":
            self._reads, self.fd = os.pipe()
        elif kind == "a socket":
            ours, theirs = socket.socketpair()
            self._reads, self.fd = ours.detach(), theirs.detach()
        else:
            self._reads, self.fd = os.openpty()
            tty.setraw(self.fd)  # raw, and without an echo
        os.set_blocking(self._reads, False)

    def fill(self) -> None:
        """Write until not one more byte is taken."""
        os.set_blocking(self.fd, False)
        for data in (b"\n" * 4096, b"\n"):
            try:
                while True:
                    os.write(self.fd, data)
            except BlockingIOError:
                pass
        # The kernel may make room a moment later, so output is also stopped, as by Ctrl-S.
        if self.kind == "a terminal":
            termios.tcflow(self.fd, termios.TCOOFF)
        os.set_blocking(self.fd, True)

    @property
    def is_blocking(self) -> bool:
        """Return whether a process that shares it still waits when it writes."""
        return not fcntl.fcntl(self.fd, fcntl.F_GETFL) & os.O_NONBLOCK

    def read(self) -> str:
        """The lines that have arrived, without the empty lines that filled it."""
        if self.kind == "a terminal":
            termios.tcflow(self.fd, termios.TCOON)
        data = b""
        poll = select.poll()
        poll.register(self._reads, select.POLLIN)
        while poll.poll(_MOVES if self.kind == "a terminal" else 0):
            try:
                more = os.read(self._reads, 65536)
            except OSError:  # the terminal is closed
                break
            if not more:
                break
            data += more
        return "\n".join([line for line in data.decode().split("\n") if line])

    def leave(self) -> None:
        """Close the reader's end."""
        os.close(self._reads)
        self._reads = -1

    def close(self) -> None:
        os.close(self.fd)
        if self._reads >= 0:
            self.leave()


@contextmanager
def ends(kind: str) -> Iterator[Ends]:
    """Both ends; closed afterwards."""
    made = Ends(kind)
    try:
        yield made
    finally:
        made.close()
