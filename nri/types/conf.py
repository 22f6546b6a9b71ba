"""A plugin conf as a class: a field for each key, written once.

    class BatchConf(Conf):
        cpus: frozenset[int] = fields.cpus("the CPUs of batch containers")
        level: str = fields.choice("low", "high", default="low", description="how much is done")

    conf = BatchConf.from_value({"cpus": "0-3,8"})
    assert (len(conf.cpus), conf.level) == (5, "low")

The fields (``nri.types.fields``) make the verdict, the message, the JSON Schema and the attributes. A field's key
is its name in camel case: ``max_size`` is ``maxSize``. A field without a default is required. Keys that begin with
``nri.types.table.NOTE_PREFIX`` are notes; null stands for a missing key.
"""

from __future__ import annotations

from nri.types import DecodeError, gojson
from nri.types.demanding import demand
from nri.types.table import SCHEMA_KEY, Key, Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, Self

    from nri.types.table import Rule

MAX_FAULTS = 20
"""Faults of one conf that are listed."""

REQUIRED: Any = object()
"""The default of a field that has none."""


def unchanged(value: Any) -> Any:
    """Return a JSON value, which is the attribute's as it is."""
    return value


class ConfField:
    """A key of a plugin conf; the functions of ``nri.types.fields`` make it.

    :param default: the JSON value that a missing key stands for, or ``REQUIRED``.
    :param read: makes the attribute's value of a JSON value. It is not called for None.
    :param key: the key, if it is not the attribute's name in camel case.
    """

    __slots__ = ("default", "description", "key", "read", "rule")

    def __init__(
        self,
        rule: Rule,
        description: str,
        default: Any,
        read: Callable[[Any], Any] = unchanged,
        key: str = "",
    ) -> None:
        if default not in (REQUIRED, None) and not rule.is_of_kind(default):
            raise TypeError(f"found the default {default!r}, expected {rule.expected}")
        self.rule = rule
        self.description = description
        self.default = default
        self.read = read
        self.key = key

    def attribute(self, value: Any) -> Any:
        """Return the attribute's value of a JSON value; None for null."""
        if value is None:
            return None
        return self.read(value)

    def as_key(self, name: str) -> Key:
        """Return the key of the table."""
        if self.default is REQUIRED:
            return Key(name, self.rule, required=True, description=self.description)
        return Key(name, self.rule, default=self.default, description=self.description)


class Conf:
    """The base of a plugin conf. Its objects are frozen, and equal if all of their values are."""

    table = Table(notes=True, nulls=True, least=0)
    """The rule for the JSON value, made of the fields."""
    attributes: dict[str, str] = {}
    """The names of the attributes, by key."""
    _fields: dict[str, ConfField] = {}  # by attribute

    def __init_subclass__(cls, **named: str) -> None:
        """Make the table of the class's fields.

        :param named: ``title`` and ``description`` of the schema, for a class that is a file of its own: it may also
            have the key ``$schema``, for editors.
        """
        own = {name: field for name, field in vars(cls).items() if isinstance(field, ConfField)}
        _check(cls, own)
        base = cls._fields
        cls._fields = {**own, **base, **own}  # those of the base go last
        cls.attributes = {}
        keys = []
        for name, field in cls._fields.items():
            if hasattr(Conf, name):
                raise TypeError(
                    f"{cls.__name__}.{name}: found a name that every conf has, expected another "
                    "and its key="
                )
            key = field.key or _camel(name)
            cls.attributes[key] = name
            keys.append(field.as_key(key))
        if named:
            keys.append(SCHEMA_KEY)
        cls.table = Table(*keys, notes=True, nulls=True, least=0, **named)

    def __init__(self, **values: Any) -> None:
        """Take the attributes' values, unchecked; those that are missing have their defaults."""
        for name, field in self._fields.items():
            if name not in values:
                if field.default is REQUIRED:
                    raise TypeError(f"{type(self).__name__}: {name} is missing")
                values[name] = field.attribute(field.default)
        if len(values) > len(self.attributes):
            unknown = ", ".join(sorted(values.keys() - set(self.attributes.values())))
            raise TypeError(
                f"{type(self).__name__}: found {unknown}, expected "
                f"{', '.join(self.attributes.values())}"
            )
        self.__dict__.update(values)

    @classmethod
    def from_value(cls, value: object) -> Self:
        """Return the conf of a decoded JSON value; None stands for an object without keys.

        :raises nri.types.DecodeError: its faults (``MAX_FAULTS``), each as ``conf.KEY: found …, expected …``.
        """
        given: Any = {} if value is None else value
        demand(cls.table, given, "conf", MAX_FAULTS)
        read = cls.table.read(given)
        made = object.__new__(cls)
        for key, name in cls.attributes.items():
            made.__dict__[name] = cls._fields[name].attribute(read[key])
        return made

    @classmethod
    def of_text(cls, text: str) -> tuple[Self, list[str]]:
        """Return the conf of the right keys of a JSON text, with the defaults for the rest, and its first faults.

        A blank text is an object without keys. For a class without required fields.
        """
        twice: list[str] = []
        try:
            value = gojson.loads(text, twice) if text.strip() else {}
        except DecodeError as error:
            return cls(), [f"is not JSON: {error}"]
        if not isinstance(value, dict):
            return cls(), [f"found {gojson.describe(value)}, expected an object"]
        repeated = []
        for key in twice:
            repeated.append(f"{gojson.shorten(repr(key))} is given twice, expected it once")
        once = {key: item for key, item in value.items() if key not in twice}
        if cls.table.accepts(once):
            return cls.from_value(once), repeated
        from itertools import islice

        from nri.types.table_explained import faults, path_text

        messages = []
        for path, wrong, _ in islice(faults(cls.table, once), MAX_FAULTS):
            messages.append(f"{path_text(path)}: {wrong}")
        return cls.from_value(cls.table.right(once)), messages + repeated

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of the conf."""
        from nri.types.table_explained import schema

        return schema(cls.table)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values for some attributes, unchecked."""
        return type(self)(**(self.__dict__ | changes))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if type(other) is type(self):
            return self.__dict__ == other.__dict__
        return NotImplemented

    __hash__ = None  # type: ignore[assignment] # some values are dictionaries

    def __repr__(self) -> str:
        values = ", ".join([f"{name}={value!r}" for name, value in self.__dict__.items()])
        return f"{type(self).__name__}({values})"


def _check(cls: type, own: dict[str, ConfField]) -> None:
    """Raise TypeError for an attribute that the author of a class has meant for a field."""
    for name, kind in cls.__annotations__.items():
        if name not in own and name[:1] != "_" and "ClassVar" not in str(kind):
            raise TypeError(
                f"{cls.__name__}.{name}: found no field, expected one such as fields.integer(…)"
            )


def _camel(name: str) -> str:
    first, *more = name.split("_")
    return first + "".join([word.capitalize() for word in more])
