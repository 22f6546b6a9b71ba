"""Tables of the keys that a JSON object may have, with a rule for each value.

One table gives a quick verdict (``accepts``), the values with their defaults (``read``), the faults (``faults``), and
a JSON Schema (``schema``):

    CONF = Table(
        Key("level", words("low", "high"), default="low", description="how much is done"),
        Key("cpus", array(number(0, 8191, whole=True)), default=[], description="CPUs that are left alone"),
        notes=True,
        nulls=True,
    )
    conf = CONF.read({"cpus": [0, 1]}, "conf")
    assert conf == {"level": "low", "cpus": [0, 1]}

A validator of the schema comes to the same verdict, except that it takes ``1.0`` for an integer. Functions make the
usual rules; for any other, make a :class:`Rule`. A plugin imports this module at every start, so the code for faults
and schemas is in :mod:`nri.types.table_explained`.
"""

from __future__ import annotations

from nri.types.errors import DecodeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

NOTE_PREFIX = "x-"
"""A key that begins with it holds notes for people; no program reads them."""


class Rule:
    """A rule for a JSON value.

    :param kind: the Python type of the values that the rule is for.
    :param accepts: returns whether a value is right.
    :param expected: what would be right, for messages.
    :param keywords: the keywords of its JSON Schema (2020-12), without those of *parts*; None leaves a keyword out.
    :param explain: returns what is wrong with a value of this kind; None for "found VALUE, expected EXPECTED".
    :param parts: the rule for an array's items, or the alternative rules for the value.
    """

    def __init__(
        self,
        kind: type | tuple[type, ...],
        accepts: Callable[[Any], bool],
        expected: str,
        keywords: dict[str, Any],
        *,
        explain: Callable[[Any], str] | None = None,
        parts: tuple[Rule, ...] = (),
    ) -> None:
        self.kind, self.accepts, self.expected = kind, accepts, expected
        self.keywords, self.explain, self.parts = keywords, explain, parts

    def why(self, value: object) -> str:
        """Return what is wrong with *value* as a whole and what would be right; "" if it is accepted."""
        from nri.types import table_explained

        return table_explained.why(self, value)

    def faults(self, value: object, where: str) -> Iterator[tuple[str, str]]:
        """Yield each fault in *value*: its path, which begins with *where*, and what is wrong there."""
        from nri.types import table_explained

        return table_explained.faults(self, value, where)

    def schema(self) -> dict[str, Any]:
        """Return the rule as a JSON Schema (2020-12)."""
        from nri.types import table_explained

        return table_explained.schema(self)


ANYTHING = Rule(object, lambda value: True, "a value", {})
FLAG = Rule(bool, lambda value: value is True or value is False, "true or false", {"type": "boolean"})


def words(*known: str) -> Rule:
    """Return a rule for one of some words."""
    keywords = {"enum": [*map(str, known)]} if len(known) > 1 else {"const": str(known[0])}
    return Rule(str, known.__contains__, f"one of {', '.join(known)}", keywords)


def text(
    shortest: int = 0,
    longest: int | None = None,
    *,
    matches: Callable[[str], bool] | None = None,
    pattern: str | None = None,
    expected: str = "",
) -> Rule:
    """Return a rule for a string with a number of characters from *shortest* to *longest*.

    :param longest: None for no limit.
    :param matches: returns whether a string is right.
    :param pattern: the regular expression, for the schema, that is the same as *matches*.
    """
    if (matches is None) != (pattern is None):
        raise TypeError("expected both matches and pattern, or neither")

    def accepts(value: object) -> bool:
        return (
            isinstance(value, str)
            and (matches is None or matches(value))
            and len(value) >= shortest
            and (longest is None or len(value) <= longest)
        )

    keywords = {"type": "string", "minLength": shortest or None, "maxLength": longest, "pattern": pattern}
    return Rule(str, accepts, expected or ("a string that is not empty" if shortest else "a string"), keywords)


def number(
    low: float | None = None,
    high: float | None = None,
    *,
    above: bool = False,
    whole: bool = False,
    expected: str = "",
) -> Rule:
    """Return a rule for a number from *low* to *high*; None for no limit.

    :param above: whether the number must be greater than *low*.
    :param whole: whether it must be an integer.
    """
    kind: type | tuple[type, ...] = int if whole else (int, float)
    least = float("-inf") if low is None else low
    most = float("inf") if high is None else high

    def accepts(value: Any) -> bool:
        if not isinstance(value, kind) or value is True or value is False:
            return False
        return least <= value <= most and not (above and value == low)  # type: ignore[operator]

    name = "integer" if whole else "number"
    keywords = {"type": name, "exclusiveMinimum" if above else "minimum": low, "maximum": high}
    return Rule(kind, accepts, expected or ("an integer" if whole else "a number"), keywords)


def array(item: Rule, shortest: int = 0, *, unique: bool = False, expected: str = "an array") -> Rule:
    """Return a rule for an array of at least *shortest* items.

    :param unique: whether no item may be given twice; for items that are strings or numbers.
    """
    if unique and item.kind not in (str, int, (int, float)):
        raise TypeError("expected a rule for strings or numbers, since each item must be unique")
    is_item = item.accepts

    def accepts(value: object) -> bool:
        return (
            isinstance(value, list)
            and len(value) >= shortest
            and all(map(is_item, value))
            and (not unique or len(set(value)) == len(value))
        )

    keywords = {"type": "array", "minItems": shortest or None, "uniqueItems": unique or None}
    return Rule(list, accepts, expected, keywords, parts=(item,))


def either(*rules: Rule, expected: str) -> Rule:
    """Return a rule for a value that one of several rules accepts."""
    return Rule(object, lambda value: any(rule.accepts(value) for rule in rules), expected, {}, parts=rules)


class Key:
    """A key of an object, with the rule for its value.

    :param default: the value that a missing key stands for.
    :param title: what the value is, in a few words; part of a validator's messages.
    :param required: whether an object without the key is wrong.
    """

    def __init__(
        self,
        name: str,
        rule: Rule,
        *,
        default: Any = None,
        title: str | None = None,
        description: str | None = None,
        required: bool = False,
    ) -> None:
        self.name, self.rule, self.default, self.required = name, rule, default, required
        self.named = {"title": title, "description": description}


class Table(Rule):
    """The rule for an object with some keys, and no others.

    :param notes: whether keys that begin with :data:`NOTE_PREFIX` are accepted, too.
    :param nulls: whether null stands for a missing key, where the key is not required.
    """

    def __init__(
        self,
        *keys: Key,
        notes: bool = False,
        nulls: bool = False,
        title: str | None = None,
        description: str | None = None,
    ) -> None:
        super().__init__(dict, self._accepts, "an object", {"title": title, "description": description})
        self.keys = {key.name: key for key in keys}
        self.notes = notes
        self.required = [key.name for key in keys if key.required]
        self.nullable = [key.name for key in keys if nulls and not key.required]
        self._rules = {key.name: key.rule.accepts for key in keys}

    def is_note(self, key: str) -> bool:
        """Return whether the table takes *key* for a note."""
        return self.notes and key.startswith(NOTE_PREFIX)

    def read(self, value: object, where: str) -> dict[str, Any]:
        """Return the value of each key of the table; the default where the key is missing or null.

        :param value: None for an object without keys.
        :raises DecodeError: for the first fault.
        """
        given: Any = {} if value is None else value
        if not self._accepts(given):
            path, why = next(self.faults(given, where))
            raise DecodeError(f"{path}: {why}")
        found = {}
        for name, key in self.keys.items():
            item = given.get(name)
            found[name] = key.default if item is None else item
        return found

    def _accepts(self, value: object) -> bool:
        if not isinstance(value, dict):
            return False
        rules = self._rules
        for key, item in value.items():
            if key in rules:
                if not rules[key](item) and not (item is None and key in self.nullable):
                    return False
            elif not self.is_note(key):
                return False
        for key in self.required:  # noqa: SIM110 - all() takes twice the time
            if key not in value:
                return False
        return True
