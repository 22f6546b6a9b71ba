"""A timer as a file descriptor: timerfd(2), which Python has from 3.13 only.

It can be set to another time without waking the thread that waits for it.
"""

from __future__ import annotations

import ctypes
import os
import threading

_CLOCK_MONOTONIC = 1  # the clock of time.monotonic()
_FLAGS = 0o2004000  # TFD_CLOEXEC | TFD_NONBLOCK
_TFD_TIMER_ABSTIME = 1
_NS = 1_000_000_000
_LAST = 2**62 // _NS  # seconds; a later time is never

_libc = ctypes.CDLL(None, use_errno=True)
_Spec = ctypes.c_long * 4  # struct itimerspec: seconds and nanoseconds of the interval, and of the time


class Timer:
    """Expires at the earliest time that has been set since it last expired.

    :raises OSError: when the kernel gives no descriptor.
    """

    def __init__(self) -> None:
        self._fd: int = _libc.timerfd_create(_CLOCK_MONOTONIC, _FLAGS)
        if self._fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self._at: float | None = None
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """Return the descriptor, which becomes readable when the timer expires."""
        return self._fd

    def set(self, at: float) -> None:
        """Expire at ``at``, of :func:`time.monotonic`, or before."""
        with self._lock:
            if self._at is not None and self._at <= at:
                return
            self._at = at
            ns = max(1, int(min(at, _LAST) * _NS))  # 0 would disarm it
            _libc.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, _Spec(0, 0, ns // _NS, ns % _NS), None)

    def clear(self) -> None:
        """Make the descriptor unreadable again after it has expired."""
        with self._lock:
            self._at = None
            try:
                os.read(self._fd, 8)
            except BlockingIOError:
                pass  # another thread has set it meanwhile

    def close(self) -> None:
        """Close the descriptor."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    __del__ = close
