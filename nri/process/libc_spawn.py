"""posix_spawn(3), called without Python's lock: while a program starts, other threads go on.

``os.posix_spawn`` keeps the lock until the child has called execve(2), some hundred microseconds. A host with threads
calls :func:`nri.process.spawn.use` with :class:`LibcSpawn`; for others the import of ctypes would take longer.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

from nri.errors import NRIError
from nri.process.inherit import SIGNALS, inheritable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SETPGROUP, _SETSIGDEF, _SETSIGMASK, _SETSID = 0x02, 0x04, 0x08, 0x80  # spawn.h of glibc and of musl
_SIZE = 1024  # bytes; more than any of the C library's structures
_SIGSET = 128  # bytes of a sigset_t


class LibcSpawn:
    """Starts programs with the C library; for :func:`nri.process.spawn.use`.

    :raises NRIError: when the C library does not have the functions.
    """

    def __init__(self) -> None:
        # Only posix_spawn itself takes long enough to release the lock for it.
        unlocked, locked = ctypes.CDLL(None), ctypes.PyDLL(None)
        try:
            self._posix_spawn = unlocked.posix_spawn
            self._init, self._destroy = [
                getattr(locked, f"posix_spawn_file_actions_{name}") for name in ("init", "destroy")
            ]
            self._dup2 = locked.posix_spawn_file_actions_adddup2
            self._close = locked.posix_spawn_file_actions_addclose
            self._close_from = getattr(locked, "posix_spawn_file_actions_addclosefrom_np", None)  # glibc 2.34
            self._in_group = _attributes(locked, _SETPGROUP)
            self._in_session = _attributes(locked, _SETSID)
        except AttributeError as error:
            raise NRIError(f"the C library does not have {error}") from None
        self._environment: tuple[Mapping[str, str], ctypes.Array[ctypes.c_char_p]] | None = None

    def __call__(
        self,
        path: str,
        argv: list[str],
        environment: Mapping[str, str],
        descriptors: Sequence[int],
        own_session: bool,
    ) -> int:
        """Start ``path``; return its pid.

        :param descriptors: become 0, 1, 2 and so on.
        :raises OSError: when it cannot be started.
        """
        # Lists made before the structures, which must be destroyed.
        name, arguments, variables = os.fsencode(path), _strings(argv), self._variables(environment)
        others = () if self._close_from is not None else inheritable()
        pid = ctypes.c_int()
        actions = ctypes.create_string_buffer(_SIZE)
        number = self._init(actions)
        if number == 0:
            try:
                for fd in others:
                    number = number or self._close(actions, fd)
                for target, fd in enumerate(descriptors):
                    number = number or self._dup2(actions, fd, target)
                if self._close_from is not None:
                    number = number or self._close_from(actions, len(descriptors))
                attributes = self._in_session if own_session else self._in_group
                number = number or self._posix_spawn(
                    ctypes.byref(pid), name, actions, attributes, arguments, variables
                )
            finally:
                self._destroy(actions)
        if number:
            raise OSError(number, os.strerror(number), path)
        return pid.value

    def _variables(self, environment: Mapping[str, str]) -> ctypes.Array[ctypes.c_char_p]:
        """Return an environment as the C library takes it. The last one is kept: most children are plugins."""
        known = self._environment
        if known is None or known[0] is not environment:
            pairs = [f"{key}={value}" for key, value in environment.items()]
            known = self._environment = environment, _strings(pairs)
        return known[1]


def _strings(texts: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    """Return an array of C strings, which ends with a null pointer.

    :raises ValueError: when one contains a NUL.
    """
    encoded = [os.fsencode(text) for text in texts]
    if any(b"\0" in text for text in encoded):
        raise ValueError("embedded null byte")
    return (ctypes.c_char_p * (len(encoded) + 1))(*encoded, None)


def _attributes(libc: ctypes.PyDLL, flag: int) -> ctypes.Array[ctypes.c_char]:
    """Return attributes: a group or session of its own, no signal blocked, all dispositions the default."""
    attributes = ctypes.create_string_buffer(_SIZE)
    none, defaults = ctypes.create_string_buffer(_SIGSET), ctypes.create_string_buffer(_SIGSET)
    results = [
        libc.posix_spawnattr_init(attributes),
        libc.sigemptyset(none),
        libc.sigemptyset(defaults),
        *[libc.sigaddset(defaults, number) for number in SIGNALS],
        libc.posix_spawnattr_setflags(attributes, ctypes.c_short(flag | _SETSIGDEF | _SETSIGMASK)),
        libc.posix_spawnattr_setpgroup(attributes, 0),
        libc.posix_spawnattr_setsigmask(attributes, none),
        libc.posix_spawnattr_setsigdefault(attributes, defaults),
    ]
    if any(results):
        raise NRIError("the C library does not take the attributes of a new process")
    return attributes
