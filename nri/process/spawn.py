"""Starts a program without anything of its caller: no environment, no descriptor, no signal disposition.

Why not with subprocess: docs/decisions/0002-posix-spawn-not-subprocess.md.
"""

from __future__ import annotations

import os

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


def spawn(
    path: str,
    argv: list[str],
    descriptors: Sequence[int],
    *,
    environment: Mapping[str, str] = PLUGIN_ENVIRONMENT,
    own_session: bool = False,
) -> int:
    """Start ``path`` and return its pid. It leads a process group of its own.

    :param descriptors: become 0, 1, 2 and so on in the child, which gets no others.
    :param own_session: make it lead a session, too, like every child that is reported to a watchdog.
    :raises OSError: when it cannot be started.
    """
    children.reap_late()
    # A descriptor whose number is one of the child's could be overwritten before it is in place.
    moved = _copies(descriptors) if min(descriptors) < len(descriptors) else []
    try:
        with children.lock:
            if is_reported := children.are_reported():
                # First, since this process may be killed before it knows the child's number.
                links = [os.readlink(f"/proc/self/fd/{fd}") for fd in descriptors]
                children.report("?", " ".join(links))
            try:
                pid = os.posix_spawn(
                    path,
                    argv,
                    environment,
                    file_actions=[
                        *[(os.POSIX_SPAWN_CLOSE, fd) for fd in inheritable()],
                        *[(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(moved or descriptors)],
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
    finally:
        for fd in moved:
            os.close(fd)
    return pid


def pipe() -> tuple[int, int]:
    """Return the ends of a pipe, both above 2: a lower number would be one of the standard files of this process."""
    ends = os.pipe2(os.O_CLOEXEC)
    if min(ends) > 2:
        return ends
    try:
        reads, writes = _copies(ends)
    finally:
        for fd in ends:
            os.close(fd)
    return reads, writes


def _copies(descriptors: Sequence[int]) -> list[int]:
    """Return copies of these descriptors, above all numbers that a child's descriptors get."""
    import fcntl

    copies: list[int] = []
    try:
        for fd in descriptors:
            copies += [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, max(3, len(descriptors)))]
    except OSError:
        for fd in copies:
            os.close(fd)
        raise
    return copies
