"""Messages of the v0.1 wire as tables: which JSON key is which attribute, of which kind.

A message lists its fields once; reading, writing, comparing and printing follow from that. The rules are those of
Go's ``encoding/json``: ``null`` leaves a field at its zero value, keys match in any case, the last one of several
wins, keys that nobody knows are ignored, a value of another kind is an error.

Plain classes instead of dataclasses: those cost a plugin more start-up time than all of its own work.
"""

from __future__ import annotations

from nri.types import gojson
from nri.types.errors import DecodeError, EncodeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar, Self, TypeVar

    Kind = Callable[[object, str], Any]
    Listed = TypeVar("Listed", bound="JSONObject")


def fold(key: str) -> str:
    """A key as Go compares it: without case, where U+017F folds to ``s`` and U+212A to ``k``."""
    return key.lower().replace("\u017f", "s")


def string(value: object, where: str) -> str:
    """A kind: a string, "" for null."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise mismatch(value, where, "a string")


def integer(value: object, where: str) -> int:
    """A kind: an integer of 64 bits, written without fraction or exponent; 0 for null."""
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool):
        raise mismatch(value, where, "an integer")
    if not -(2**63) <= value < 2**63:
        raise mismatch(value, where, "an integer of 64 bits")
    return value


def number(value: object, where: str) -> float:
    """A kind: a number; 0 for null."""
    if value is None:
        return 0.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise mismatch(value, where, "a number")


def opaque(value: object, where: str) -> object:
    """A kind: any JSON value, passed through as it is."""
    return value


def strings(value: object, where: str) -> tuple[str, ...]:
    """A kind: an array of strings; empty for null."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise mismatch(value, where, "an array of strings")
    return tuple([string(item, f"{where}[{index}]") for index, item in enumerate(value)])


def string_map(value: object, where: str) -> dict[str, str]:
    """A kind: an object whose values are strings; empty for null."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise mismatch(value, where, "an object of strings")
    for key, item in value.items():
        if not isinstance(item, str):
            break
        if not isinstance(key, str):
            raise mismatch(key, f"{where}: key", "a string")
    else:
        return value
    return {key: string(item, f"{where}.{gojson.shorten(repr(key)[1:-1])}") for key, item in value.items()}


def mismatch(value: object, where: str, expected: str) -> DecodeError:
    """The error for a value of another kind than the field's."""
    return DecodeError(f"{where}: found {gojson.describe(value)}, expected {expected}")


class Field:
    """One field: its JSON key, its attribute, its kind, and whether an empty value is left out."""

    __slots__ = ("attribute", "key", "kind", "omit_empty")

    def __init__(self, key: str, attribute: str, kind: Kind, *, omit_empty: bool = True) -> None:
        self.key = key
        self.attribute = attribute
        self.kind = kind
        self.omit_empty = omit_empty


class JSONObject:
    """The base of the wire's types: frozen, compared by value, read from and written to JSON by its fields."""

    __slots__: tuple[str, ...] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = ()
    _BY_KEY: ClassVar[dict[str, Field]] = {}
    __hash__ = None  # type: ignore[assignment] # equal by value, and a value may hold dictionaries

    def __init_subclass__(cls) -> None:
        cls._BY_KEY = {fold(field.key): field for field in cls.FIELDS}
        cls._BY_KEY |= {field.key: field for field in cls.FIELDS}

    @classmethod
    def from_json(cls, document: bytes | str) -> Self:
        """Read one message.

        :raises DecodeError: when it is not JSON, or a value is not of the kind that its field has.
        """
        return cls.from_value(gojson.loads(document), cls.__name__.lower())

    @classmethod
    def from_value(cls, value: object, where: str) -> Self:
        """The message of a decoded JSON object; ``where`` names it in errors.

        :raises DecodeError: when a value is not of the kind that its field has.
        """
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise mismatch(value, where, "an object")
        by_key = cls._BY_KEY
        found: dict[str, Any] = {}
        unknown: list[tuple[str, Any]] = []
        for key, item in value.items():
            known = by_key.get(key) or by_key.get(fold(key))
            if known is not None:
                found[known.attribute] = known.kind(item, f"{where}.{known.key}")
            else:
                unknown.append((key, item))
        message = cls.__new__(cls)
        put = object.__setattr__
        for field in cls.FIELDS:
            name = field.attribute
            put(message, name, found[name] if name in found else field.kind(None, ""))
        for key, item in unknown:
            message._keep_unknown(key, item)
        return message

    def to_json(self) -> bytes:
        """The message as compact JSON; what is empty is left out where the wire says so.

        :raises EncodeError: when a field holds what it may not.
        """
        return gojson.dumps(self.to_value())

    def to_value(self) -> dict[str, Any]:
        """The message as ``json.dumps`` would take it.

        :raises EncodeError: when a field holds what it may not.
        """
        value: dict[str, Any] = {}
        where = type(self).__name__.lower()
        for field in self.FIELDS:
            try:
                item = field.kind(getattr(self, field.attribute), f"{where}.{field.key}")
            except DecodeError as error:
                raise EncodeError(str(error)) from None
            if field.omit_empty and (item is None or (field.kind is not opaque and item in ("", 0, {}, ()))):
                continue
            if isinstance(item, JSONObject):
                item = item.to_value()
            elif isinstance(item, tuple):
                item = [inner.to_value() if isinstance(inner, JSONObject) else inner for inner in item]
            value[field.key] = item
        return value

    def replace(self, **changes: Any) -> Self:
        """A copy with some attributes changed."""
        message = type(self).__new__(type(self))
        for name in self.__slots__:
            object.__setattr__(message, name, changes.pop(name) if name in changes else getattr(self, name))
        if changes:
            raise TypeError(f"{type(self).__name__} has no attribute {next(iter(changes))!r}")
        return message

    def _keep_unknown(self, key: str, value: object) -> None:
        """Called for a key that no field has; ignored as Go does."""

    def __setattr__(self, name: str, value: object = None) -> None:
        raise AttributeError(
            f"{type(self).__name__}.{name} cannot be set: use {type(self).__name__}.replace({name}=…)"
        )

    __delattr__ = __setattr__

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({inner})"


def objects(kind: type[Listed], what: str, value: object, where: str) -> tuple[Listed, ...]:
    """A kind, for one kind of object: an array of them, without its nulls; empty for null."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise mismatch(value, where, f"an array of {what}")
    return tuple(
        [
            item if isinstance(item, kind) else kind.from_value(item, f"{where}[{index}]")
            for index, item in enumerate(value)
            if item is not None
        ]
    )
