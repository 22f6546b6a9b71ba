"""The rules of single values in adjustments: integers of a size, absolute paths, names."""

from __future__ import annotations

from nri.types.table import Rule, number, text, words

INT32 = number(-(2**31), 2**31 - 1, whole=True, expected="an integer of 32 bits")
UINT32 = number(0, 2**32 - 1, whole=True, expected="an integer from 0 to 4294967295")
INT64 = number(-(2**63), 2**63 - 1, whole=True, expected="an integer of 64 bits")
UINT64 = number(0, 2**64 - 1, whole=True, expected="an integer from 0 to 18446744073709551615")

MAX_PATH = 4095
"""Characters of a path at most; Linux' PATH_MAX is 4096 bytes with the NUL at the end."""


def _is_plain(value: str) -> bool:
    return "\0" not in value


def _is_path(value: str) -> bool:
    return value.startswith("/") and _is_plain(value) and ".." not in value.split("/")


PLAIN = text(matches=_is_plain, pattern=r"^[^\u0000]*$", expected="a string without NUL")
"""A string that the kernel can take: it has no NUL."""

WORD = text(1, 256, matches=_is_plain, pattern=r"^[^\u0000]*$", expected="a name of 1 to 256 characters without NUL")

PATH = text(
    1,
    MAX_PATH,
    matches=_is_path,
    pattern=r"^(?![\s\S]*/\.\.(?:/|(?![\s\S])))/[^\u0000]*$",
    expected="an absolute path without '..'",
)


def _is_variable(value: str) -> bool:
    return _is_plain(value) and "=" not in value


VARIABLE = text(1, matches=_is_variable, pattern=r"^[^\u0000=]*$", expected="a name without '='")
"""The name of an environment variable."""


def flags(prefix: str, *known: str) -> Rule:
    """Return a rule for one of some words that begin with *prefix*."""
    return words(*[f"{prefix}{word}" for word in known])
