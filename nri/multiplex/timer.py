"""A time at which a descriptor becomes readable: timerfd(2), which Python has from 3.13 only.

A thread that waits can be given another time to wake up without being woken for it.
"""

from __future__ import annotations

import ctypes
import os
import threading

_CLOCK_MONOTONIC = 1  # the clock of time.monotonic()
_FLAGS = 0o2004000  # TFD_CLOEXEC | TFD_NONBLOCK
_TFD_TIMER_ABSTIME = 1
_NS = 1_000_000_000
_LAST = 2**62 // _NS  # seconds; beyond that is never

_libc = ctypes.CDLL(None, use_errno=True)
_Spec = ctypes.c_long * 4  # struct itimerspec: seconds and nanoseconds of the interval, and of the time


class Timer:
    """Goes off at the earliest of the times that it has been given since it last went off.

    :raises OSError: when there can't be one.
    """

    def __init__(self) -> None:
        self._fd: int = _libc.timerfd_create(_CLOCK_MONOTONIC, _FLAGS)
        if self._fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self._at: float | None = None
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """The descriptor, which is readable from that time on."""
        return self._fd

    def set(self, at: float) -> None:
        """Go off at ``at``, of :func:`time.monotonic`, or before."""
        with self._lock:
            if self._at is not None and self._at <= at:
                return
            self._at = at
            ns = max(1, int(min(at, _LAST) * _NS))  # 0 would be never
            _libc.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, _Spec(0, 0, ns // _NS, ns % _NS), None)

    def clear(self) -> None:
        """Take note that it has gone off."""
        with self._lock:
            self._at = None
            try:
                os.read(self._fd, 8)
            except BlockingIOError:
                pass  # set again by now

    def close(self) -> None:
        """Give the descriptor back."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    __del__ = close
