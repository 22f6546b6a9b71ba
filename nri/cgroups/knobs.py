"""Reading and writing the files of a cgroup; no other module of this package does.

No file is created, and no link is followed (the kernel's trees have none below a mount). A read is bounded and never
blocks. A value is written by a single write(2). Every failure is a CgroupError with the file, the value and the
kernel's answer; a GoneError when the cgroup disappears: ENOENT from open(2), ENODEV when the file is already open.
"""

from __future__ import annotations

import errno
import os
import time

from .errors import CgroupError, GoneError, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_KNOB = 65536
"""The maximum size of a knob in bytes. The longest in use is a CPU list; see ``cpulist.MAX_TEXT``."""

APPEARS = 1.0
"""Seconds that systemd has to enable a controller, so that its knobs appear, after a property was set."""

NO_HINTS: Mapping[int, str] = {}
"""The reasons for the kernel's errors that are known of no knob."""

_KNOB_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def slurp(path: str, limit: int, flags: int = os.O_CLOEXEC) -> bytes:
    """Return the whole content of a file. Raise OSError, also for more than *limit* bytes (EFBIG)."""
    descriptor = os.open(path, os.O_RDONLY | flags)
    data = bytearray()
    try:
        # The kernel may return any part of such a file; only an empty read is its end.
        while chunk := os.read(descriptor, limit + 1 - len(data)):
            data += chunk
            if len(data) > limit:
                raise OSError(errno.EFBIG, f"more than {limit} bytes", path)
        return bytes(data)
    finally:
        os.close(descriptor)


def answer(error: OSError) -> str:
    """Return the kernel's answer as messages show it: ``Device or resource busy (EBUSY)``."""
    return f"{error.strerror} ({errno.errorcode.get(error.errno or 0, error.errno)})"


def exists(path: str) -> bool:
    """Return whether the knob exists. Raise CgroupError when it cannot be looked up."""
    try:
        os.stat(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENODEV):
            return False
        raise CgroupError(f"cannot look up {path}: {answer(error)}") from error
    return True


def children(directory: str) -> list[str]:
    """Return the directories of the cgroups right below one; none if it is gone."""
    try:
        with os.scandir(directory) as entries:
            return sorted([entry.path for entry in entries if entry.is_dir(follow_symlinks=False)])
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CgroupError(f"cannot list {directory}: {answer(error)}") from error


def wait_for(path: str) -> None:
    """Wait until systemd has enabled the knob's controller, at most ``APPEARS`` seconds."""
    until = time.monotonic() + APPEARS
    while not exists(path) and time.monotonic() < until:
        time.sleep(0.002)


def read_optional(path: str) -> str | None:
    """Return a knob's text, stripped; None when the cgroup exists without this knob."""
    try:
        data = slurp(path, MAX_KNOB, _KNOB_FLAGS)
    except OSError as error:
        _raise_if_gone(path, error)
        if error.errno == errno.ENOENT:
            return None
        raise CgroupError(f"cannot read {path}: {answer(error)}") from error
    return data.decode("ascii", "backslashreplace").strip()


def read(path: str, absent: str) -> str:
    """Return a knob's text, stripped; *absent* is the reason for a missing knob, for the error."""
    text = read_optional(path)
    if text is None:
        raise CgroupError(f"{path} does not exist: {absent}")
    return text


def put(path: str, data: bytes) -> int:
    """Write to an existing file with one write(2); return how many bytes the kernel took."""
    # The kernel's cgroup files ignore O_TRUNC; trees of plain files, as in tests, need it.
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | _KNOB_FLAGS)
    try:
        return os.write(descriptor, data)
    finally:
        os.close(descriptor)


def write(path: str, value: str, absent: str, hints: Mapping[int, str] = NO_HINTS) -> None:
    """Write *value* to an existing knob; *hints* are the reasons for the kernel's errors, by errno."""
    doing = f"cannot write {quoted(value)} to {path}"
    data = value.encode("ascii")
    try:
        written = put(path, data)
    except OSError as error:
        _raise_if_gone(path, error)
        hint = {**hints, errno.ENOENT: absent}.get(error.errno or 0)
        reason = f"{answer(error)}: {hint}" if hint else answer(error)
        raise CgroupError(f"{doing}: {reason}") from error
    if written != len(data):
        raise CgroupError(f"{doing}: the kernel took only {written} of {len(data)} bytes")


def write_all(
    directory: str,
    steps: list[tuple[str, str]],
    absent: str,
    hints: Mapping[int, str],
) -> None:
    """Write texts to files of a cgroup, in this order; an error names what was written before it."""
    done = ""
    for file, text in steps:
        after(done, write, f"{directory}/{file}", text, absent, hints)
        done = f"; {quoted(text)} was written to {directory}/{file} before that"


def after(done: str, change: Callable[..., None], *arguments: object) -> None:
    """Make a change; add to its CgroupError what was *done* before it: "" for nothing, else it begins with "; "."""
    try:
        change(*arguments)
    except CgroupError as error:
        # The cause stays the kernel's answer, whatever was done before.
        raise type(error)(f"{error}{done}") from error.__cause__


def _raise_if_gone(path: str, error: OSError) -> None:
    directory = os.path.dirname(path)
    if error.errno in (errno.ENOENT, errno.ENODEV) and not os.path.isdir(directory):
        raise GoneError(f"cgroup {directory} does not exist any more: {answer(error)}") from error
