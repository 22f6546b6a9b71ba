"""The visible part of an interpreter's end, for a forked process, which must not unwind its parent's stack."""

from __future__ import annotations

import gc
import sys
from _io import _IOBase


def run_exit_functions() -> None:
    """Join threads, and call functions of atexit."""
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()  # joins all but daemon threads
    if "atexit" in sys.modules:
        sys.modules["atexit"]._run_exitfuncs()


def flush_files() -> None:
    """Write the buffers of all files that are still open, without those that were open before ``gc.freeze``."""
    new = [each for each in gc.get_objects() if issubclass(type(each), _IOBase)]  # without frozen objects
    for file in (*new, sys.__stdout__, sys.stderr):
        try:
            if file is not None and not file.closed and file.writable():
                file.flush()
        except (OSError, ValueError):
            pass
