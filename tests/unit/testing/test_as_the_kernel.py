"""A write to a CgroupTree has the same outcome as one to this machine's own cgroups: an error, or the content.

The rules of v1 between a cgroup and its parent or children are the kernel's alone.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from nri.cgroups import CgroupError, knobs
from nri.testing import CgroupTree
from tests.support.real_cgroups import Real, first_missing_cpu, real_cgroups

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = [pytest.mark.runtime, pytest.mark.kernel_cgroups]

POD, WEB = "/pod", "/pod/web"
MISSING = str(first_missing_cpu())
CPUS = [
    [(WEB, "cpuset.cpus", text)]
    for text in (
        "0",
        "1,0",
        "0-1\n",
        "0,0",
        " 1",
        "1-0",
        "two",
        "0-",
        "-1",
        "0;1",
        MISSING,
        f"0,{MISSING}",
    )
]
CPUSET_V1 = [
    [(WEB, "cpuset.cpus", "0"), (POD, "cpuset.cpus", "0")],
    [(WEB, "cpuset.mems", "0")],
    [(WEB, "cpuset.mems", "x")],
    [(WEB, "cpuset.effective_cpus", "0")],
]
CPU_V1 = [
    *[[(WEB, "cpu.shares", text)] for text in ("2", "512\n", "x", "", "1.5", "-1")],
    *[
        [(WEB, "cpu.cfs_quota_us", text)]
        for text in ("50000", "-1", "-7", "0", "999", "1000", "max", "5e4", "")
    ],
    *[
        [(WEB, "cpu.cfs_period_us", text)]
        for text in ("50000", "999", "1000000", "1000001", "-1", "x")
    ],
    [(POD, "cpu.cfs_quota_us", "20000"), (WEB, "cpu.cfs_quota_us", "20000")],
]
CPU_V2 = [
    *[
        [(WEB, "cpu.max", text)]
        for text in ("max", "50000", "50000 50000", "max 50000", "999", "1000", "x")
    ],
    *[[(WEB, "cpu.max", text)] for text in ("50000 999", "50000 1000001", "-1", "")],
    *[[(WEB, "cpu.weight", text)] for text in ("1", "10000", "x", "-1")],
    [(WEB, "cpuset.cpus.effective", "0")],
    [(WEB, "cpuset.mems", "x")],
    [(POD, "cpuset.cpus", "0"), (WEB, "cpuset.cpus", "0")],
]


def kernels(real: Real, path: str, knob: str, value: str) -> str:
    file = f"{real.points[knob.partition('.')[0]]}{real.top}{path}/{knob}"
    descriptor = os.open(file, os.O_WRONLY)
    try:
        os.write(descriptor, value.encode())
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    finally:
        os.close(descriptor)
    return real.get(real.top + path, knob)


def trees(tree: CgroupTree, path: str, knob: str, value: str) -> str:
    file = f"{tree.directory(path, knob.partition('.')[0])}/{knob}"
    try:
        knobs.write(file, value, "")
    except CgroupError as error:
        assert isinstance(error.__cause__, OSError)
        return errno.errorcode[error.__cause__.errno or 0]
    return tree.get(f"{path}/{knob}")


def compare(kind: str, cases: list[list[tuple[str, str, str]]]) -> None:
    for writes in cases:
        with real_cgroups() as real, CgroupTree(kind, cpus=f"0-{int(MISSING) - 1}") as tree:
            for path in (POD, WEB):
                real.make(path)
            tree.make(WEB)
            for path in (POD, WEB):
                tree.put(f"{path}/cpuset.cpus", "0-1")
            for write in writes:
                assert trees(tree, *write) == kernels(real, *write), write


def in_turn(cases: Iterable[list[tuple[str, str, str]]]) -> list[tuple[str, str, str]]:
    """All writes to one pair of cgroups: making them takes longer than writing."""
    return [write for case in cases for write in case]


@pytest.mark.kernel_cgroups(cpuset=1)
def test_cpus_in_v1() -> None:
    compare("v1", [in_turn(CPUS), *CPUSET_V1])


@pytest.mark.kernel_cgroups(cpu=1)
def test_cpu_time_in_v1() -> None:
    compare(
        "v1",
        [
            in_turn(case for case in CPU_V1 if len(case) == 1),
            *[case for case in CPU_V1 if len(case) > 1],
        ],
    )


@pytest.mark.kernel_cgroups(cpu=2, cpuset=2)
def test_cpus_and_cpu_time_in_v2() -> None:
    compare("v2", [*CPUS, *CPU_V2])
