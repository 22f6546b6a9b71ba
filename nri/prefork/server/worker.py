"""A worker: one forked process that waits for one request, answers it, and ends."""

from __future__ import annotations

import gc
import os

from nri.prefork.protocol import encode_end, encode_piece
from nri.prefork.server.answering import (
    AnswerFile,
    Program,
    RequestFile,
    answer,
    flush,
    has_exit_functions,
    run_exit_functions,
)
from nri.prefork.server.prefault import prefault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def work(program: Program, channel: int, stderr: int) -> NoReturn:
    """Wait for a request, answer it, and exit.

    :param channel: the worker's socket.
    :param stderr: a pipe, for what the plugin prints.
    """
    status = 1
    own = os.getpid()
    try:
        os.setpgid(0, 0)
        os.dup2(stderr, 1)
        os.dup2(stderr, 2)
        os.close(stderr)
        prefault(program)
        gc.freeze()
        request = RequestFile(channel)
        result = AnswerFile()
        status = answer(program.answer, request, result)
        piece = encode_piece(result.data)
        if has_exit_functions():
            _write(channel, piece)
            piece = b""
            run_exit_functions()
        flush()
        if os.getpid() != own:  # `invoke` has forked, and has returned in both processes
            _write(channel, piece)
            os._exit(status)
        os.closerange(3, channel)  # releases the locks before the host has the result
        os.closerange(channel + 1, 1 << 20)
        _write(channel, piece + encode_end(status))
        os.read(channel, 1)  # until the host closes it: see nri.prefork.protocol
    finally:
        os._exit(status)


def _write(channel: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(channel, left) :]
