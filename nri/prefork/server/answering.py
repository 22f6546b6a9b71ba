"""One request in this process: the plugin's streams and exceptions, and what the interpreter does at its end."""

from __future__ import annotations

import gc
import os
import sys
from _io import _IOBase

from nri.prefork.protocol import RequestDecoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Answer = Callable[["RequestFile", "AnswerFile"], int]

_CHUNK = 16384  # for more than some ten thousand bytes malloc(3) calls the kernel


class Program:
    """The plugin as its server runs it.

    :param name: the plugin's type, for messages.
    :param uses: modules that are loaded before the first request.
    :param answer: reads a request from the first file, writes the result to the second, returns the exit status.
    :param rehearse: does the same without the plugin.
    :param classes: the plugin's own classes, whose code is prefaulted.
    """

    __slots__ = ("answer", "classes", "name", "rehearse", "uses")

    def __init__(
        self, name: str, *, uses: tuple[str, ...], answer: Answer, rehearse: Answer, classes: list[type]
    ) -> None:
        self.name = name
        self.uses = uses
        self.answer = answer
        self.rehearse = rehearse
        self.classes = classes


class RequestFile:
    """The request as a file that is read to its end. The constructor blocks until the request begins to arrive.

    :param data: what was read from ``channel`` already.
    """

    def __init__(self, channel: int, data: bytes = b"") -> None:
        self._channel = channel
        self._decoder = RequestDecoder()
        self._data = self._decoder.feed(data)
        while self._decoder.left is None:
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
            os._exit(0)  # the host needs this worker no more; half a request is no request
        return data


class AnswerFile:
    """The result as a file that is written to."""

    data = b""

    def write(self, data: bytes) -> int:
        """Append ``data``."""
        self.data += data
        return len(data)

    def flush(self) -> None:
        """Do nothing: the worker sends the result."""


def answer(function: Answer, request: RequestFile, result: AnswerFile) -> int:
    """Return the exit status of ``function``, as the interpreter would exit after an exception."""
    try:
        return function(request, result)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1


def run_exit_functions() -> None:
    """Do what the interpreter does at its end and others can see: join threads, call functions of atexit."""
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()  # joins all but daemon threads
    if "atexit" in sys.modules:
        sys.modules["atexit"]._run_exitfuncs()


def flush() -> None:
    """Write the buffers of all files that are still open."""
    new = [each for each in gc.get_objects() if issubclass(type(each), _IOBase)]  # without frozen objects
    for file in (*new, sys.__stdout__, sys.stderr):
        try:
            if file is not None and not file.closed and file.writable():
                file.flush()
        except (OSError, ValueError):
            pass
