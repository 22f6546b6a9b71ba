"""Errors of cgroups. Each message names the file or the text, what was found, and what would be right.

After ``GoneError`` a plugin may have nothing left to do; the others mean that a path, a plugin conf or the node
is not as it should be.
"""

from __future__ import annotations

from nri.errors import NRIError

_LIMIT = 80
"""Characters of a text in a message."""


class CgroupError(NRIError):
    """The kernel refused an operation, or a cgroup is not as expected. The root of this package's errors."""


class CgroupPathError(CgroupError, ValueError):
    """A cgroupsPath that no runtime would use. Expected when a request is wrong or hostile."""


class CpuListError(CgroupError, ValueError):
    """A text that is not a CPU list, or a CPU number that no kernel has. Usual cause: a typo in a plugin conf.

    :ivar reason: what is wrong, without the text.
    """

    def __init__(self, reason: str, text: str | None = None, expected: str = "") -> None:
        message = f"{reason}{expected}"
        if text is not None:
            message = f"CPU list {quoted(text)}: {message}"
        super().__init__(message)
        self.reason = reason


class KnobValueError(CgroupError, ValueError):
    """A knob that is not in the table, or a value of another type or outside of its bounds. Nothing was written."""


class NoKnobError(CgroupError):
    """The cgroup exists, and has no such knob: this kernel or version of cgroups lacks it, or a controller is off."""


class GoneError(CgroupError):
    """The cgroup does not exist, or no longer exists. Expected: a container may end while a plugin runs."""


class ElsewhereError(GoneError):
    """The container's process is in another cgroup, so nothing that is written to the container's has any effect.

    Expected for runtimes whose containers are no cgroups of the node, such as Kata and gVisor.
    """


class UntoldError(CgroupError):
    """systemd cannot be asked or told. The knobs can be written all the same, but it may write them again."""


def quoted(text: str) -> str:
    """Return ``repr(text)`` for a message, cut to ``_LIMIT`` characters: the text may be hostile."""
    if len(text) <= _LIMIT:
        return repr(text)
    return f"{text[:_LIMIT]!r}... ({len(text)} characters)"


def described(value: object) -> str:
    """Return ``repr(value)`` for a message, cut to ``_LIMIT`` characters."""
    text = repr(value)
    if len(text) <= _LIMIT:
        return text
    return f"{text[:_LIMIT]}... ({len(text)} characters)"
