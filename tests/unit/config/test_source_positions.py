"""Positions in a JSON text."""

import json
from typing import Any

import pytest
from hypothesis import given, settings

from fuzz.documents import places
from nri.config.source_positions import SourcePositions, refused
from nri.types import DecodeError, gojson
from tests.unit.types.mutations import values

TEXT = """{
  "a": [1, {"b": "x\\"]}", "é": null},
    []],
 "c" : -1.5e3 , "d":{ } }"""


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        (("a",), (2, 8), (2, 3)),
        (("a", 1, "b"), (2, 18), (2, 13)),
        (("a", 1, "é"), (2, 32), (2, 27)),
        (("a", 2), (3, 5), (3, 5)),
        (("d", "gone"), (4, 21), (4, 17)),
        (("gone", 5), (1, 1), (1, 1)),
    ],
)
def test_a_value_and_its_key_have_places(
    path: tuple[str | int, ...], value: tuple[int, int], key: tuple[int, int]
) -> None:
    places = SourcePositions(TEXT)
    assert places.value(path) == value
    assert places.key(path) == key


def at(text: str, path: tuple[str | int, ...]) -> str:
    line, column = SourcePositions(text).value(path)
    return "\n".join(text.split("\n")[line - 1 :])[column - 1 :]


@settings(max_examples=150, deadline=None)
@given(values)
def test_at_the_place_of_a_value_stands_the_value(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=1, ensure_ascii=False)):
        for path in places(value):
            inner = value
            for part in path:
                inner = inner[part]
            read, _ = json.JSONDecoder().raw_decode(at(text, path))
            assert repr(read) == repr(inner)


def test_keys_that_are_given_twice_are_found_wherever_they_are() -> None:
    text = '{"a":1,\n"b":[{"c":1,"d":{},"c":2}],"\\u0061":{"a":1},\n"a":3}'
    assert [tuple(duplicate) for duplicate in SourcePositions(text).duplicates] == [
        (("b", 0, "c"), (2, 20), (2, 7)),
        (("a",), (2, 28), (1, 2)),
        (("a",), (3, 1), (2, 28)),
    ]
    assert SourcePositions(text).value(("a",)) == (3, 5)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"NaN":"NaN",\n "1e999":1, "a":NaN}', (2, 17)),
        ("[1e999, NaN]", (1, 2)),
        ("[" + "9" * 5000 + "]", (1, 2)),
        ("\n" + "[" * 257 + "]" * 257, (2, 257)),
        ("[" * 100_000, (1, 257)),
    ],
    ids=lambda case: repr(case)[:30],
)
def test_each_error_of_gojson_has_a_place(text: str, place: tuple[int, int]) -> None:
    with pytest.raises(DecodeError) as raised:
        gojson.loads(text)
    assert raised.value.line == 0
    assert refused(text) == place


@pytest.mark.parametrize(
    ("text", "path", "place"),
    [
        ("[" + "1," * 100_000 + "1]", (100_000,), (1, 200_002)),
        ("[" + ("[" * 250 + "]" * 250 + ",") * 400 + "7]", (400,), (1, 400 * 501 + 2)),
        ('["' + "\\\\" * 100_000 + '", 7]', (1,), (1, 200_006)),
    ],
    ids=["long", "deep", "escapes"],
)
def test_a_big_file_has_places(text: str, path: tuple[int, ...], place: tuple[int, int]) -> None:
    assert SourcePositions(text).value(path) == place
