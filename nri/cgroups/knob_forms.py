"""Forms of knobs: in which files of a cgroup a value is, and how it is written to them.

A form reads and writes one directory. What it writes to was read before, and the value is one that the knob's kind
accepts. The forms of the I/O knobs are in :mod:`.knob_devices`, and those that only v1 has in :mod:`.knob_forms_v1`.
"""

# ruff: noqa: D102 -- the base class describes the methods

from __future__ import annotations

from . import knobs, quota
from .errors import CgroupError, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .knob_kinds import KnobKind

UNCHANGED: Any = object()
"""In place of a value: nothing is to be written. None is a value."""


class AbsentFileError(Exception):
    """A file of a knob that the cgroup does not have; its path."""


def text_of(directory: str, file: str) -> str:
    """Return the text of a file in a cgroup. Raise AbsentFileError if the cgroup does not have it."""
    text = knobs.read_optional(f"{directory}/{file}")
    if text is None:
        raise AbsentFileError(f"{directory}/{file}")
    return text


def put(directory: str, hints: Mapping[int, str], *steps: tuple[str, str]) -> None:
    """Write texts to files that were read before; an error names what was written before it."""
    knobs.write_all(directory, list(steps), "it was there a moment ago", hints)


def parsed(directory: str, file: str, parse: Callable[[str], Any], expected: str) -> Any:
    """Return what *parse* makes of a file's text; raise CgroupError if that is a ValueError."""
    text = text_of(directory, file)
    try:
        return parse(text)
    except ValueError as error:
        raise CgroupError(f"{directory}/{file} holds {quoted(text)}: expected {expected}") from error


class KnobForm:
    """What the forms share: the file by which the knob is there or not, and the kind of its value."""

    __slots__ = ("file", "kind")

    def __init__(self, file: str, kind: KnobKind) -> None:
        self.file, self.kind = file, kind

    def files(self) -> tuple[str, ...]:
        """Return the names of the files, for people."""
        return (self.file,)

    def read(self, directory: str) -> Any:
        """Return the value in a cgroup. Raise AbsentFileError if the cgroup does not have the file."""
        raise NotImplementedError

    def write(self, directory: str, value: Any, before: Any) -> None:
        """Write a value in place of *before*, which is another one."""
        raise NotImplementedError

    def same(self, one: Any, other: Any) -> bool:
        """Return whether the kernel would store the same for both values."""
        return self.kind.same(one, other)

    def changed(self, before: Any, value: Any) -> Any:
        """Return what has to be written so that *before* becomes *value*, or UNCHANGED."""
        return UNCHANGED if self.same(before, value) else value

    def is_kept(self, now: Any, value: Any) -> bool:
        """Return whether a cgroup that has *now* has the value that was written."""
        return self.kind.is_kept(now, value)

    def previous(self, before: Any, value: Any) -> Any:
        """Return the value that, when written after *value*, restores *before*."""
        return before

    def own(self, inner: Any, value: Any) -> Any:
        """Return what of a limit an inner level gets, or UNCHANGED if it has no limit of its own."""
        return UNCHANGED if inner is None else value


class OneFile(KnobForm):
    """One file with one value. *hints* are the reasons for the kernel's errors, by errno."""

    __slots__ = ("hints",)

    def __init__(self, file: str, kind: KnobKind, hints: Mapping[int, str] | None = None) -> None:
        super().__init__(file, kind)
        self.hints = hints or {}

    def read(self, directory: str) -> Any:
        return parsed(directory, self.file, self.kind.parse, self.kind.expected)

    def write(self, directory: str, value: Any, before: Any) -> None:
        put(directory, self.hints, (self.file, self.kind.render(value)))


class QuotaFiles(KnobForm):
    """The CFS quota: one file in v2, two in v1; see :mod:`nri.cgroups.quota`."""

    __slots__ = ("_version",)

    def __init__(self, kind: KnobKind, version: int) -> None:
        super().__init__(quota.KNOB[version], kind)
        self._version = version

    def files(self) -> tuple[str, ...]:
        return (self.file,) if self._version == 2 else (self.file, quota.PERIOD_V1)

    def read(self, directory: str) -> quota.Quota:
        text_of(directory, self.file)
        return quota.read(directory, self._version)

    def write(self, directory: str, value: quota.Quota, before: quota.Quota) -> None:
        quota.assign(directory, self._version, value, before)

    def own(self, inner: quota.Quota, value: quota.Quota) -> Any:
        return UNCHANGED if inner.quota_us is None else value
