"""A timer as a file descriptor: timerfd(2), which Python has from 3.13 only.

It can be set to another time without waking the thread that waits for it.
"""

from __future__ import annotations

import ctypes
import os

_CLOCK_MONOTONIC = 1
_TFD_CLOEXEC = 0o2000000
_NS = 1_000_000_000

_libc = ctypes.PyDLL(None, use_errno=True)  # no call blocks, so none gives up the interpreter's lock
_Spec = ctypes.c_long * 4  # struct itimerspec: seconds and nanoseconds of the interval, and of the time


class Timer:
    """A timer for one thread, which waits.

    :raises OSError: when the kernel gives no descriptor.
    """

    def __init__(self) -> None:
        self._fd: int = _libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_CLOEXEC)
        if self._fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def set(self, seconds: float) -> None:
        """Expire once, in so many seconds, instead of at any time set before. Any thread may call this."""
        ns = max(1, int(seconds * _NS))  # 0 would disarm it
        _libc.timerfd_settime(self._fd, 0, _Spec(0, 0, ns // _NS, ns % _NS), None)

    def wait(self) -> None:
        """Wait until it expires."""
        os.read(self._fd, 8)

    def close(self) -> None:
        """Close the descriptor."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    __del__ = close
