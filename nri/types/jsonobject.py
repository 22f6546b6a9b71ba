"""The base class of the wire's types: a table of fields maps JSON keys to attributes.

A type lists its fields once; reading, writing, comparing and printing follow from that table. The rules are the ones
of Go's ``encoding/json``: ``null`` leaves a field at its zero value, keys match in any case, the last of several
equal keys wins, unknown keys are ignored, a value of another kind is an error.

Plain classes instead of dataclasses: importing those takes longer than all of a plugin's own work.
"""

from __future__ import annotations

from nri.types import DecodeError, EncodeError, gojson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, ClassVar, Self, TypeVar

    Kind = Callable[[object, str], Any]
    Listed = TypeVar("Listed", bound="JSONObject")


def fold(key: str) -> str:
    """Return a key as Go compares it: in lower case, with U+017F folded to ``s`` and U+212A to ``k``."""
    return key.lower().replace("\u017f", "s")


def string(value: object, where: str) -> str:
    """Return a string; "" for null. A kind, as all functions up to ``string_map``."""
    if isinstance(value, str):
        return gojson.without_lone(value)
    if value is None:
        return ""
    raise mismatch(value, where, "a string")


def integer(value: object, where: str) -> int:
    """Return an integer of 64 bits, written without fraction or exponent; 0 for null."""
    if value is None:
        return 0
    if type(value) is not int:
        raise mismatch(value, where, "an integer")
    if not -(2**63) <= value < 2**63:
        raise mismatch(value, where, "an integer of 64 bits")
    return value


def boolean(value: object, where: str) -> bool:
    """Return true or false; False for null."""
    if value is None or isinstance(value, bool):
        return bool(value)
    raise mismatch(value, where, "true or false")


def members(value: object, where: str, expected: str = "an object") -> dict[Any, Any]:
    """Return an object; empty for null. For kinds of objects."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise mismatch(value, where, expected)


def items(value: object, where: str, expected: str) -> Sequence[Any]:
    """Return an array; empty for null. For kinds of arrays."""
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return value
    raise mismatch(value, where, expected)


def opaque(value: object, where: str) -> object:
    """Return any JSON value unchanged, lone surrogates included."""
    return value


def strings(value: object, where: str) -> tuple[str, ...]:
    """Return an array of strings; empty for null."""
    listed = items(value, where, "an array of strings")
    return tuple([string(item, f"{where}[{index}]") for index, item in enumerate(listed)])


def string_map(value: object, where: str) -> dict[str, str]:
    """Return an object whose values are strings; empty for null."""
    strings: dict[str, str] = {}
    for key, item in members(value, where, "an object of strings").items():
        if not isinstance(key, str):
            raise mismatch(key, f"{where}: key", "a string")
        if isinstance(item, str):
            text = gojson.without_lone(item)
        else:
            text = string(item, f"{where}.{gojson.shorten(repr(key)[1:-1])}")
        strings[gojson.without_lone(key)] = text
    return strings


EMPTY: tuple[object, ...] = (None, "", 0, {}, ())
NULL = (None,)
NOTHING = ()
"""The values that are not written of a field: all that are empty, only null, none."""


def mismatch(value: object, where: str, expected: str) -> DecodeError:
    """Return the error for a value of another kind than the field's."""
    return DecodeError(f"{where}: found {gojson.describe(value)}, expected {expected}")


def joined(where: str, key: str) -> str:
    """Return the path of a key."""
    return f"{where}.{key}" if where else key


def below(parent: dict[str, Any], key: str, where: str = "") -> dict[str, Any]:
    """Return the object at *key*, which is made if it is missing or null.

    :param where: the path of *parent*, for errors.
    :raises DecodeError: it is not an object.
    """
    value = parent.get(key)
    if value is None:
        value = parent[key] = {}
    if not isinstance(value, dict):
        raise mismatch(value, joined(where, key), "an object")
    return value


def elements(parent: dict[str, Any], key: str, where: str = "") -> list[Any]:
    """Return the array at *key*, empty if it is missing or null.

    :raises DecodeError: it is not an array.
    """
    value = parent.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise mismatch(value, joined(where, key), "an array")
    return value


class Field:
    """A field of a type: a JSON key and an attribute.

    :param kind: checks a decoded value, whose path is the second argument, and returns the attribute's value.
    :param omits: ``EMPTY``, ``NULL`` or ``NOTHING``: the values without which the JSON is written.
    """

    __slots__ = ("attribute", "key", "kind", "omits")

    def __init__(
        self, key: str, attribute: str, kind: Kind, omits: tuple[object, ...] = EMPTY
    ) -> None:
        self.key = key
        self.attribute = attribute
        self.kind = kind
        self.omits = omits


class JSONObject:
    """The base class of the wire's types: frozen, compared by value, read from and written to JSON.

    A type with an attribute ``extra`` has the keys there that no field has; others ignore them, as Go does.
    """

    __slots__: tuple[str, ...] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = ()
    _BY_KEY: ClassVar[dict[str, Field]] = {}
    __hash__ = None  # type: ignore[assignment] # equal by value, and a value may hold dictionaries

    def __init_subclass__(cls) -> None:
        cls._BY_KEY = {fold(field.key): field for field in cls.FIELDS}

    @classmethod
    def from_json(cls, document: bytes | str) -> Self:
        """Return the object of a JSON document.

        :raises DecodeError: when it is not JSON, or a value is not of its field's kind.
        """
        return cls.from_value(gojson.loads(document, keeps_lone=True), cls.__name__.lower())

    @classmethod
    def from_value(cls, value: object, where: str) -> Self:
        """Return the object of a decoded JSON object.

        :param where: the path of ``value``, for errors.
        :raises DecodeError: when a value is not of its field's kind.
        """
        values: dict[str, Any] = {}
        unknown: dict[str, Any] = {}
        for key, item in members(value, where).items():
            target = cls._BY_KEY.get(fold(key))
            if target is not None:
                values[target.attribute] = target.kind(item, f"{where}.{target.key}")
            else:
                unknown[key] = item
        message = cls.__new__(cls)
        put = object.__setattr__
        for field in cls.FIELDS:
            name = field.attribute
            if name in values:
                put(message, name, values[name])
            else:
                put(message, name, field.kind(None, ""))
        if "extra" in cls.__slots__:
            put(message, "extra", unknown)
        return message

    def to_json(self) -> bytes:
        """Return compact JSON, without the values that fields omit.

        :raises EncodeError: when a value is not of its field's kind.
        """
        return gojson.dumps(self.to_value())

    def to_value(self) -> dict[str, Any]:
        """Return the JSON object as a dictionary.

        :raises EncodeError: when a value is not of its field's kind.
        """
        value: dict[str, Any] = {}
        where = type(self).__name__.lower()
        for field in self.FIELDS:
            try:
                item = field.kind(getattr(self, field.attribute), f"{where}.{field.key}")
            except DecodeError as error:
                raise EncodeError(str(error)) from None
            if item in field.omits:
                continue
            if isinstance(item, tuple):
                item = list(map(_plain, item))
            value[field.key] = _plain(item)
        return value

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some attributes changed."""
        message = type(self).__new__(type(self))
        for name in self.__slots__:
            object.__setattr__(message, name, changes.pop(name, getattr(self, name)))
        if changes:
            raise TypeError(f"{type(self).__name__} has no attribute {next(iter(changes))!r}")
        return message

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object = None) -> None:
        raise AttributeError(
            f"{type(self).__name__}.{name} cannot be set: use "
            f"{type(self).__name__}.replace({name}=…)"
        )

    __delattr__ = __setattr__

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({inner})"


def _plain(item: Any) -> Any:
    return item.to_value() if isinstance(item, JSONObject) else item


def optional(kind: type[Listed], value: object, where: str) -> Listed | None:
    """Return an object of one type; None for null. For a kind."""
    if value is None or isinstance(value, kind):
        return value
    return kind.from_value(value, where)


def objects(kind: type[Listed], label: str, value: object, where: str) -> tuple[Listed, ...]:
    """Return an array of one type of objects, without its nulls; empty for null. For a kind."""
    listed = []
    for index, item in enumerate(items(value, where, f"an array of {label}")):
        message = optional(kind, item, f"{where}[{index}]")
        if message is not None:
            listed.append(message)
    return tuple(listed)
