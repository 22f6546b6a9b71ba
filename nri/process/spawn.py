"""Starts a program without anything of its caller: no environment, no descriptor, no signal disposition.

Why not with subprocess: docs/decisions.md, 2.
"""

from __future__ import annotations

import os

from nri.process import children
from nri.process.children import close_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Start = Callable[[str, list[str], Mapping[str, str], Sequence[int]], int]

PLUGIN_ENVIRONMENT = {
    "HOME": "/",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
"""The whole environment of a v0.1 plugin."""

SIGNALS = tuple([number for number in range(1, 65) if number not in (9, 19, 32, 33, 34)])
"""The signals that are reset to their defaults in a child, since an ignored signal stays ignored across exec.

Python ignores SIGPIPE and SIGXFSZ, and our caller may ignore any. SIGKILL and SIGSTOP cannot be ignored; C libraries
reserve 32 to 34. (``signal.valid_signals`` would import enum.)"""

_NAME_SIZE = 15  # bytes of a process's name; the kernel cuts what is longer


def spawn(
    path: str,
    argv: list[str],
    descriptors: Sequence[int],
    *,
    environment: Mapping[str, str] = PLUGIN_ENVIRONMENT,
    is_plugin: bool = True,
) -> int:
    """Start ``path`` and return its pid. It leads a session of its own, and so a process group.

    :param descriptors: become 0, 1, 2 and so on in the child, which gets no others.
    :param is_plugin: whether a watchdog kills it when this process is killed, as ``children.start_plugin`` says.
    :raises OSError: when it cannot be started.
    """
    children.reap_late()
    # A descriptor whose number is one of the child's could be overwritten before it is in place.
    moved: Sequence[int] = ()
    used = descriptors
    if min(descriptors) < len(descriptors):
        used = moved = copies(descriptors)

    def begin() -> int:
        return _start(path, argv, environment, used)

    try:
        if is_plugin:
            return children.start_plugin(begin, descriptors[0])
        return children.start(begin)
    finally:
        close_all(moved)


def use(start: Start) -> Start:
    """Start programs with another function from now on, in the whole process; return the one before.

    :param start: called with the path, the arguments, the environment, and the descriptors that become 0, 1, 2 and so
        on (none has one of these numbers, unless it is in its place); returns the pid, or raises OSError.
    """
    global _start  # noqa: PLW0603 - a process has one way to start others
    before = _start
    _start = start
    return before


def _with_os(
    path: str, argv: list[str], environment: Mapping[str, str], descriptors: Sequence[int]
) -> int:
    return os.posix_spawn(
        path,
        argv,
        environment,
        file_actions=[
            *[(os.POSIX_SPAWN_CLOSE, fd) for fd in inheritable()],
            *[(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(descriptors)],
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=SIGNALS,
    )


_start: Start = _with_os


def inheritable() -> list[int]:
    """Return the descriptors above 2 that a child would inherit: our caller left them open."""
    fds = []
    for fd in _above_2():
        try:
            if os.get_inheritable(fd):
                fds.append(fd)
        except OSError:
            pass  # the descriptor of the listing, or one that another thread has closed
    return fds


def _above_2() -> set[int]:
    """Return the descriptors of this process above 2, and that of the listing."""
    return {int(name) for name in os.listdir("/proc/self/fd")} - {0, 1, 2}


def close_others(*kept: int) -> None:
    """Close all descriptors above 2 but these, in a process that has no other thread.

    ``os.closerange`` would close a million numbers one by one where the C library is older than close_range(2), as in
    the portable binaries: 0.2 s for each process.
    """
    for fd in _above_2().difference(kept):
        try:
            os.close(fd)
        except OSError:
            pass  # the descriptor of the listing


def pipe() -> tuple[int, int]:
    """Return the ends of a pipe, both above 2: a lower number would be one of the standard files of this process."""
    reads, writes = above_standard_files(*os.pipe2(os.O_CLOEXEC))
    return reads, writes


class Pipes:
    """The pipes of a new process, as a context: its end closes ``theirs``, and after an error ``ours``, too.

    :raises OSError: when a pipe cannot be made; those that were made are closed.
    """

    __slots__ = ("ours", "theirs")

    def __init__(self) -> None:
        made: list[int] = []
        try:
            for _ in range(3):
                made += pipe()
            child_in, to_child, from_child, child_out, from_stderr, child_err = made
            self.ours = [to_child, from_child, from_stderr]
            self.theirs = [child_in, child_out, child_err]
            for fd in self.ours:
                os.set_blocking(fd, False)
        except BaseException:
            close_all(made)
            raise

    def __enter__(self) -> Pipes:
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
        close_all(self.theirs)
        if kind is not None:
            close_all(self.ours)


def above_standard_files(*descriptors: int) -> Sequence[int]:
    """Return the descriptors, or copies in their place if one of them has the number of a standard file."""
    if min(descriptors) > 2:
        return descriptors
    try:
        return copies(descriptors)
    finally:
        close_all(descriptors)


def copies(descriptors: Sequence[int]) -> list[int]:
    """Return copies of these descriptors, above all numbers that a child's descriptors get."""
    import fcntl

    copies: list[int] = []
    try:
        for fd in descriptors:
            copies += [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, max(3, len(descriptors)))]
    except OSError:
        close_all(copies)
        raise
    return copies


def prepare_process() -> None:
    """Prepare a process of our own whose children are plugins: directory, umask, no core dumps, open 0 to 2.

    A core dump would contain a request with all annotations of a pod. Where the caller ignores SIGCHLD, the kernel
    would keep no exit status of a child, so its default is restored.
    """
    import _signal  # type: ignore[import-not-found] # the signal module would import enum
    import resource

    if _signal.getsignal(_signal.SIGCHLD) == _signal.SIG_IGN:
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)

    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
    os.chdir("/")
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def set_name(name: str | bytes) -> None:
    """Give this process a name (proc_pid_comm(5)). Nothing depends on it, so a failure is ignored."""
    try:
        comm = os.open("/proc/self/comm", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(comm, os.fsencode(name)[:_NAME_SIZE])
        finally:
            os.close(comm)
    except OSError:
        pass
