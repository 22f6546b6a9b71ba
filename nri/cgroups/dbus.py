"""The few D-Bus messages that systemd is asked with: written and read, without any I/O.

Only what these need: calls whose arguments are strings and one list of properties, replies with one value. Importing
a library for it would take longer than a whole plugin does.

Source: the D-Bus specification, "Marshaling (Wire Format)" and "Message Protocol".
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Order = Literal["little", "big"]
    Value = str | int | bytes

CALL = 1
REPLY = 2
ERROR = 3
"""Types of messages that count here; 4 is a signal."""

MAX_MESSAGE = 65536
"""Bytes of a message; the longest one expected is a set of CPUs."""

FIXED = 16
"""Bytes of the fixed part of a header, which has the sizes of the rest."""

_PATH = 1
_INTERFACE = 2
_MEMBER = 3
_ERROR_NAME = 4
_REPLY_SERIAL = 5
_DESTINATION = 6
_SIGNATURE = 8
# Of the header fields that are read.
_TYPES = {_ERROR_NAME: "s", _REPLY_SERIAL: "u", _SIGNATURE: "g"}
_ORDERS: dict[bytes, Order] = {b"l": "little", b"B": "big"}
# The size of a number, and of a text's length, by the type.
_NUMBERS = {"y": 1, "u": 4, "b": 4, "t": 8}
_TEXTS = {"g": 1, "s": 4, "o": 4}
_BYTES = "ay"
_KINDS = (*_NUMBERS, *_TEXTS, _BYTES)


class FormatError(ValueError):
    """A message that does not follow the specification, or that is not one of those expected here."""


class Message:
    """A message: its type, the serial of the call that it answers, an error's name, and its first value."""

    __slots__ = ("error", "reply_to", "type", "value")

    def __init__(self, type: int, reply_to: Value, error: str, value: Value | None) -> None:
        self.type = type
        self.reply_to = reply_to
        self.error = error
        self.value = value


def call(
    serial: int, path: str, interface: str, member: str, *arguments: str, destination: str
) -> bytes:
    """Return a call whose arguments are strings."""
    body = _Writer()
    for argument in arguments:
        body.string(argument)
    return _call(
        serial, path, interface, member, "s" * len(arguments), bytes(body.data), destination
    )


def set_properties(
    serial: int, path: str, name: str, value: int | bytes, *, destination: str
) -> bytes:
    """Return the call that sets one property of a unit until it ends; an int is sent as ``t``, bytes as ``ay``."""
    body = _Writer()
    body.number(1, 4)  # runtime: until it ends
    properties = _Writer()
    properties.string(name)
    if isinstance(value, int):
        properties.signature("t")
        properties.number(value, 8)
    else:
        properties.signature("ay")
        properties.number(len(value), 4)
        properties.data += value
    body.number(len(properties.data), 4)  # at 8 bytes, so that the array's structure begins aligned
    interface = "org.freedesktop.systemd1.Unit"
    whole = bytes(body.data + properties.data)
    return _call(serial, path, interface, "SetProperties", "ba(sv)", whole, destination)


def size(head: bytes) -> int:
    """Return the size in bytes of the message that begins with *head*, at least ``FIXED`` bytes.

    :raises FormatError: it is no message, or longer than ``MAX_MESSAGE``.
    """
    order = _order(head)
    fields = int.from_bytes(head[12:16], order)
    whole = FIXED + fields + -fields % 8 + int.from_bytes(head[4:8], order)
    if whole > MAX_MESSAGE:
        raise FormatError(f"a message of {whole} bytes, expected at most {MAX_MESSAGE}")
    return whole


def read(message: bytes) -> Message:
    """Return what a whole message says; ``value`` is None if it has none that is expected here.

    :raises FormatError: it does not follow the specification.
    """
    order = _order(message)
    end = FIXED + int.from_bytes(message[12:16], order)
    header = _Reader(message[:end], order, FIXED)
    fields: dict[int, Value] = {}
    while header.place < end:
        header.align(8)
        field = header.number(1)
        kind = header.signature()
        if kind != _TYPES.get(field, kind):
            raise FormatError(
                f"header field {field} has the type {kind[:20]!r}, expected {_TYPES[field]!r}"
            )
        fields[field] = header.value(kind)
    body = _Reader(message[end + -end % 8 :], order, 0)
    first = str(fields.get(_SIGNATURE, ""))[:1]
    if first == "v":
        first = body.signature()
    content = body.value(first) if first in _KINDS else None
    error = str(fields.get(_ERROR_NAME, ""))
    return Message(message[1], fields.get(_REPLY_SERIAL, 0), error, content)


def _call(
    serial: int,
    path: str,
    interface: str,
    member: str,
    signature: str,
    body: bytes,
    destination: str,
) -> bytes:
    fields = _Writer()
    for number, kind, value in (
        (_PATH, "o", path),
        (_INTERFACE, "s", interface),
        (_MEMBER, "s", member),
        (_DESTINATION, "s", destination),
    ):
        fields.align(8)
        fields.data.append(number)
        fields.signature(kind)
        fields.string(value)
    if signature:
        fields.align(8)
        fields.data.append(_SIGNATURE)
        fields.signature("g")
        fields.signature(signature)
    head = _Writer()
    head.data += bytes((ord("l"), CALL, 0, 1))
    head.number(len(body), 4)
    head.number(serial, 4)
    head.number(len(fields.data), 4)
    head.data += fields.data
    head.align(8)
    return bytes(head.data) + body


class _Writer:
    """Bytes in little-endian order; each value is aligned to its size from the first byte."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    def align(self, boundary: int) -> None:
        self.data += bytes(-len(self.data) % boundary)

    def number(self, value: int, width: int) -> None:
        self.align(width)
        self.data += value.to_bytes(width, "little")

    def string(self, text: str) -> None:
        data = text.encode()
        self.number(len(data), 4)
        self.data += data + b"\0"

    def signature(self, text: str) -> None:
        self.data.append(len(text))
        self.data += text.encode() + b"\0"


class _Reader:
    """Values from bytes that a peer has sent."""

    __slots__ = ("_data", "_order", "place")

    def __init__(self, data: bytes, order: Order, place: int) -> None:
        self._data = data
        self._order = order
        self.place = place

    def align(self, boundary: int) -> None:
        self.place += -self.place % boundary

    def number(self, width: int) -> int:
        self.align(width)
        return int.from_bytes(self._take(width), self._order)

    def signature(self) -> str:
        return self._text(self.number(1))

    def value(self, kind: str) -> str | int | bytes:
        if kind in _TEXTS:
            return self._text(self.number(_TEXTS[kind]))
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _BYTES:
            return self._take(self.number(4))
        raise FormatError(f"a value of type {kind[:20]!r}, expected one of {', '.join(_KINDS)}")

    def _text(self, length: int) -> str:
        data = self._take(length + 1)
        try:
            return data[:-1].decode()
        except UnicodeDecodeError as error:
            raise FormatError("a text that is not UTF-8") from error

    def _take(self, length: int) -> bytes:
        data = self._data[self.place : self.place + length]
        if len(data) != length:
            raise FormatError("a message that ends in the middle of a value")
        self.place += length
        return data


def _order(head: bytes) -> Order:
    if len(head) < FIXED or head[:1] not in _ORDERS or head[3] != 1:
        raise FormatError("no D-Bus message")
    return _ORDERS[head[:1]]
