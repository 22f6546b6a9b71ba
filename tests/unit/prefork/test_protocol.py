"""The codecs of the control socket and of a worker's socket, fed whole, byte by byte, and with glued messages."""

from typing import NamedTuple

import pytest

from nri.prefork import protocol
from nri.prefork.protocol import (
    LENGTH,
    MAX_PIECE,
    RequestDecoder,
    ResultDecoder,
    decode_message,
    encode_end,
    encode_message,
    encode_piece,
    encode_request,
)
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


@pytest.mark.parametrize("text", [b"", b"{}", bytes(300)])
def test_a_request_is_decoded_however_it_is_cut(text: bytes) -> None:
    for asked in (b"", protocol.PREPARE, protocol.PREPARE * 2):  # a worker of a shared server skips these
        if asked and not text:
            continue
        for parts in every_way(asked + encode_request(text)):
            decoder = RequestDecoder(skips=bool(asked))
            decoded = b"".join([decoder.feed(part) for part in parts])
            assert (decoded, decoder.left, decoder.is_asked) == (text, 0, False), parts


def test_a_request_is_encoded_with_its_length_in_network_order() -> None:
    assert encode_request(b"{}") == bytes.fromhex("00000002 7b7d")
    assert encode_request(bytes(0x10203)) == bytes.fromhex("00010203" + "00" * 0x10203)


def test_a_worker_is_asked_to_prepare_until_a_request_follows() -> None:
    decoder = RequestDecoder(skips=True)
    assert (decoder.feed(bytes(3)), decoder.is_asked) == (b"", False)
    assert (decoder.feed(bytes(1)), decoder.is_asked, decoder.left) == (b"", True, None)
    assert (decoder.feed(encode_request(b"{")), decoder.is_asked, decoder.left) == (b"{", False, 0)


def test_the_bytes_of_a_request_that_are_still_to_come_are_known() -> None:
    decoder = RequestDecoder()
    assert (decoder.feed(bytes(3)), decoder.left) == (b"", None)
    assert (decoder.feed(b"\x05he"), decoder.left) == (b"he", 3)
    assert (decoder.feed(b"llo"), decoder.left) == (b"llo", 0)


def test_a_worker_and_its_host_agree_on_a_result() -> None:
    assert encode_piece(b"") == b""
    decoder = ResultDecoder()
    decoder.feed(encode_piece(b"one") + encode_piece(b"two") + encode_end(3))
    assert (bytes(decoder.stdout), decoder.status) == (b"onetwo", 3)
    assert encode_end(256 + 7) == encode_end(7) == bytes.fromhex("00000000 07")


MESSAGES = [
    (b"", b"", None),  # the end of the socket
    (b"more", protocol.MORE, None),
    (b"done 17", protocol.DONE, 17),
    (b"next 17", protocol.NEXT, 17),
    (b"ready 4194304", protocol.READY, 4194304),
    (b"refused it has a timer", protocol.REFUSED, b"it has a timer"),
    (b"files /a b\0/c\xff\0", protocol.FILES, b"/a b\0/c\xff\0"),
    (b"files ", protocol.FILES, b""),
    (b"serve module\0/bin/a\0/lib/a\0", protocol.SERVE, b"module\0/bin/a\0/lib/a\0"),
]


@pytest.mark.parametrize(("data", "word", "argument"), MESSAGES)
def test_a_message_is_a_word_and_its_argument(data: bytes, word: bytes, argument: bytes | int | None) -> None:
    assert encode_message(word, argument) == data
    found, rest = decode_message(data)
    assert found == word
    if isinstance(argument, int):
        assert protocol.decode_pid(rest) == argument
    else:
        assert rest == (argument or b"")


def test_what_is_no_process_id_is_0() -> None:
    assert [protocol.decode_pid(argument) for argument in (b"", b"-1", b"x", b"1 2", b"\xd9\xa1")] == [0] * 5


def test_the_names_of_files_arrive_as_they_are() -> None:
    for paths in ([], ["/a"], ["/a b", "/not UTF-8: \udcff", "/é"]):
        assert protocol.decode_files(protocol.encode_files(paths)) == paths
