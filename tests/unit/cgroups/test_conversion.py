"""Weights of v1 and v2: the same numbers as container runtimes have, and back."""

import pytest

from nri.cgroups.conversion import blkio_of_io_weight, io_weight_of_blkio, shares_of_weight, weight_of_shares


@pytest.mark.parametrize(
    ("shares", "weight"),
    [(0, 1), (1, 1), (2, 1), (3, 2), (1024, 100), (1025, 101), (262143, 10000), (262144, 10000), (2**64, 10000)],
)
def test_shares_become_the_weight_that_runtimes_make_of_them(shares: int, weight: int) -> None:
    assert weight_of_shares(shares) == weight


def test_the_shares_of_a_weight_are_the_most_that_have_it() -> None:
    assert [shares_of_weight(weight) for weight in (1, 100, 10000)] == [2, 1024, 262144]
    for weight in range(1, 10000):
        shares = shares_of_weight(weight)
        assert (weight_of_shares(shares), weight_of_shares(shares + 1)) == (weight, weight + 1)


@pytest.mark.parametrize(("blkio", "weight"), [(1, 1), (10, 1), (11, 11), (100, 910), (500, 4950), (1000, 10000)])
def test_blkio_weight_becomes_the_weight_of_runtimes(blkio: int, weight: int) -> None:
    assert io_weight_of_blkio(blkio) == weight


def test_every_blkio_weight_comes_back() -> None:
    assert [blkio_of_io_weight(io_weight_of_blkio(weight)) for weight in range(10, 1001)] == list(range(10, 1001))


def test_an_io_weight_comes_back_up_to_ten_less() -> None:
    for weight in range(1, 10001):
        assert weight - 10 <= io_weight_of_blkio(blkio_of_io_weight(weight)) <= weight
        assert 10 <= blkio_of_io_weight(weight) <= 1000
