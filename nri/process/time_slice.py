"""The time slice of the kernel's fair scheduler, which a process can ask for since Linux 6.12 (sched_setattr(2)).

Threads with short slices get no more CPU time than others. But when such a thread wakes up on a CPU, it does not wait
until a thread with a longer slice has used up its own, and one that wakes up later does not take the CPU from it
within its slice. Source: ``check_preempt_wakeup_fair`` in kernel/sched/fair.c, docs/decisions/0035.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

SHORT = 500_000
"""Nanoseconds of a short slice: less than any default of the kernel, 0.7 ms with one CPU, and enough for an event."""

_FAIR = (os.SCHED_OTHER, os.SCHED_BATCH)
_NUMBERS = {"x86_64": (314, 315), "aarch64": (274, 275), "riscv64": (274, 275)}  # of sched_setattr and sched_getattr
_ATTR = struct.Struct("=IIQiIQQQ")  # struct sched_attr, 48 bytes: size, policy, flags, nice, priority, runtime, …
_POLICY, _RUNTIME = 1, 5  # indices in it

_libc = ctypes.CDLL(None, use_errno=True)
_set, _get = _NUMBERS.get(os.uname().machine if sys.maxsize > 1 << 32 else "", (-1, -1))  # -1 is ENOSYS
_is_short = False


def shorten() -> bool:
    """Give the calling thread short slices, and every thread and child that it starts from now on.

    Return False, and change nothing, where the kernel does not know them, this process may not ask for them, or an
    operator has chosen its scheduling: a real-time policy, or slices as short.
    """
    global _is_short  # noqa: PLW0603 - a process has one way to schedule its threads
    _is_short = slice_of(0) > SHORT and ask(0, SHORT)
    return _is_short


def reset(pid: int) -> None:
    """Give a child the default slice, if this process has short ones: a program expects no other."""
    if _is_short:
        ask(pid, 0)


def ask(thread: int, slice_: int) -> bool:
    """Ask for slices of so many nanoseconds, 0 for the default; return whether the kernel has taken it.

    :param thread: its number; 0 for the calling one. Its policy and nice value stay.
    """
    known = _attributes(thread)
    if known is None:
        return False
    new = _ATTR.pack(*known[:_RUNTIME], slice_, *known[_RUNTIME + 1 :])
    return bool(_libc.syscall(_set, thread, new, 0) == 0)


def slice_of(thread: int) -> int:
    """Return the nanoseconds of a thread's slice; 0 before Linux 6.12, and with a policy that is not fair."""
    known = _attributes(thread)
    return 0 if known is None or known[_POLICY] not in _FAIR else known[_RUNTIME]


def _attributes(thread: int) -> tuple[int, ...] | None:
    buffer = ctypes.create_string_buffer(_ATTR.size)
    return None if _libc.syscall(_get, thread, buffer, _ATTR.size, 0) else _ATTR.unpack(buffer.raw)
