"""The name of this process for the kernel, as lists of processes show it: proc_pid_comm(5)."""

from __future__ import annotations

import os

_SIZE = 15  # bytes; the kernel cuts what is longer


def set_name(name: str | bytes) -> None:
    """Give this process a name. Nothing depends on it, so a failure is ignored."""
    try:
        comm = os.open("/proc/self/comm", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(comm, os.fsencode(name)[:_SIZE])
        finally:
            os.close(comm)
    except OSError:
        pass
