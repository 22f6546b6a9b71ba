"""The word that a misspelt one stands for."""

from __future__ import annotations

import pytest

from nri.config.faults import nearest

KEYS = ("type", "states", "failurePolicy", "timeout")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("tpye", "type"),
        ("state", "states"),
        ("failure_policy", "failurePolicy"),
        ("TIMEOUT", "timeout"),
        ("zzz", None),
        ("", None),
        (5, None),
        (None, None),
        ("timeout" * 20, None),
    ],
)
def test_a_misspelt_word_is_recognized(word: object, meant: str | None) -> None:
    assert nearest(word, KEYS) == meant
