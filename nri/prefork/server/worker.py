"""A worker: one forked process that waits for one request, answers it, and ends."""

from __future__ import annotations

import gc
import os
import sys

from nri.prefork.protocol import encode_end, encode_piece
from nri.prefork.server.answering import AnswerFile, Program, RequestFile, answer, flush, run_exit_functions
from nri.prefork.server.prefault import prefault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def work(program: Program, channel: int, stderr: int) -> NoReturn:
    """Wait for a request on the socket ``channel``, answer it, and exit; ``stderr`` gets what the plugin prints."""
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
        if "threading" in sys.modules or "atexit" in sys.modules:  # these may block, or change the status
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
