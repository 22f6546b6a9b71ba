"""JSON as Go reads and writes it."""

import importlib.util
import subprocess
import sys
from json import scanner as json_scanner
from typing import Any

import pytest

from nri.types import DecodeError, EncodeError, gojson


@pytest.fixture(params=["C", "Python"])
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module on an interpreter that has ``_json``, and on one that has not."""
    if request.param == "C":
        return gojson
    monkeypatch.setitem(sys.modules, "_json", None)
    monkeypatch.setattr("json.scanner.make_scanner", vars(json_scanner)["py_make_scanner"])
    monkeypatch.setattr("json.encoder.c_make_encoder", None)
    spec = importlib.util.spec_from_file_location("gojson_without_c", gojson.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GOOD: list[tuple[Any, Any]] = [
    ("null", None),
    (" \t\r\n true \n", True),
    ("-0", 0),
    ("9223372036854775808", 2**63),
    ("1e3", 1000.0),
    ('"\\u00e9\\ud83d\\ude00"', "é😀"),
    ('"\\/"', "/"),
    ('{"a":{"b":[1,"x",null]}}', {"a": {"b": [1, "x", None]}}),
    ('{"a":1,"a":2}', {"a": 2}),
    ('"\u2028"', "\u2028"),
    ('"\\ud800"', "\ufffd"),
    ('"\\udc00\\ud800x"', "\ufffd\ufffdx"),
    ('{"\\ud800":["\\udfff"]}', {"\ufffd": ["\ufffd"]}),
    ('"\ud800"', "\ufffd"),
    ('"\ud83d\ude00"', "😀"),
    (b'"\xff"', "\ufffd"),
    (b'"\xed\xa0\x80"', "\ufffd\ufffd\ufffd"),
    (memoryview(b"[1]"), [1]),
    ('"' + "é" * 5_000_000 + '"', "é" * 5_000_000),
    ("[" * 256 + "]" * 256, None),
    ('"' + "[{" * 1000 + '"', "[{" * 1000),
]


@pytest.mark.parametrize(("document", "value"), GOOD, ids=range(len(GOOD)))
def test_reads_what_go_reads(codec: Any, document: Any, value: Any) -> None:
    read = codec.loads(document)
    if value is not None or document == "null":
        assert read == value
        assert type(read) is type(value)


BAD = [
    ("", 0, 0, "is empty"),
    (" \n", 0, 0, "is empty"),
    ("nul", 1, 1, "expected a value"),
    ("[1,\n 2,\n  x]", 3, 3, "expect(ed a|ing) value"),
    ('"abc', 1, 1, "unterminated string"),
    ('"a\tb"', 1, 3, "control character"),
    ('"\\x"', 1, 2, "escape"),
    ('["é", "\\u12"]', 1, 9, "escape"),
    ("01", 1, 2, "expected its end"),
    ("{}\n{}", 2, 1, "expected its end"),
    ("[", 1, 2, "the end of the document"),
    ("\ufeff{}", 1, 1, "expected a value"),
    (b"\xef\xbb\xbf{}", 1, 1, "expected a value"),
    ("NaN", 0, 0, "NaN"),
    ("[Infinity]", 0, 0, "Infinity"),
    ("1e400", 0, 0, "out of range"),
    ("1" * 5000, 0, 0, "too many digits"),
    ("[" * 257 + "]" * 257, 0, 0, "nested too deep"),
    ('{"a":' * 257 + "1" + "}" * 257, 0, 0, "nested too deep"),
    ("[" * 1_000_000, 0, 0, "nested too deep"),
    ('{"a":' * 1_000_000, 0, 0, "nested too deep"),
]


@pytest.mark.parametrize(
    ("document", "line", "column", "message"), BAD, ids=lambda case: repr(case)[:30]
)
def test_refuses_what_go_refuses_and_says_where(
    codec: Any, document: Any, line: int, column: int, message: str
) -> None:
    with pytest.raises(DecodeError, match=message) as raised:
        codec.loads(document)
    error = raised.value
    assert (error.line, error.column) == (line, column)
    assert str(error) == (f"line {line} column {column}: {error.reason}" if line else error.reason)
    assert len(str(error)) < 300


def test_lone_surrogate_deep_in_a_document_and_a_stack() -> None:
    document = "[" * 250 + '"\\ud800"' + "]" * 250

    def read(depth: int) -> Any:
        return read(depth - 1) if depth else gojson.loads(document)

    value = read(0)
    for _ in range(250):
        (value,) = value
    assert value == "\ufffd"
    with pytest.raises(DecodeError, match="nested too deep"):
        read(sys.getrecursionlimit() - 250)


CIRCLE: list[object] = []
CIRCLE.append(CIRCLE)


def test_a_value_without_json_is_an_encode_error(codec: Any) -> None:
    for value in (float("nan"), float("inf"), object(), {1j: 1}, {(): 1}, b"x", {1}, CIRCLE):
        with pytest.raises(EncodeError):
            codec.dumps(value)
    nested: list[object] = []
    for _ in range(200_000):
        nested = [nested]
    with pytest.raises(EncodeError, match="nested too deep"):
        gojson.dumps(nested)


def test_keys_that_are_given_twice_are_listed() -> None:
    twice: list[str] = []
    assert gojson.loads('{"a":{"b":1,"b":2,"b":2},"a":3,"c":[]}', twice) == {"a": 3, "c": []}
    assert twice == ["b", "b", "a"]
    with pytest.raises(DecodeError, match="line 1 column 6"):
        gojson.loads('{"a" 1}', twice)
    for document in ("[1,]", '{"a":1,}'):  # the column differs between Python's versions
        with pytest.raises(DecodeError, match="line 1"):
            gojson.loads(document)


def test_syntax_error_is_reported_without_the_module_json() -> None:
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from nri.types import gojson\n"
        "try: gojson.loads(sys.argv[1])\n"
        "except gojson.DecodeError as error: print(error)\n"
    )
    for document in ('{"a" 1}', '"\\x"'):
        command = [sys.executable, "-I", "-S", "-c", code, document]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        assert ran.stdout.startswith("line 1 column ")


def test_a_value_is_described_in_the_words_of_json() -> None:
    for value, description in (
        *(
            (None, "null"),
            (True, "the boolean true"),
            ("a\n", "the string 'a\\n'"),
            (b"", "a bytes"),
        ),
        *(
            (1, "the number 1"),
            (1.5, "the number 1.5"),
            (10**5000, "the number of thousands of digits"),
        ),
        *(([], "an array"), ((), "an array"), ({}, "an object")),
    ):
        assert gojson.describe(value) == description
    assert gojson.shorten("x" * 60) == "x" * 60
    assert gojson.shorten("a" * 50 + "b" * 50) == "a" * 40 + "…" + "b" * 16 + " (100 characters)"
