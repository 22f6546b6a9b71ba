"""Reads and writes of a cgroup's files: the only place of this package that touches their contents.

Promises: nothing is created (there is no O_CREAT), no link is followed (the kernel's trees have none below a mount),
a read is bounded and waits for nobody, a value is written by a single
write(2), and every failure is a CgroupError that names the file, the value and the kernel's answer. A cgroup
that vanishes in between is a GoneError: the kernel answers ENOENT when the file is opened, ENODEV when it is
open already.
"""

from __future__ import annotations

import errno
import os

from .errors import CgroupError, GoneError, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_KNOB = 65536
"""The most bytes that a knob may hold. The longest in use is a CPU list; see ``cpulist.MAX_TEXT``."""


_KNOB_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def slurp(path: str, limit: int, flags: int = os.O_CLOEXEC) -> bytes:
    """Return the whole file. Raises OSError as the system does, and EFBIG for more than *limit* bytes."""
    descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        chunks: list[bytes] = []
        size = 0
        # The kernel hands out such files in pieces of its own choosing; only an empty read is the end.
        while chunk := os.read(descriptor, limit + 1 - size):
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                raise OSError(errno.EFBIG, f"more than {limit} bytes", path)
        return b"".join(chunks)
    finally:
        os.close(descriptor)


def answer(error: OSError) -> str:
    """Return the kernel's answer for a message: ``Device or resource busy (EBUSY)``."""
    return f"{error.strerror} ({errno.errorcode.get(error.errno or 0, error.errno)})"


def exists(path: str) -> bool:
    """Tell whether there is such a knob. Raises CgroupError where that cannot be told: it is not the same as no."""
    try:
        os.stat(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENODEV):
            return False
        raise CgroupError(f"cannot look up {path}: {answer(error)}") from error
    return True


def read_optional(path: str) -> str | None:
    """Return a knob's text without the blanks around it; None when the cgroup exists but has no such knob."""
    try:
        data = slurp(path, MAX_KNOB, _KNOB_FLAGS)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV):
            _insist_on_directory(path, error)
            if error.errno == errno.ENOENT:
                return None
        raise CgroupError(f"cannot read {path}: {answer(error)}") from error
    return data.decode("ascii", "backslashreplace").strip()


def read(path: str, absent: str) -> str:
    """Return a knob's text without the blanks around it; *absent* says what it means if there is none."""
    text = read_optional(path)
    if text is None:
        raise CgroupError(f"{path} does not exist: {absent}")
    return text


def write(path: str, value: str, absent: str, hints: Mapping[int, str] | None = None) -> None:
    """Write *value* to an existing knob; *hints* says, per errno, what the kernel means by its answer."""
    doing = f"cannot write {quoted(value)} to {path}"
    try:
        # O_TRUNC means nothing to the kernel's cgroup files; it is for made-up trees of ordinary files.
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | _KNOB_FLAGS)
    except OSError as error:
        if error.errno == errno.ENOENT:
            _insist_on_directory(path, error)
            raise CgroupError(f"{doing}: there is no such file: {absent}") from error
        raise CgroupError(f"{doing}: {answer(error)}") from error
    data = value.encode("ascii")
    try:
        written = os.write(descriptor, data)
    except OSError as error:
        if error.errno == errno.ENODEV:
            _insist_on_directory(path, error)
        hint = (hints or {}).get(error.errno or 0)
        raise CgroupError(f"{doing}: {answer(error)}" + (f": {hint}" if hint else "")) from error
    finally:
        os.close(descriptor)
    if written != len(data):
        raise CgroupError(f"{doing}: the kernel took only {written} of {len(data)} bytes")


def _insist_on_directory(path: str, error: OSError) -> None:
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        raise GoneError(f"cgroup {directory} does not exist any more: {answer(error)}") from error
