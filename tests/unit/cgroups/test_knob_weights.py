"""Weights: the same numbers as container runtimes have, and the default of all devices."""

import pytest

from nri.cgroups import CgroupError
from nri.cgroups.knob_values import io_weight_of_blkio, shares_of_weight, weight_of_shares
from tests.unit.cgroups.trees import PATH, Tree


@pytest.mark.parametrize(
    ("shares", "weight"),
    [
        (0, 1),
        (1, 1),
        (2, 1),
        (3, 2),
        (1024, 100),
        (1025, 101),
        (262143, 10000),
        (262144, 10000),
        (2**64, 10000),
    ],
)
def test_shares_become_the_weight_that_runtimes_make_of_them(shares: int, weight: int) -> None:
    assert weight_of_shares(shares) == weight


def test_the_shares_of_a_weight_are_the_most_that_have_it() -> None:
    assert [shares_of_weight(weight) for weight in (1, 100, 10000)] == [2, 1024, 262144]
    for weight in range(1, 10000):
        shares = shares_of_weight(weight)
        assert (weight_of_shares(shares), weight_of_shares(shares + 1)) == (weight, weight + 1)


@pytest.mark.parametrize(
    ("blkio", "weight"), [(1, 1), (10, 1), (11, 11), (100, 910), (500, 4950), (1000, 10000)]
)
def test_blkio_weight_becomes_the_weight_of_runtimes(blkio: int, weight: int) -> None:
    assert io_weight_of_blkio(blkio) == weight


@pytest.mark.parametrize("text", ["100\n", "default 100\n", "default 100\n8:0 50\n8:16 200\n"])
def test_the_default_of_all_devices_is_read_and_written(
    v2: Tree, written: list[str], text: str
) -> None:
    v2.put(PATH, "io.weight", text)
    assert v2.cgroup().write("io.weight", 100) == 100
    assert v2.cgroup().write("io.weight", 70) == 100
    assert written == ["abc/io.weight 70"]


def test_weights_are_converted_in_v1(v1: Tree, written: list[str]) -> None:
    v1.put(PATH, "blkio.bfq.weight", "500\n")
    assert v1.cgroup().read("io.weight") == 4950
    v1.cgroup().write("io.weight", 10000)
    v1.cgroup().write("io.weight", 101)
    assert written == ["abc/blkio.bfq.weight 1000", "abc/blkio.bfq.weight 19"]
    assert v1.cgroup().write("io.weight", 101) == 91  # the nearest that v1 has
    assert len(written) == 2


def test_a_device_alone_is_no_weight(v2: Tree) -> None:
    v2.put(PATH, "io.weight", "8:0 50\n")
    with pytest.raises(
        CgroupError,
        match="expected the kernel's text for a number from 1 to 10000, for all devices",
    ):
        v2.cgroup().read("io.weight")
