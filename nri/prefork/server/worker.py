"""A worker: a forked process that waits for one request, answers it, and ends as the interpreter ends a process."""

from __future__ import annotations

import gc
import os
import sys
from _io import BytesIO

from nri.interpreter_end import flush_files, run_exit_functions
from nri.prefork.protocol import RequestDecoder, encode_end, encode_piece, encode_request
from nri.prefork.server.prefault import REQUEST, prefault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

_CHUNK = 16384  # for more than some ten thousand bytes malloc(3) calls the kernel


class Program:
    """The plugin as its server runs it.

    :param name: the plugin's type, for messages.
    :param uses: modules that are loaded before the first request.
    :param answer: called with a plugin, the request and the file for the result; returns the exit status.
    :param rehearsal: a plugin for requests that are rehearsed.
    :param classes: the plugin's own classes, whose code is prefaulted.
    """

    __slots__ = ("answer", "classes", "name", "plugin", "rehearsal", "uses")

    def __init__(
        self,
        name: str,
        uses: tuple[str, ...],
        answer: Callable[[Any, RequestFile, BytesIO], int],
        plugin: object,
        rehearsal: object,
        classes: list[type],
    ) -> None:
        self.name, self.uses, self.classes = name, uses, classes
        self.answer, self.plugin, self.rehearsal = answer, plugin, rehearsal


class RequestFile:
    """The request as a file that is read to its end. The constructor blocks until the request begins to arrive.

    :param prepare: called when the host asks for it before the request; without one it does not ask.
    """

    def __init__(self, channel: int, data: bytes = b"", prepare: Callable[[], None] | None = None) -> None:
        self._channel = channel
        self._decoder = RequestDecoder(skips=prepare is not None)
        self._data = self._decoder.feed(data or self._receive())
        while self._decoder.left is None:
            if prepare is not None and self._decoder.is_asked:
                prepare()
                prepare = None
            self._data = self._decoder.feed(self._receive())

    def read(self, size: int) -> bytes:
        """Return the bytes that arrive next; none at the end of the request."""
        data, self._data = self._data, b""
        if not data and self._decoder.left:
            data = self._decoder.feed(self._receive())
        return data

    def _receive(self) -> bytes:
        data = os.read(self._channel, _CHUNK)
        if not data:
            os._exit(0)  # the host has given up this worker; half of a request is dropped
        return data


def rehearse(program: Program) -> None:
    """Answer a request without the plugin, which fills caches and prefaults what is the same for all plugins."""
    status, result = _answer(program, program.rehearsal, RequestFile(0, encode_request(REQUEST)))
    flush_files()
    encode_piece(result) + encode_end(status)


def work(program: Program, channel: int, stderr: int, *, is_lazy: bool) -> NoReturn:
    """Wait for a request on the socket ``channel``, answer it, and exit.

    :param stderr: gets the plugin's output.
    :param is_lazy: prefault pages when the host asks for it; otherwise now.
    """
    status = 1
    own = os.getpid()
    try:
        os.setpgid(0, 0)
        os.dup2(stderr, 1)
        os.dup2(stderr, 2)
        os.close(stderr)
        if not is_lazy:
            _prepare(program)
        request = RequestFile(channel, prepare=(lambda: _prepare(program)) if is_lazy else None)
        status, result = _answer(program, program.plugin, request)
        piece = encode_piece(result)
        if "threading" in sys.modules or "atexit" in sys.modules:  # these may block, or change the status
            _write(channel, piece)
            piece = b""
            run_exit_functions()
        flush_files()
        if os.getpid() != own:  # `invoke` has forked, and has returned in both processes
            _write(channel, piece)
            os._exit(status)
        os.closerange(3, channel)  # releases the locks before the host has the result
        os.closerange(channel + 1, 1 << 20)
        _write(channel, piece + encode_end(status))
        os.read(channel, 1)  # until the host closes it: see nri.prefork.protocol
    finally:
        os._exit(status)


def _prepare(program: Program) -> None:
    """Prefault the pages that a request writes to."""
    rehearse(program)
    prefault(program.classes)
    gc.freeze()


def _answer(program: Program, plugin: object, request: RequestFile) -> tuple[int, bytes]:
    """Return the exit status, as the interpreter would exit after an exception, and the result."""
    result = BytesIO()
    try:
        status = program.answer(plugin, request, result)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    return status, result.getvalue()


def _write(channel: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(channel, left) :]
