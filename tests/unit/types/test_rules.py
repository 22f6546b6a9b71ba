"""What a rule of the wire accepts, and how it says what it expects."""

import pytest

from nri.types.oci_values import INT32, INT64, UINT32, UINT64
from nri.types.table import Rule, text


@pytest.mark.parametrize(
    ("rule", "least", "most"),
    [
        (INT32, -(2**31), 2**31 - 1),
        (UINT32, 0, 2**32 - 1),
        (INT64, -(2**63), 2**63 - 1),
        (UINT64, 0, 2**64 - 1),
    ],
    ids=["int32", "uint32", "int64", "uint64"],
)
def test_integers_of_oci_have_the_bounds_of_their_bits(rule: Rule, least: int, most: int) -> None:
    assert [rule.accepts(value) for value in (least - 1, least, most, most + 1)] == [
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("shortest", "expected"),
    [
        (0, "a string"),
        (1, "a string that is not empty"),
        (2, "a string of at least 2 characters"),
    ],
)
def test_a_text_says_how_long_it_is_at_least(shortest: int, expected: str) -> None:
    assert text(shortest).expected == expected
