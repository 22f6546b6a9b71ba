"""Starts a program without anything of its caller: no environment, no descriptor, no signal disposition.

``os.posix_spawn`` neither copies the caller's memory nor runs Python in the child, and needs no ``subprocess``, whose
import would delay a container's start.
"""

from __future__ import annotations

import errno
import os
import time

from nri.process import children
from nri.process.inherit import SIGNALS, inheritable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PLUGIN_ENVIRONMENT = {
    "HOME": "/",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
"""The whole environment of a v0.1 plugin."""

_BUSY_RETRY = 0.01  # seconds between attempts to run a file that is being written (ETXTBSY)


def spawn(
    path: str,
    argv: list[str],
    descriptors: Sequence[int],
    *,
    environment: Mapping[str, str] = PLUGIN_ENVIRONMENT,
    own_session: bool = False,
    retry_until: float = 0.0,
) -> int:
    """Start ``path`` and return its pid. It leads a process group of its own.

    :param descriptors: become 0, 1, 2 and so on in the child, which gets no others.
    :param own_session: have it lead a session too, as every child does that is reported to a watchdog.
    :param retry_until: of :func:`time.monotonic`; until then a file that is being written (ETXTBSY) is tried again.
    :raises OSError: when it cannot be started.
    """
    children.reap_late()
    moved: list[int] = []
    try:
        if min(descriptors) < len(descriptors):
            _move(descriptors, moved)  # else a descriptor would be overwritten before it is copied
        while True:
            try:
                return _spawn(path, argv, moved or descriptors, environment, own_session=own_session)
            except OSError as error:
                if error.errno != errno.ETXTBSY or time.monotonic() + _BUSY_RETRY >= retry_until:
                    raise
                time.sleep(_BUSY_RETRY)
    finally:
        for fd in moved:
            os.close(fd)


def _spawn(
    path: str, argv: list[str], descriptors: Sequence[int], environment: Mapping[str, str], *, own_session: bool
) -> int:
    with children.lock:
        if is_reported := children.are_reported():
            # Before it starts: this process may be killed before it can report the child's number.
            children.report("?", " ".join([os.readlink(f"/proc/self/fd/{fd}") for fd in descriptors]))
        try:
            pid = os.posix_spawn(
                path,
                argv,
                environment,
                file_actions=[
                    *[(os.POSIX_SPAWN_CLOSE, fd) for fd in inheritable()],
                    *[(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(descriptors)],
                ],
                **({"setsid": True} if own_session or is_reported else {"setpgroup": 0}),
                setsigmask=(),
                setsigdef=SIGNALS,
            )
        except BaseException:
            children.report("!")
            raise
        children.started.add(pid)
        children.report("+", pid)
    return pid


def pipe() -> tuple[int, int]:
    """Return the ends of a pipe, both above 2: a lower number would be one of the standard files of this process."""
    ends = os.pipe2(os.O_CLOEXEC)
    if min(ends) > 2:
        return ends
    moved: list[int] = []
    try:
        _move(ends, moved)
    except OSError:
        for fd in moved:
            os.close(fd)
        raise
    finally:
        for fd in ends:
            os.close(fd)
    return moved[0], moved[1]


def _move(descriptors: Sequence[int], moved: list[int]) -> None:
    """Add a copy of each descriptor to ``moved``, above all numbers that a child's descriptors get."""
    import fcntl

    for fd in descriptors:  # what is moved before a call fails is in the list
        moved.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, max(3, len(descriptors))))  # noqa: PERF401
