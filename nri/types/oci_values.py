"""The rules of values of the OCI runtime specification: integers of a size, paths, names, words of the kernel.

They apply to what plugins ask for, and to the annotations from which a plugin makes that.
"""

from __future__ import annotations

from nri.types.table import Key, Rule, array, number, text, words

INT32 = number(-(2**31), 2**31 - 1, whole=True, expected="an integer of 32 bits")
UINT32 = number(0, 2**32 - 1, whole=True, expected="an integer from 0 to 4294967295")
INT64 = number(-(2**63), 2**63 - 1, whole=True, expected="an integer of 64 bits")
UINT64 = number(0, 2**64 - 1, whole=True, expected="an integer from 0 to 18446744073709551615")


def _is_plain(value: str) -> bool:
    return "\0" not in value


PLAIN = text(matches=_is_plain, pattern=r"^[^\u0000]*$", expected="a string without NUL")
"""A string that the kernel can take: it has no NUL."""

WORD = text(
    1,
    256,
    matches=_is_plain,
    pattern=r"^[^\u0000]*$",
    expected="a name of 1 to 256 characters without NUL",
)


def _is_variable(value: str) -> bool:
    return _is_plain(value) and "=" not in value


VARIABLE = text(1, matches=_is_variable, pattern=r"^[^\u0000=]*$", expected="a name without '='")
"""The name of an environment variable."""


_CDI_SIGNS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:")
_CDI_PART = "[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?"


def _is_cdi_part(part: str) -> bool:
    has_ends = part[:1].isalnum() and part[-1:].isalnum()
    return has_ends and _CDI_SIGNS.issuperset(part)


def _is_cdi_device(value: str) -> bool:
    # A part that is missing is "", which is none.
    kind, _, device = value.partition("=")
    vendor, _, class_ = kind.partition("/")
    return all(_is_cdi_part(part) for part in (vendor, class_, device))


CDI_DEVICE = text(
    5,
    4095,
    matches=_is_cdi_device,
    pattern=f"^{_CDI_PART}/{_CDI_PART}={_CDI_PART}(?!\\n)$",
    expected="a device's full name, VENDOR/CLASS=DEVICE",
)

HOOKS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
"""The kinds of hooks."""


HOOK_TIMEOUT = number(
    1, 2**31 - 1, whole=True, expected="a whole number of seconds, 1 to 2147483647"
)


def flags(prefix: str, *allowed: str) -> Rule:
    """Return a rule for one of some words that begin with *prefix*."""
    return words(*[f"{prefix}{word}" for word in allowed])


MEMORY_MODE = flags(
    "MPOL_",
    "DEFAULT",
    "PREFERRED",
    "BIND",
    "INTERLEAVE",
    "LOCAL",
    "PREFERRED_MANY",
    "WEIGHTED_INTERLEAVE",
)
MEMORY_FLAG = flags("MPOL_F_", "STATIC_NODES", "RELATIVE_NODES", "NUMA_BALANCING")

IO_CLASSES = ("RT", "BE", "IDLE")
"""The classes of I/O priority, without ``IOPRIO_CLASS_``."""

POLICIES = ("OTHER", "FIFO", "RR", "BATCH", "ISO", "IDLE", "DEADLINE")
"""The policies of schedulers, without ``SCHED_``."""

SCHEDULER_FLAG = flags(
    "SCHED_FLAG_",
    *(
        "RESET_ON_FORK",
        "RECLAIM",
        "DL_OVERRUN",
        "KEEP_POLICY",
        "KEEP_PARAMS",
        "UTIL_CLAMP_MIN",
        "UTIL_CLAMP_MAX",
    ),
)
NICE = number(-20, 19, whole=True, expected="an integer from -20 to 19")
IO_PRIORITY_LEVEL = number(0, 7, whole=True, expected="an integer from 0 to 7")
SCHEDULING = (
    Key("nice", NICE),
    Key("priority", INT32),
    Key("flags", array(SCHEDULER_FLAG)),
    Key("runtime", UINT64),
    Key("deadline", UINT64),
    Key("period", UINT64),
)
"""The keys of a scheduler beside its policy."""

FILE_MODE = number(0, 0o7777, whole=True, expected="an integer from 0 to 4095 (0o7777)")
