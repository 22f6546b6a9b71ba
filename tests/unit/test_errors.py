"""Texts of errors: fit for one line, and for a peer that counts bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.errors import bounded, escape


@given(st.text(), st.integers(128, 400))
def test_bounded_text_is_utf8_within_its_limit(text: str, limit: int) -> None:
    short = bounded(text, limit)
    assert len(short.encode()) <= limit
    assert (
        len(text.encode("utf-8", "replace")) > limit
        or short == text.encode("utf-8", "replace").decode()
    )


@pytest.mark.parametrize("sign", ["a", "é", "€", "𝄞"])
def test_long_text_keeps_its_ends_and_its_length_in_bytes(sign: str) -> None:
    short = bounded(sign * 100_000 + "the very last w.", 4096)
    assert short.startswith(sign * 900)
    assert short.endswith(f"…the very last w. ({len(sign.encode()) * 100_000 + 16} bytes)")
    assert 4090 < len(short.encode()) <= 4096


@pytest.mark.parametrize("sign", ["é", "€", "𝄞"])
def test_a_text_with_few_characters_and_too_many_bytes_is_cut(sign: str) -> None:
    text = sign * 128
    assert len(bounded(text, 128).encode()) <= 128
    assert bounded(text, 128).endswith(f" ({len(text.encode())} bytes)")
    assert bounded(text, len(text.encode())) == text


def test_a_lone_surrogate_is_a_question_mark() -> None:
    assert bounded("file \udcff", 128) == "file ?"
    assert len(bounded("\udcff" * 500, 128)) <= 128


@given(st.text())
def test_escaped_text_has_no_control_characters(text: str) -> None:
    assert escape(text).isprintable()
