"""The start of a prefork server: ``TYPE prefork`` is spawned, and waited for until the plugin is loaded."""

from __future__ import annotations

import os
import select
import time
from _socket import AF_UNIX, SOCK_SEQPACKET, socket, socketpair

from nri.prefork import protocol
from nri.process.lines import MAX_LINE, readable
from nri.process.spawn import pipe, spawn
from nri.types.gojson import shorten

MAX_STDERR = 1024 * 1024
"""Bytes that a plugin may write to stderr while it loads; its server is ended when it writes more."""

MAX_REASON = 500
"""Characters of the reason why a server is refused, as it is logged."""

_CHUNK = 65536


class StartedServer:
    """A server process whose plugin loads.

    :raises OSError: when it can't be started.
    """

    def __init__(self, path: str, plugin: str) -> None:
        ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
        pipes: tuple[int, ...] = ()
        try:
            pipes = pipe()
            os.set_blocking(pipes[0], False)
            self.pid = spawn(path, [plugin, "prefork"], (theirs.fileno(), pipes[1], pipes[1]))
        except BaseException:
            ours.close()
            for number in pipes[:1]:
                os.close(number)
            raise
        finally:
            theirs.close()
            for number in pipes[1:]:
                os.close(number)
        self.control: socket = ours
        """The control socket."""
        self.files: list[str] = []
        """The files that the plugin was loaded from, except its executable; known when it is loaded."""
        self._plugin = plugin
        self._stderr = pipes[0]
        self._end = b""  # of its stderr

    def wait(self, until: float) -> str:
        """Wait until the plugin is loaded; return "", or the reason why it cannot be used.

        :param until: of :func:`time.monotonic`.
        """
        try:
            return self._wait(until)
        finally:
            stderr, self._stderr = self._stderr, -1
            os.close(stderr)

    def _wait(self, until: float) -> str:
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(self._stderr, select.POLLIN)
        size = 0
        message = None
        while message is None:
            left = until - time.monotonic()
            if left <= 0:
                return self._why_not("it does not become ready")
            for number, _ in poll.poll(left * 1000 + 1):
                if number == self.control.fileno():
                    message = self._receive()
                elif (read := self._read_stderr()) == 0:
                    poll.unregister(number)
                else:
                    size += read
            if size > MAX_STDERR:
                return f"it writes too much while it is loaded: more than {MAX_STDERR} bytes"
        word, argument = protocol.decode_message(message)
        if word == protocol.REFUSED:
            return shorten(readable(argument), MAX_REASON)
        if word != protocol.FILES:
            return self._why_not("it ends while it is loaded")
        self.files = protocol.decode_files(argument)
        return ""

    def _receive(self) -> bytes:
        try:
            return self.control.recv(protocol.MAX_MESSAGE)
        except OSError:
            return b""  # reset: the server has ended

    def _read_stderr(self) -> int:
        """Read once, and keep the end of stderr; return the number of bytes."""
        try:
            data = os.read(self._stderr, _CHUNK)
        except BlockingIOError:
            return 0
        self._end = (self._end + data)[-MAX_LINE:]
        return len(data)

    def _why_not(self, what: str) -> str:
        """Return the reason on the plugin's stderr, or ``what`` with the last line of its stderr."""
        for _ in range(MAX_STDERR // _CHUNK):  # what it wrote before it ended
            if not self._read_stderr():
                break
        if reason := stated_reason(self._end, self._plugin):
            return reason
        lines = self._end.strip().splitlines()
        return what + (f": {shorten(readable(lines[-1]), MAX_REASON)}" if lines else "")


def stated_reason(stderr: bytes, plugin: str) -> str:
    """Return the reason in the last line ``TYPE prefork: REASON`` of a plugin's stderr, or "" if there is none."""
    marker = f"{plugin} prefork: "
    for line in reversed(stderr.splitlines()):
        text = readable(line[:MAX_LINE])
        if text.startswith(marker):
            return shorten(text.removeprefix(marker), MAX_REASON)
    return ""
