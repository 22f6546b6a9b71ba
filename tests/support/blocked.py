"""Descriptors to write to whose reader stands still: a pipe, a socket, a terminal, full to the brim."""

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
_MOVES = 300  # milliseconds that the kernel has to bring on what a terminal holds back


class Ends:
    """The end that is written to, and the end that is not read until a test says so."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        if kind == "a pipe":
            self._reads, self.fd = os.pipe()
        elif kind == "a socket":
            ours, theirs = socket.socketpair()
            self._reads, self.fd = ours.detach(), theirs.detach()
        else:
            self._reads, self.fd = os.openpty()
            tty.setraw(self.fd)  # as it is written, and without an echo
        os.set_blocking(self._reads, False)

    def fill(self) -> None:
        """Write until nothing more is taken, not a byte."""
        os.set_blocking(self.fd, False)
        for data in (b"\n" * 4096, b"\n"):
            try:
                while True:
                    os.write(self.fd, data)
            except BlockingIOError:
                pass
        if self.kind == "a terminal":  # the kernel may make room a moment later; so it is stopped, too, as by Ctrl-S
            termios.tcflow(self.fd, termios.TCOOFF)
        os.set_blocking(self.fd, True)

    @property
    def is_blocking(self) -> bool:
        """Return whether a process that shares it still waits when it writes."""
        return not fcntl.fcntl(self.fd, fcntl.F_GETFL) & os.O_NONBLOCK

    def read(self) -> str:
        """The lines that have come by now, but for those that it was filled with, which are empty."""
        if self.kind == "a terminal":
            termios.tcflow(self.fd, termios.TCOON)
        data = b""
        poll = select.poll()
        poll.register(self._reads, select.POLLIN)
        while poll.poll(_MOVES if self.kind == "a terminal" else 0):
            try:
                more = os.read(self._reads, 65536)
            except OSError:  # of a terminal that is closed
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
