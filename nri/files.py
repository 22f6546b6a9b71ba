"""Files that others can put something else in place of: read without blocking, appended to, replaced in one step."""

from __future__ import annotations

import errno
import os
import stat

from nri import trust
from nri.errors import NRIError, escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_PIECE = 4096
_NEW = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW

_LOG = (
    os.O_WRONLY
    | os.O_APPEND
    | os.O_CREAT
    | os.O_CLOEXEC
    | os.O_NOFOLLOW
    | os.O_NOCTTY
    | os.O_NONBLOCK
)

_KINDS = {
    stat.S_IFREG: "a regular file",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFLNK: "a link",
}


class UnfitFileError(OSError):
    """A path that leads to another kind of file, or to a longer one, than is read; ``strerror`` says so."""


def describe(mode: int) -> str:
    """Return the kind of a file with this ``st_mode``, for example ``a FIFO``."""
    return _KINDS.get(stat.S_IFMT(mode), "a file of an unknown kind")


def absolute(path: str) -> str:
    """Return an absolute path.

    :raises NRIError: it is relative, and the current directory is gone.
    """
    try:
        return os.path.abspath(path)
    except OSError as error:
        reason = f"is relative, and the current directory is gone: {error.strerror}"
        raise NRIError(f"{escape(path)}: {reason}; expected an absolute path") from None


def identity(path: str) -> tuple[int, ...]:
    """Return what tells a file from its replacement: device, inode, time of change; () if it cannot be looked at."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ()
    return status.st_dev, status.st_ino, status.st_ctime_ns


def read_regular(path: str, limit: int) -> tuple[bytes, os.stat_result]:
    """Return the content of a regular file, and its status.

    :param limit: its bytes at most.
    :raises UnfitFileError: it is no regular file, or longer.
    :raises OSError: it cannot be read.
    """
    try:
        fd = os.open(path, _READ)
    except OSError:
        # The error for a socket does not name its kind.
        _require_regular(path, os.stat(path).st_mode)
        raise
    try:
        status = os.fstat(fd)
        data = b""
        _require_regular(path, status.st_mode)
        size = min(limit, max(status.st_size, _PIECE)) + 1
        while len(data) <= limit:
            piece = os.read(fd, size)
            if not piece:
                break
            data += piece
    finally:
        os.close(fd)
    if len(data) > limit:
        raise UnfitFileError(errno.EFBIG, f"found more than {limit} bytes, expected fewer", path)
    return data, status


def _require_regular(path: str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise UnfitFileError(errno.EINVAL, f"found {describe(mode)}, expected a regular file", path)


def open_log(path: str) -> int:
    """Open a log file to append to it, without blocking; return its descriptor. It is made with mode 0600.

    Logs have the pods' annotations, so a file that is there must be ours or root's, and only we may write to it.

    :raises UnfitFileError: it is another user's, or writable by others.
    :raises OSError: it is a link, or cannot be opened.
    """
    # A descriptor's link in /proc is the kernel's: nri-runc gives its hook one.
    flags = _LOG & ~os.O_NOFOLLOW if path.startswith("/proc/") else _LOG
    fd = os.open(path, flags, 0o600)
    status = os.fstat(fd)
    wrong = "" if stat.S_ISCHR(status.st_mode) else trust.judge(status)
    if wrong:
        os.close(fd)
        raise UnfitFileError(errno.EPERM, f"it {wrong}", path)
    return fd


def replace(path: str, data: bytes, finish: Callable[[int], object] = lambda fd: None) -> None:
    """Replace a file, or make it, with mode 0600: readers see the old content or the new, never a part.

    :param finish: called with the new file's descriptor before it takes the name.
    :raises OSError: it cannot be written; the old file stays.
    """
    part = f"{path}.{os.getpid()}.part"
    try:
        os.unlink(part)  # of an earlier process with this pid, which was killed
    except FileNotFoundError:
        pass
    fd = os.open(part, _NEW, 0o600)
    try:
        while data:
            data = data[os.write(fd, data) :]
        finish(fd)
        os.rename(part, path)
    except BaseException:
        os.unlink(part)
        raise
    finally:
        os.close(fd)
