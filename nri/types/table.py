"""Tables of the keys that a JSON object may have, with a rule for each value.

    CONF = Table(
        Key("level", words("low", "high"), default="low", description="how much is done"),
        Key("cpus", array(number(0, 8191, whole=True)), default=[], description="CPUs that are left alone"),
        notes=True,
        nulls=True,
    )
    assert CONF.read({"cpus": [0, 1]}) == {"level": "low", "cpus": [0, 1]}

Functions make the usual rules; for any other, make a ``Rule``. The faults and a JSON Schema are made from the
same table by ``nri.types.table_explained``, which a plugin need not import at its start. A validator of the schema
gives the same verdict, except that it accepts ``1.0`` as an integer.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


NOTE_PREFIX = "x-"
"""A key that begins with it holds notes for people; no program reads them."""


def _unsaid(value: object) -> str:
    return ""


class Rule:
    """A rule for a JSON value.

    :param kind: the Python type of the values that the rule is for; true and false are no numbers.
    :param check: returns whether a value of this kind is right.
    :param expected: a description of the right values, for messages.
    :param keywords: the keywords of its JSON Schema (2020-12), without the keywords of *parts*. The schema omits
        those that say nothing, such as None and a least length of 0.
    :param explain: returns the fault in a value of this kind; "" for "found VALUE, expected EXPECTED".
    :param parts: the rule for an array's items, or the alternative rules for the value.
    """

    def __init__(
        self,
        kind: type | tuple[type, ...],
        check: Callable[[Any], bool],
        expected: str,
        keywords: dict[str, Any],
        *,
        explain: Callable[[Any], str] = _unsaid,
        parts: tuple[Rule, ...] = (),
    ) -> None:
        self.kind = kind
        self.check = check
        self.expected = expected
        self.keywords = keywords
        self.explain = explain
        self.parts = parts

    def is_of_kind(self, value: object) -> bool:
        """Return whether *value* is of the type that the rule is for."""
        if isinstance(value, bool):
            return self.kind in (bool, object)
        return isinstance(value, self.kind)

    def accepts(self, value: object) -> bool:
        """Return whether *value* is right."""
        return self.is_of_kind(value) and self.check(value)


ANYTHING = Rule(object, lambda value: True, "a value", {})
FLAG = Rule(bool, lambda value: True, "true or false", {"type": "boolean"})


def words(*allowed: str) -> Rule:
    """Return a rule for one of some words."""
    expected = f'"{allowed[0]}"'
    if len(allowed) > 1:
        expected = f"one of {', '.join(allowed)}"
    return Rule(str, allowed.__contains__, expected, {"enum": [*map(str, allowed)]})


def text(
    shortest: int = 0,
    longest: int | None = None,
    *,
    matches: Callable[[str], bool] | None = None,
    pattern: str | None = None,
    expected: str = "",
) -> Rule:
    """Return a rule for a string of *shortest* to *longest* characters.

    :param matches: returns whether a string is right.
    :param pattern: the regular expression, for the schema, that is the same as *matches*.
    """
    if (matches is None) != (pattern is None):
        raise TypeError("expected both matches and pattern, or neither")
    most = float("inf") if longest is None else longest

    def is_right(value: str) -> bool:
        is_in_range = shortest <= len(value) <= most
        return is_in_range and (matches is None or matches(value))

    def explain(value: str) -> str:
        if len(value) > most:
            return f"found {len(value)} characters, expected at most {longest}"
        return ""

    keywords = {
        "type": "string",
        "minLength": shortest,
        "maxLength": longest,
        "pattern": pattern,
    }
    usual = {0: "a string", 1: "a string that is not empty"}
    least = usual.get(shortest, f"a string of at least {shortest} characters")
    return Rule(str, is_right, expected or least, keywords, explain=explain)


MAX_PATH = 4095
"""Characters of a path at most; Linux' PATH_MAX is 4096 bytes with the NUL at the end."""


def _is_path(value: str) -> bool:
    return value.startswith("/") and "\0" not in value and ".." not in value.split("/")


PATH = text(
    1,
    MAX_PATH,
    matches=_is_path,
    pattern=r"^(?![\s\S]*/\.\.(?:/|(?![\s\S])))/[^\u0000]*$",
    expected="an absolute path without '..'",
)
"""The rule for an absolute path."""


def number(
    low: float | None = None,
    high: float | None = None,
    *,
    whole: bool = False,
    expected: str = "",
) -> Rule:
    """Return a rule for a number from *low* to *high*, or for a *whole* one."""
    kind: type | tuple[type, ...] = (int, float)
    name = "number"
    usual = "a number"
    if whole:
        kind = int
        name = "integer"
        usual = "an integer"
    least = float("-inf") if low is None else low
    most = float("inf") if high is None else high
    if least > most:
        raise ValueError(f"found the bounds {low} to {high}, expected the lower one first")

    def is_right(value: float) -> bool:
        return least <= value <= most

    keywords = {"type": name, "minimum": low, "maximum": high}
    return Rule(kind, is_right, expected or usual, keywords)


def array(
    item: Rule, shortest: int = 0, *, unique: bool = False, expected: str = "an array"
) -> Rule:
    """Return a rule for an array of at least *shortest* items.

    :param unique: whether no item may be given twice; for items that are strings or numbers.
    """
    if unique and item.kind not in (str, int, (int, float)):
        raise TypeError("expected a rule for strings or numbers, since each item must be unique")
    is_item = item.accepts

    def is_right(value: list[Any]) -> bool:
        has_items = len(value) >= shortest and all(map(is_item, value))
        return has_items and not (unique and len(set(value)) < len(value))

    keywords = {"type": "array", "minItems": shortest, "uniqueItems": unique}
    return Rule(list, is_right, expected, keywords, parts=(item,))


def either(*rules: Rule, expected: str) -> Rule:
    """Return a rule for a value that one of several rules accepts."""
    return Rule(
        object, lambda value: any(rule.accepts(value) for rule in rules), expected, {}, parts=rules
    )


class Map(Rule):
    """The rule for an object whose keys are names, each with a value of one kind.

    :param item: the rule for each value.
    :param names: the rule for each key, a string's.
    :param removable: whether null is a value, too, and ``-NAME`` a key, whose value must be null.
    :param least: the number of keys that it has at least.
    """

    def __init__(self, item: Rule, names: Rule, *, removable: bool = False, least: int = 0) -> None:
        super().__init__(dict, self._is_right, "an object", {"minProperties": least}, parts=(item,))
        self.item = item
        self.names = names
        self.removable = removable
        self.least = least

    def accepts_key(self, key: str) -> bool:
        """Return whether *key* can be in the object."""
        if self.removable:
            key = key.removeprefix("-")
        return self.names.accepts(key)

    def accepts_item(self, key: str, item: object) -> bool:
        """Return whether *item* can be the value of *key*."""
        is_removal = item is None or key.startswith("-")
        if self.removable and is_removal:
            return item is None
        return self.item.accepts(item)

    def _is_right(self, value: dict[str, Any]) -> bool:
        if len(value) < self.least:
            return False
        return all(
            self.accepts_key(key) and self.accepts_item(key, item) for key, item in value.items()
        )


class Key:
    """A key of an object, with the rule for its value.

    :param default: the value that a missing key stands for.
    :param required: whether an object without the key is wrong.
    :param named: for the schema: its ``title`` (a few words; part of a validator's messages) and ``description``.
    """

    def __init__(
        self, name: str, rule: Rule, *, default: Any = None, required: bool = False, **named: str
    ) -> None:
        self.name = name
        self.rule = rule
        self.default = default
        self.required = required
        self.named = named


SCHEMA_KEY = Key("$schema", text(), title="The schema of this file, for editors")
"""For the tables of files that people write; no program reads its value."""


class Table(Rule):
    """The rule for an object with some keys, and no others.

    :param notes: whether keys that begin with ``NOTE_PREFIX`` are accepted, too.
    :param nulls: whether null stands for a missing key, where the key is not required.
    :param least: the number of keys that an object has at least.
    :param named: as for ``Key``.
    :ivar others: what the other keys that are accepted begin with.
    """

    def __init__(
        self, *keys: Key, notes: bool = False, nulls: bool = False, least: int = 0, **named: str
    ) -> None:
        super().__init__(dict, self._is_right, "an object", {**named, "minProperties": least})
        self.least = least
        self.keys = {key.name: key for key in keys}
        self.others: tuple[str, ...] = ()
        if notes:
            self.others = (NOTE_PREFIX,)
        self.required = [key.name for key in keys if key.required]
        self.nullable = [key.name for key in keys if nulls and not key.required]
        self._rules = {key.name: key.rule.accepts for key in keys}
        self._required = frozenset(self.required)

    def read(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return each key's value in a right object, or its default where the key is missing or null."""
        read = {}
        for name, key in self.keys.items():
            item = given.get(name)
            read[name] = key.default if item is None else item
        return read

    def right(self, value: object) -> dict[str, Any]:
        """Return the keys of an object that the table has and whose values are right; none of another value."""
        right: dict[str, Any] = {}
        if not isinstance(value, dict):
            return right
        for key, item in value.items():
            if key in self._rules and self._rules[key](item):
                right[key] = item
        return right

    def _is_right(self, value: dict[str, Any]) -> bool:
        if len(value) < self.least:
            return False
        rules = self._rules
        for key, item in value.items():
            if key in rules:
                if not rules[key](item) and not (item is None and key in self.nullable):
                    return False
            elif not key.startswith(self.others):
                return False
        return value.keys() >= self._required


def open_table(*keys: Key) -> Table:
    """Return a rule for an object with some keys, and any others: a newer build may have written them."""
    table = Table(*keys)
    table.others = ("",)
    return table
