"""Requests and results of the v0.1 wire: a document can be read if and only if its JSON Schema
accepts it, except for ``1.0`` as a pid, which no schema can refuse. A refusal is a short DecodeError. A message can
be written, is equal when read again, and is then written as the same bytes, which the schema accepts.
"""

from __future__ import annotations

from harness import json_schemas

from fuzz.targets import split
from nri.types import DecodeError, gojson
from nri.types.v1 import Request, Result

JSON = True
KINDS = (("request", Request), ("result", Result))
CHOICES = len(KINDS)
_VALIDATORS = {name: json_schemas.validator(name) for name, _ in KINDS}


def check(data: bytes) -> None:
    """Read the document after the first byte, which chooses the kind of message."""
    choice, document = split(data, CHOICES)
    name, kind = KINDS[choice]
    try:
        value = gojson.loads(document)
    except DecodeError:
        return  # JSON has its own target
    accepted = _VALIDATORS[name].is_valid(value) and not (
        kind is Request and whole_number_with_a_point(value)
    )
    try:
        message = kind.from_json(document)
    except DecodeError as error:
        assert not accepted, f"the schema accepts it, the type does not: {error}"
        assert len(str(error)) < 600, "an error carries the document"
        return
    assert accepted, "the type accepts it, the schema does not"
    written = message.to_json()
    again = kind.from_json(written)
    assert again == message
    assert again.to_json() == written
    assert _VALIDATORS[name].is_valid(gojson.loads(written))


def whole_number_with_a_point(document: object) -> bool:
    """Return whether ``pid`` is like 1.0: an integer for a schema, but not for Go."""
    return isinstance(document, dict) and any(
        key.lower() == "pid" and isinstance(value, float) and value.is_integer()
        for key, value in document.items()
    )


_RESULT = b'{"plugin":"a","version":"0.1","error":"","metadata":{"a":"b"},"cgroupsPath":"/a","more":{"x":[1]},'
_RESULT += b'"adjust":{"env":{"A":"1"}},"updates":[{"id":"b","resources":{}}]}'
SEEDS = (
    b'\0{"conf":{"a":[1]},"version":"0.1","state":"create","id":"a","sandboxID":"b","pid":1,"spec":{"resources":{},'
    b'"namespaces":{"pid":"/p"},"cgroupsPath":"/a","annotations":{"a":"b"}},"labels":{"a":"b"},"results":['
    + _RESULT
    + b'],"late":true,"release":true,"prevResult":'
    + _RESULT
    + b"}",
    b"\0null",
    b'\0{"PID":-9223372036854775808,"Spec":{"CGROUPSPATH":"x"},"re\xc5\xbfult\xc5\xbf":[null]}',
    b'\0{"pid":1.0,"pId":9223372036854775808,"labels":{"a":null}}',
    b'\0{"pid":1.0}',
    b'\0{"pid":9223372036854775807}',
    b'\0{"pid":9223372036854775808}',
    b'\0{"pid":-9223372036854775809}',
    b'\0{"pid\\n":"1","p\xc4\xb1d":"1"}',
    b"\1" + _RESULT,
    b'\1{"ERROR":1}',
    b'\1{"a":1,"A":2,"a":3}',
)
