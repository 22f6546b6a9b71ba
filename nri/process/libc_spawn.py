"""posix_spawn(3), called without Python's lock: while a program starts, other threads go on.

``os.posix_spawn`` keeps the lock until the child has called execve(2): some hundred microseconds, and seconds with a
cold disk or a security agent that looks at each program. A host with threads calls ``nri.process.spawn.use`` with
``spawn_unlocked``; for others the import of ctypes would take longer.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

from nri.process.spawn import SIGNALS, inheritable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# spawn.h of glibc and of musl
_SETSIGDEF = 0x04
_SETSIGMASK = 0x08
_SETSID = 0x80
_SIZE = 1024  # bytes; more than any of the C library's structures
_libc = ctypes.PyDLL(None)  # keeps the lock
_posix_spawn = ctypes.CDLL(None).posix_spawn  # alone takes long enough to release it
_actions_init = _libc.posix_spawn_file_actions_init
_add_dup2 = _libc.posix_spawn_file_actions_adddup2
_actions_destroy = _libc.posix_spawn_file_actions_destroy
_add_close = _libc.posix_spawn_file_actions_addclose
add_close_from = getattr(_libc, "posix_spawn_file_actions_addclosefrom_np", None)  # glibc 2.34


def _attributes() -> ctypes.Array[ctypes.c_char]:
    """Return attributes: a session of its own, no signal blocked, all dispositions the default."""
    attributes, none, defaults = [ctypes.create_string_buffer(_SIZE) for _ in range(3)]
    _libc.sigemptyset(none)
    _libc.sigemptyset(defaults)
    for number in SIGNALS:
        _libc.sigaddset(defaults, number)
    _libc.posix_spawnattr_init(attributes)
    _libc.posix_spawnattr_setflags(attributes, ctypes.c_short(_SETSID | _SETSIGDEF | _SETSIGMASK))
    _libc.posix_spawnattr_setsigmask(attributes, none)
    _libc.posix_spawnattr_setsigdefault(attributes, defaults)
    return attributes


_ATTRIBUTES = _attributes()


def spawn_unlocked(
    path: str, argv: list[str], environment: Mapping[str, str], descriptors: Sequence[int]
) -> int:
    """Start ``path``, as ``nri.process.spawn.use`` describes it; return its pid.

    :raises OSError: when it cannot be started.
    """
    pid = ctypes.c_int()
    actions = ctypes.create_string_buffer(_SIZE)
    strings = [_strings(argv), _strings([f"{key}={value}" for key, value in environment.items()])]
    _raise_if(_actions_init(actions), path)
    try:
        if add_close_from is None:
            for fd in inheritable():
                _raise_if(_add_close(actions, fd), path)
        for target, fd in enumerate(descriptors):
            _raise_if(_add_dup2(actions, fd, target), path)
        if add_close_from is not None:
            _raise_if(add_close_from(actions, len(descriptors)), path)
        program = os.fsencode(path)
        number = _posix_spawn(ctypes.byref(pid), program, actions, _ATTRIBUTES, *strings)
        _raise_if(number, path)
    finally:
        _actions_destroy(actions)
    return pid.value


def _raise_if(number: int, path: str) -> None:
    """Raise the error that a function of posix_spawn(3) has returned; 0 is none."""
    if number:
        raise OSError(number, os.strerror(number), path)


def _strings(texts: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    """Return an array of C strings, which ends with a null pointer.

    :raises ValueError: when one contains a NUL.
    """
    encoded = [os.fsencode(text) for text in texts]
    if any(b"\0" in text for text in encoded):
        raise ValueError("embedded null byte")
    return (ctypes.c_char_p * (len(encoded) + 1))(*encoded, None)
