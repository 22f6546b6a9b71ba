"""The codec of a worker's socket, fed whole, byte by byte, and with results that are glued together."""

from typing import NamedTuple

import pytest

from nri.prefork.protocol import LENGTH, MAX_PIECE, ResultDecoder, encode_request
from tests.support.cutting import every_way


class Decoded(NamedTuple):
    stdout: bytes
    status: int | None
    is_over: bool
    is_text: bool


HELLO = bytes.fromhex("00000005") + b"hello"
END = bytes.fromhex("00000000 00")

RESULTS = [
    pytest.param(b"", Decoded(b"", None, False, False), id="nothing yet"),
    pytest.param(END, Decoded(b"", 0, True, True), id="no output"),
    pytest.param(HELLO, Decoded(b"hello", None, False, False), id="a piece, and no end"),
    pytest.param(HELLO + END, Decoded(b"hello", 0, True, True), id="a piece and the end"),
    pytest.param(HELLO + HELLO + END, Decoded(b"hellohello", 0, True, True), id="two pieces glued together"),
    pytest.param(HELLO + bytes.fromhex("00000000 ff"), Decoded(b"hello", 255, True, True), id="an exit status"),
    pytest.param(
        bytes.fromhex("00000005 00000000 00") + END,
        Decoded(bytes(5), 0, True, True),
        id="a piece that looks like an end",
    ),
    pytest.param(HELLO + END + b"more", Decoded(b"hellomore", 0, True, True), id="text after the end"),
    pytest.param(END + HELLO + END, Decoded(HELLO + END, 0, True, True), id="two results glued together"),
    pytest.param(b'{"version": 1}', Decoded(b'{"version": 1}', None, True, True), id="text instead of a piece"),
    pytest.param(HELLO + b"print", Decoded(b"helloprint", None, True, True), id="text after a piece"),
    pytest.param(HELLO[:-2], Decoded(b"hel", None, False, False), id="half a piece"),
    pytest.param(HELLO + END[:-1], Decoded(b"hello", None, False, False), id="an end without a status"),
    pytest.param(
        (MAX_PIECE + 1).to_bytes(LENGTH, "big") + b"a",
        Decoded((MAX_PIECE + 1).to_bytes(LENGTH, "big") + b"a", None, True, True),
        id="a length above the limit",
    ),
    pytest.param(MAX_PIECE.to_bytes(LENGTH, "big") + b"a", Decoded(b"a", None, False, False), id="the longest piece"),
]


@pytest.mark.parametrize(("data", "expected"), RESULTS)
def test_a_result_is_decoded_however_it_is_cut(data: bytes, expected: Decoded) -> None:
    for parts in every_way(data):
        decoder = ResultDecoder()
        for part in parts:
            decoder.feed(part)
        decoded = Decoded(bytes(decoder.stdout), decoder.status, decoder.is_over, decoder.is_text)
        assert decoded == expected, parts


@pytest.mark.parametrize(
    ("request_data", "encoded"),
    [
        pytest.param(b"", "00000000", id="an empty request"),
        pytest.param(b"{}", "00000002 7b7d", id="a short request"),
        pytest.param(bytes(0x10203), "00010203" + "00" * 0x10203, id="network order"),
    ],
)
def test_a_request_is_encoded_with_its_length(request_data: bytes, encoded: str) -> None:
    assert encode_request(request_data) == bytes.fromhex(encoded)
