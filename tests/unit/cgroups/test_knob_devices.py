"""The I/O knobs, by device, in trees of plain files. Such a tree keeps only the last line that was written."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from nri.cgroups.knob_table import TABLE
from nri.cgroups.knob_values import ByDevice
from tests.unit.cgroups.trees import INNER, PATH, SCOPE, Tree

LIMITS = TABLE["io.max"].values
assert isinstance(LIMITS, ByDevice)
NO_LIMITS: dict[str, int | None] = dict.fromkeys(LIMITS.numbers)


def test_only_the_weights_that_differ_are_written(v2: Tree, written: list[str]) -> None:
    v2.put(PATH, "io.weight", "default 100\n8:0 50\n8:16 200\n")
    before = v2.cgroup().write("io.weight", {"default": 100, "8:0": 70, "8:16": None, "8:32": 9, "8:48": None})
    assert before == {"default": 100, "8:0": 50, "8:16": 200, "8:32": None, "8:48": None}
    assert written == ["abc/io.weight 8:0 70", "abc/io.weight 8:16 default", "abc/io.weight 8:32 9"]
    written.clear()
    v2.put(PATH, "io.latency", "8:0 target=75000\n")
    assert v2.cgroup().write("io.latency", {"8:0": None, "8:16": 500}) == {"8:0": 75000, "8:16": None}
    assert written == ["abc/io.latency 8:0 target=max", "abc/io.latency 8:16 target=500"]


def test_weights_are_converted_in_v1(v1: Tree, written: list[str]) -> None:
    v1.put(PATH, "blkio.bfq.weight", "500\n")
    v1.put(PATH, "blkio.bfq.weight_device", "default 500\n8:0 10\n")
    assert v1.cgroup().read("io.weight") == {"default": 4950, "8:0": 1}
    assert v1.cgroup().read("io.bfq.weight") == {"default": 500, "8:0": 10}
    v1.cgroup().write("io.weight", {"default": 10000, "8:0": None, "8:16": 10000})
    assert written == [
        "abc/blkio.bfq.weight 1000",
        "abc/blkio.bfq.weight_device 8:0 0",
        "abc/blkio.bfq.weight_device 8:16 1000",
    ]
    v1.cgroup().write("io.weight", {"default": 100})
    written.clear()
    assert v1.cgroup().write("io.weight", {"default": 100}) == {"default": 91}  # the nearest that v1 has
    assert written == []


def test_only_the_limits_that_differ_are_written(v2: Tree, written: list[str]) -> None:
    v2.put(PATH, "io.max", "8:0 rbps=1 wbps=max riops=max wiops=7\n8:16 rbps=5 wbps=max riops=max wiops=max\n")
    cgroup = v2.cgroup()
    assert cgroup.read("io.max")["8:0"] == {"rbps": 1, "wbps": None, "riops": None, "wiops": 7}
    before = cgroup.write("io.max", {"8:0": {"rbps": 1, "wiops": None, "riops": 3}, "8:16": None})
    assert before == {"8:0": {"rbps": 1, "wiops": 7, "riops": None}, "8:16": NO_LIMITS | {"rbps": 5}}
    assert written == ["abc/io.max 8:0 wiops=max riops=3", "abc/io.max 8:16 rbps=max"]


def test_limits_are_in_four_files_of_v1(v1: Tree, written: list[str]) -> None:
    v1.put(PATH, "blkio.throttle.read_bps_device", "8:0 1\n")
    v1.put(PATH, "blkio.throttle.write_iops_device", "8:0 7\n8:16 9\n")
    assert v1.cgroup().read("io.max") == {
        "8:0": NO_LIMITS | {"rbps": 1, "wiops": 7},
        "8:16": NO_LIMITS | {"wiops": 9},
    }
    v1.cgroup().write("io.max", {"8:0": {"rbps": 2, "wbps": None, "wiops": None}})
    assert written == ["abc/blkio.throttle.read_bps_device 8:0 2", "abc/blkio.throttle.write_iops_device 8:0 0"]


def test_cruns_child_gets_only_the_limits_that_it_has(tmp_path: Path, written: list[str]) -> None:
    tree = Tree(tmp_path, "v2", SCOPE, INNER)
    tree.put(SCOPE, "io.max", "8:0 rbps=100 wbps=100 riops=max wiops=max\n")
    tree.put(INNER, "io.max", "8:0 rbps=50 wbps=max riops=max wiops=max\n")
    cgroup = tree.cgroup(SCOPE)
    assert cgroup.read("io.max") == {"8:0": {"rbps": 50, "wbps": 100, "riops": None, "wiops": None}}
    cgroup.write("io.max", {"8:0": {"rbps": 70, "wbps": 70}})
    assert sorted(written) == ["container/io.max 8:0 rbps=70", "crun-abc.scope/io.max 8:0 rbps=70 wbps=70"]


DEVICE = st.tuples(st.integers(0, 4095), st.integers(0, 1048575)).map(lambda pair: f"{pair[0]}:{pair[1]}")
LIMIT = st.none() | st.integers(1, 2**32 - 2)
ALL = st.fixed_dictionaries(dict.fromkeys(NO_LIMITS, LIMIT))


@given(st.dictionaries(DEVICE, ALL, max_size=4))
def test_limits_are_read_as_the_kernel_shows_them(limits: dict[str, dict[str, int | None]]) -> None:
    text = "\n".join(
        " ".join([device, *(f"{key}={'max' if one is None else one}" for key, one in each.items())])
        for device, each in limits.items()
    )
    assert LIMITS.value(LIMITS.parse(text)) == limits
    assert LIMITS.value(LIMITS.items(limits)) == limits


@given(st.text())
def test_any_text_is_a_value_or_a_value_error(text: str) -> None:
    for name in ("io.weight", "io.max", "io.latency"):
        try:
            TABLE[name].values.parse(text)
        except ValueError:
            continue
