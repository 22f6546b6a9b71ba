"""The table of knobs: its names, and the values that each takes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.cgroups import KnobValueError, Quota
from nri.cgroups.cpulist import render
from nri.cgroups.cpuset import Numbers
from nri.cgroups.knob import Limits, Values, check
from nri.cgroups.knob_table import TABLE, find
from nri.cgroups.knob_values import Flag
from nri.cgroups.quota import Quotas

QUOTAS = [Quota(999, 1000), Quota(1000, 999), Quota(1000, 1_000_001), Quota(2**44, 1000)]


def examples(values: Values) -> tuple[list[Any], list[Any]]:
    """Values that a knob takes, up to its bounds, and others."""
    low, high = values.low, values.high
    if isinstance(values, Flag):
        return [True, False], [0, 1, None]
    if isinstance(values, Quotas):
        return [Quota(1000, 1000), Quota(None, 1_000_000), Quota(2**44 - 1, 1000)], [
            None,
            50000,
            "max",
            *QUOTAS,
        ]
    if isinstance(values, Numbers):
        sets = [frozenset({-1}), frozenset({high + 1}), frozenset({"0"}), frozenset({True})]
        return [frozenset(), frozenset({0, high})], [{0}, [0], "0", None, *sets]
    is_limit = isinstance(values, Limits)
    limits: list[Any] = [None] if is_limit else []
    return [low, high, *limits], [
        low - 1,
        high + 1,
        True,
        "100",
        1.0,
        {"default": 100},
        *([] if is_limit else [None]),
    ]


@pytest.mark.parametrize("name", [knob.name for knob in TABLE.values() if knob.can_be_written])
def test_only_values_within_the_kernels_bounds_are_accepted(name: str) -> None:
    right, wrong = examples(find(name).values)
    for value in right:
        check(find(name), value)
    for value in wrong:
        with pytest.raises(KnobValueError) as caught:
            check(find(name), value)
        assert (
            str(caught.value) == f"{name}: found {value!r}, expected {find(name).values.expected}"
        )


def test_other_names_are_no_knobs() -> None:
    for name in (
        "../cpu.max",
        "cpu.max/",
        "cpu.max\n",
        "",
        "\x1b[2J",
        "cpu.pressure",
        "memory.stat",
        "cgroup.procs",
    ):
        with pytest.raises(KnobValueError, match="there is no knob") as caught:
            find(name)
        assert str(caught.value).isprintable()
    with pytest.raises(KnobValueError, match=r"found \['cpu.max'\]$"):
        find(["cpu.max"])  # type: ignore[arg-type]


def test_a_name_of_v1_is_answered_with_the_one_of_v2() -> None:
    for name, instead in {
        "cpu.cfs_period_us": "cpu.max",
        "blkio.bfq.weight": "io.weight",
        "memory.limit_in_bytes": "memory.max",
    }.items():
        with pytest.raises(
            KnobValueError, match=f"^{name} is a file of cgroup v1: expected .* here, {instead}$"
        ):
            find(name)


# What is written is what is read

CPUS = Numbers("CPUs", 8191)


def of_bytes(version: int, step: int) -> Limits:
    return Limits({1: "-1", 2: "max"}[version], step=step)


@given(
    count=st.none() | st.integers(0, 4194304),
    limit=st.none() | st.integers(0, 2**63 - 2**31),
    version=st.sampled_from([1, 2]),
    step=st.sampled_from([4096, 65536]),
    cpus=st.frozensets(st.integers(0, 8191)),
)
def test_a_value_is_read_as_it_was_written(
    count: int | None, limit: int | None, version: int, step: int, cpus: frozenset[int]
) -> None:
    counted, memory = Limits("max", 0, 4194304), of_bytes(version, step)
    assert counted.parse(counted.word(count)) == count
    assert memory.same(memory.parse(memory.word(limit)), limit)
    assert limit is None or not memory.same(limit, limit + step)
    assert CPUS.parse(render(cpus)) == cpus


def test_a_text_that_is_no_value_is_refused() -> None:
    for text in ("", "-", "1.5", "1 2", "max", "٣", "9" * 21, "0x10", "--1", "+1", " 1"):
        for values in (Values(0, 9), Flag(), of_bytes(1, 4096)):
            with pytest.raises(ValueError) as caught:
                values.parse(text)
            assert caught.value.args == (text,)
    # No limit in v1.
    for greatest, step in ((9223372036854771712, 4096), (9223372036854710272, 65536)):
        assert of_bytes(1, step).parse(str(greatest)) is None
        assert of_bytes(1, step).parse(str(greatest - step)) is not None
