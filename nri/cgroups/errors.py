"""What can go wrong with a cgroup, told apart by what the caller can do about it.

A plugin that finds :class:`GoneError` may well have nothing left to do; the others mean that a path, a
setting or the node is not what it should be. Each message names the file or the text, what was found, what
would be right.
"""

from __future__ import annotations

from nri.errors import NRIError


class CgroupError(NRIError):
    """The kernel refused, or a cgroup is not as expected. Root of all errors of this package."""


class CgroupPathError(CgroupError, ValueError):
    """A cgroupsPath that no runtime would use. Expected when a request is wrong or hostile."""


class CpuListError(CgroupError, ValueError):
    """A text that is no CPU list, or a CPU that no kernel has. Usual cause: a typo in a plugin's ``conf``."""


class GoneError(CgroupError):
    """There is no such cgroup (any more). Expected: a container may end while a plugin runs."""


def quoted(text: str, limit: int = 80) -> str:
    """Return ``repr(text)`` for a message, cut to *limit* characters of the text: it may be hostile."""
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}... ({len(text)} characters)"
