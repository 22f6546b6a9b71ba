"""Fields of a plugin conf, :class:`nri.types.conf.Conf`: for each usual kind of value a function.

All take a ``description``, a sentence for the schema and ``--help``; a ``default``, the JSON value of a missing key,
which is required without one, and optional with None; and a ``key``, if it is not the attribute's name in camel case.
An annotation says which type the attribute has: ``size: int = fields.integer("how much", 1, 64)``.
:mod:`nri.skel.fields` has these, and one for CPU lists.
"""

from __future__ import annotations

from nri.types import table
from nri.types.conf import REQUIRED, ConfField

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nri.types.conf import Conf
    from nri.types.table import Rule


def value(
    rule: Rule,
    description: str,
    *,
    default: Any = REQUIRED,
    read: Callable[[Any], Any] | None = None,
    key: str = "",
) -> Any:
    """Return a field for what a rule of :mod:`nri.types.table` accepts.

    :param read: makes the attribute's value of the JSON value; None if they are the same.
    """
    return ConfField(rule, description, default, read, key)


def text(
    description: str, *, shortest: int = 1, longest: int | None = None, default: Any = REQUIRED, key: str = ""
) -> Any:
    """Return a field for a string of *shortest* to *longest* characters; ``str``."""
    return ConfField(table.text(shortest, longest), description, default, None, key)


def choice(*known: str, description: str, default: Any = REQUIRED, key: str = "") -> Any:
    """Return a field for one of some words; ``str``."""
    return ConfField(table.words(*known), description, default, None, key)


def flag(description: str, *, default: Any = REQUIRED, key: str = "") -> Any:
    """Return a field for true or false; ``bool``."""
    return ConfField(table.FLAG, description, default, None, key)


def integer(
    description: str, low: int | None = None, high: int | None = None, *, default: Any = REQUIRED, key: str = ""
) -> Any:
    """Return a field for an integer from *low* to *high*; ``int``."""
    rule = table.number(low, high, whole=True, expected=f"an integer{_bounds(low, high)}")
    return ConfField(rule, description, default, None, key)


def number(
    description: str, low: float | None = None, high: float | None = None, *, default: Any = REQUIRED, key: str = ""
) -> Any:
    """Return a field for a number from *low* to *high*; ``float``, or ``int`` for one without a point."""
    rule = table.number(low, high, expected=f"a number{_bounds(low, high)}")
    return ConfField(rule, description, default, None, key)


def path(description: str, *, default: Any = REQUIRED, key: str = "") -> Any:
    """Return a field for an absolute path; ``str``."""
    return ConfField(PATH, description, default, None, key)


def array(
    item: Rule,
    description: str,
    *,
    shortest: int = 0,
    unique: bool = False,
    expected: str = "",
    default: Any = REQUIRED,
    key: str = "",
) -> Any:
    """Return a field for an array; ``tuple``.

    :param item: the rule for its items: :func:`nri.types.table.text` for any strings, ``words("a", "b")`` for some.
    :param unique: whether no item may be given twice.
    :param expected: what is right, in words for the message about what is not.
    """
    said = expected or f"an array{' of one item or more' if shortest else ''}, each {item.expected}"
    rule = table.array(item, shortest, unique=unique, expected=said)
    return ConfField(rule, description, default, tuple, key)


def mapping(item: Rule, description: str, *, default: Any = REQUIRED, key: str = "") -> Any:
    """Return a field for an object with any keys, each with a value that *item* accepts; ``dict``."""
    return ConfField(table.Map(item, table.text(1)), description, default, None, key)


def section(conf: type[Conf], description: str, *, default: Any = REQUIRED, key: str = "") -> Any:
    """Return a field for an object that is a conf of its own; an object of that class."""
    return ConfField(conf.table, description, default, conf.of_accepted, key)


def _bounds(low: float | None, high: float | None) -> str:
    if low is None:
        return "" if high is None else f", {high} at most"
    return f", {low} at least" if high is None else f", {low} to {high}"


def _is_path(value: str) -> bool:
    return value.startswith("/") and "\0" not in value


PATH = table.text(1, 4095, matches=_is_path, pattern=r"^/[^\0]*(?![\s\S])", expected="an absolute path")
"""The rule for an absolute path, at most as long as the kernel takes one (PATH_MAX)."""
