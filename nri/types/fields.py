"""Fields of a plugin conf, ``nri.types.conf.Conf``: for each usual kind of value a function.

All take a ``description``, a sentence for the schema and ``--help``; a ``default``, the JSON value of a missing key,
which is required without one, and optional with None; and a ``key``, if it is not the attribute's name in camel case.
Each returns the field as what the attribute will be, so that a type checker compares the annotation with it:
``size: int = fields.integer("how much", 1, 64)``. ``nri.skel.fields`` has these, and one for CPU lists.
"""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from nri.types import table
from nri.types.conf import REQUIRED, ConfField, unchanged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from nri.types.conf import Conf
    from nri.types.table import Rule

    C = TypeVar("C", bound=Conf)
    Item = Rule | type[Conf] | Any
    """The rule for an item: another field, such as ``fields.text()``, a conf class, or a rule."""


def value(
    rule: Rule,
    description: str,
    *,
    default: Any = REQUIRED,
    read: Callable[[Any], Any] = unchanged,
    key: str = "",
) -> Any:
    """Return a field for what a rule of ``nri.types.table`` accepts.

    :param read: makes the attribute's value of the JSON value.
    """
    return ConfField(rule, description, default, read, key)


def text(
    description: str = "",
    *,
    shortest: int = 1,
    longest: int | None = None,
    default: Any = REQUIRED,
    key: str = "",
) -> str:
    """Return a field for a string of *shortest* to *longest* characters."""
    return _field(table.text(shortest, longest), description, default, key)


def choice(*allowed: str, description: str = "", default: Any = REQUIRED, key: str = "") -> str:
    """Return a field for one of some words."""
    return _field(table.words(*allowed), description, default, key)


def flag(description: str = "", *, default: Any = REQUIRED, key: str = "") -> bool:
    """Return a field for true or false."""
    return _field(table.FLAG, description, default, key)


def integer(
    description: str = "",
    low: int | None = None,
    high: int | None = None,
    *,
    default: Any = REQUIRED,
    key: str = "",
) -> int:
    """Return a field for an integer from *low* to *high*."""
    rule = table.number(low, high, whole=True, expected=f"an integer{_bounds(low, high)}")
    return _field(rule, description, default, key)


def number(
    description: str = "",
    low: float | None = None,
    high: float | None = None,
    *,
    default: Any = REQUIRED,
    key: str = "",
) -> float:
    """Return a field for a number from *low* to *high*; the attribute is an ``int`` for one without a point."""
    rule = table.number(low, high, expected=f"a number{_bounds(low, high)}")
    return _field(rule, description, default, key)


def path(description: str = "", *, default: Any = REQUIRED, key: str = "") -> str:
    """Return a field for an absolute path."""
    return _field(PATH, description, default, key)


def array(
    item: Item,
    description: str = "",
    *,
    shortest: int = 0,
    unique: bool = False,
    expected: str = "",
    default: Any = REQUIRED,
    key: str = "",
) -> tuple[Any, ...]:
    """Return a field for an array.

    :param unique: whether no item may be given twice.
    :param expected: what is right, in words for the message about what is not.
    """
    of, read = _item(item)
    kind = "an array of one item or more" if shortest else "an array"
    said = expected or f"{kind}, each {of.expected}"
    rule = table.array(of, shortest, unique=unique, expected=said)

    def items(value: list[Any]) -> tuple[Any, ...]:
        return tuple(map(read, value))

    return _field(rule, description, default, key, items)


def mapping(
    item: Item, description: str = "", *, default: Any = REQUIRED, key: str = ""
) -> dict[str, Any]:
    """Return a field for an object with any keys, each with such a value."""
    of, read = _item(item)

    def items(value: dict[str, Any]) -> dict[str, Any]:
        return {name: read(entry) for name, entry in value.items()}

    return _field(table.Map(of, table.text(1)), description, default, key, items)


def section(conf: type[C], description: str = "", *, default: Any = REQUIRED, key: str = "") -> C:
    """Return a field for an object that is a conf of its own; an object of that class."""
    return _field(conf.table, description, default, key, conf.from_value)


def _field(
    rule: Rule, description: str, default: Any, key: str, read: Callable[[Any], Any] = unchanged
) -> Any:
    return ConfField(rule, description, default, read, key)


def _item(item: Item) -> tuple[Rule, Callable[[Any], Any]]:
    """Return the rule of an item, and what makes its value."""
    if isinstance(item, ConfField):
        return item.rule, item.read
    if isinstance(item, table.Rule):
        return (item, unchanged)
    return (item.table, item.from_value)


def _bounds(low: float | None, high: float | None) -> str:
    if low is None:
        return "" if high is None else f", {high} at most"
    if high is None:
        return f", {low} at least"
    return f", {low} to {high}"


PATH = table.PATH


NAMESPACES = table.either(
    table.FLAG,
    table.array(table.text(1, expected="the name of a namespace")),
    expected="true, false, or an array of namespaces",
)
"""The rule for the pods that may ask for something."""


def namespaces(description: str, *, default: Any = False, key: str = "") -> bool | tuple[str, ...]:
    """Return a field for the pods that may ask for something: true (any), false (none), or an array of namespaces.

    ``nri.skel.why_not_allowed`` decides by it.
    """
    return value(NAMESPACES, description, default=default, read=_pods, key=key)


def _pods(given: bool | list[str]) -> bool | tuple[str, ...]:
    return given if isinstance(given, bool) else tuple(given)
