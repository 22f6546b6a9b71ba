"""The weights for all devices, in trees of plain files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.cgroups import CgroupError
from nri.cgroups.knob_table import TABLE
from tests.unit.cgroups.trees import PATH, Tree


@pytest.mark.parametrize("text", ["100\n", "default 100\n", "default 100\n8:0 50\n8:16 200\n"])
def test_the_default_of_all_devices_is_read_and_written(v2: Tree, written: list[str], text: str) -> None:
    v2.put(PATH, "io.weight", text)
    assert v2.cgroup().write("io.weight", 100) == 100
    assert v2.cgroup().write("io.weight", 70) == 100
    assert written == ["abc/io.weight 70"]


def test_weights_are_converted_in_v1(v1: Tree, written: list[str]) -> None:
    v1.put(PATH, "blkio.bfq.weight", "500\n")
    assert (v1.cgroup().read("io.weight"), v1.cgroup().read("io.bfq.weight")) == (4950, 500)
    v1.cgroup().write("io.weight", 10000)
    v1.cgroup().write("io.weight", 100)
    assert written == ["abc/blkio.bfq.weight 1000", "abc/blkio.bfq.weight 19"]
    assert v1.cgroup().write("io.weight", 100) == 91  # the nearest that v1 has
    assert len(written) == 2


def test_a_device_alone_is_no_weight(v2: Tree) -> None:
    v2.put(PATH, "io.weight", "8:0 50\n")
    with pytest.raises(CgroupError, match="expected the kernel's text for a number from 1 to 10000, for all devices"):
        v2.cgroup().read("io.weight")


@given(st.text())
def test_any_text_is_a_value_or_a_value_error(text: str) -> None:
    for name in ("io.weight", "io.bfq.weight"):
        try:
            TABLE[name].values.parse(text)
        except ValueError:
            continue
