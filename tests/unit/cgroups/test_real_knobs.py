"""Knobs by their names on this machine's own hierarchies: the same tests for v1 and v2, whatever each controller has.

A controller that the machine lacks is skipped with the reason. One that nobody has enabled below the root of v2 is
enabled for the test.
"""

import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from nri.cgroups import Cgroup, CgroupError, Mounts, Quota, find
from nri.cgroups.knob_table import find as find_knob
from tests.support.controllers import enabled

pytestmark = [pytest.mark.runtime, pytest.mark.kernel_cgroups]

MIB = 1 << 20


@contextmanager
def made(*controllers: str) -> Iterator[tuple[Cgroup, list[Path]]]:
    """A cgroup in the hierarchies of these controllers, with its directories."""
    if os.geteuid() != 0:
        pytest.skip("needs root to make cgroups")
    mounts, path, directories = Mounts.read(), f"/nri-test-{uuid.uuid4().hex[:12]}", []
    unified: list[tuple[Path, str]] = []
    for controller in controllers:
        mount = (
            mounts.v2
            if controller == "v2"
            else mounts.serving("blkio" if controller == "io" else controller)
        )
        if mount is None or mount.root != "/" or not os.access(mount.point, os.W_OK):
            pytest.skip(f"needs a hierarchy of {controller} that can be written to")
        control = Path(mount.point, "cgroup.subtree_control")
        if mount.version == 2 and controller != "v2":
            if controller not in control.with_name("cgroup.controllers").read_text().split():
                pytest.skip(f"needs the controller {controller} in the v2 hierarchy of this kernel")
            unified.append((control, controller))
        directories.append(Path(mount.point + path))
    unique = list(dict.fromkeys(directories))
    with ExitStack() as stack:
        for control, controller in unified:
            stack.enter_context(enabled(control, controller))
        for directory in unique:
            directory.mkdir()
            stack.callback(directory.rmdir)
        yield find(path), unique


SCALARS: list[tuple[str, Any, Any]] = [
    *(("cpu.weight", 100, value) for value in (1, 10000)),
    ("cpu.max", Quota(None, 100000), Quota(300000, 200000)),
    *(("pids.max", None, value) for value in (0, 4194304)),
    *(("cpu.max.burst", 0, 1000), ("cpu.idle", False, True), ("memory.max", None, 16 * MIB)),
    *(
        ("memory.min", 0, 4 * MIB),
        ("memory.low", 0, 4 * MIB),
        ("memory.high", None, 4 * MIB),
    ),  # these are v2's alone
    *(("memory.oom.group", False, True),),
]


@pytest.mark.parametrize(("name", "first", "value"), SCALARS, ids=str)
def test_the_kernel_takes_a_value_and_shows_it(name: str, first: object, value: object) -> None:
    with made(name.partition(".")[0]) as (cgroup, directories):
        if 1 not in find_knob(name).files and not (directories[0] / "cgroup.controllers").exists():
            with pytest.raises(CgroupError, match="cgroup v1 has nothing that does the same"):
                cgroup.write(name, value)
            return
        assert cgroup.read(name) == first
        assert cgroup.write(name, value) == first
        assert cgroup.read(name) == value
        assert cgroup.write(name, first) == value
        assert cgroup.read(name) == first


def test_bytes_are_rounded_down_to_pages_and_then_left_alone(written: list[str]) -> None:
    with made("memory") as (cgroup, _):
        cgroup.write("memory.max", 10_000_000)
        assert cgroup.read("memory.max") == 10_000_000 // os.sysconf("SC_PAGE_SIZE") * os.sysconf(
            "SC_PAGE_SIZE"
        )
        written.clear()
        cgroup.write("memory.max", 10_000_000)
        assert written == []


@pytest.mark.parametrize("swap", [0, 4 * MIB])
def test_the_limit_of_memory_moves_and_the_swaps_stays(swap: int) -> None:
    with made("memory") as (cgroup, _):
        cgroup.write("memory.max", 16 * MIB)
        files = {file.name for file in Path(cgroup.directory("memory")).iterdir()}
        if not files & {"memory.memsw.limit_in_bytes", "memory.swap.max"}:
            pytest.skip("needs a kernel that accounts swap")
        cgroup.write("memory.swap.max", swap)
        for limit in (64 * MIB, 8 * MIB):
            cgroup.write("memory.max", limit)
            assert (cgroup.read("memory.max"), cgroup.read("memory.swap.max")) == (limit, swap)
        cgroup.write("memory.max", None)
        assert cgroup.read("memory.max") is None


def test_sets_are_written_and_emptied() -> None:
    with made("cpuset") as (cgroup, _):
        for name in ("cpuset.mems", "cpuset.cpus"):
            assert cgroup.write(name, frozenset({0})) == frozenset()
            assert cgroup.read(name) == {0}
        assert cgroup.read("cpuset.cpus.effective") == cgroup.read("cpuset.mems.effective") == {0}
        for name in ("cpuset.mems", "cpuset.cpus"):
            assert cgroup.write(name, frozenset()) == {0}
            assert cgroup.read(name) == frozenset()


def test_limits_of_a_device_are_set_as_text() -> None:
    devices = sorted(Path("/sys/block").glob("*/dev"))
    if not devices:
        pytest.skip("needs a block device")
    device = devices[0].read_text().strip()
    with made("io") as (cgroup, _):
        is_v1 = "blkio" in cgroup.directory("io")
        file, key = ("blkio.throttle.read_bps_device", "") if is_v1 else ("io.max", "rbps=")
        cgroup.write_text(file, f"{device} {key}{MIB}")
        assert f"{device} {key}{MIB}" in cgroup.read_text(file)
        with pytest.raises(CgroupError, match=r"\(ENODEV\)$"):
            cgroup.write_text(file, f"4095:1048575 {key}{MIB}")


def test_the_default_weight_of_io_is_set() -> None:
    with made("io") as (cgroup, _):
        version = 1 if "blkio" in cgroup.directory("io") else 2
        files = find_knob("io.weight").files[version].names()
        if not any(Path(cgroup.directory("io"), file).exists() for file in files):
            with pytest.raises(CgroupError, match=r"does not exist: .*the kernel lacks it"):
                cgroup.read("io.weight")
            return
        before = cgroup.read("io.weight")
        cgroup.write("io.weight", 1)
        assert cgroup.read("io.weight") == 1
        cgroup.write("io.weight", before)
        assert cgroup.read("io.weight") == before


@pytest.mark.parametrize(
    ("name", "value", "none", "other", "refused"),
    [
        ("cpu.max", Quota(20000, 100000), Quota(None, 100000), "cpu.max.burst", 30000),
        ("cpu.max.burst", 30000, 0, "cpu.max", Quota(20000, 100000)),
        ("cpu.idle", True, False, "cpu.weight", 50),
    ],
)
def test_a_refusal_of_the_kernel_has_a_reason(
    name: str, value: Any, none: Any, other: str, refused: Any
) -> None:
    with made("cpu") as (cgroup, _):
        cgroup.write(name, value)
        with pytest.raises(
            CgroupError, match=r"Invalid argument \(EINVAL\): .*cpu.(max.burst|idle is set)"
        ):
            cgroup.write(other, refused)
        cgroup.write(name, none)


def test_the_use_of_a_process_is_counted() -> None:
    with (
        made("pids", "memory") as (cgroup, directories),
        subprocess.Popen(["sleep", "60"]) as process,
    ):
        try:
            for directory in directories:
                (directory / "cgroup.procs").write_text(str(process.pid))
            assert int(cgroup.read_text("pids.current")) == 1
            assert "pgfault" in cgroup.read_text("memory.stat")
            with pytest.raises(CgroupError, match=r"cannot write 'x' to .*pids.max: "):
                cgroup.write_text("pids.max", "x")
        finally:
            process.kill()


def test_the_pressure_of_v2_is_read_beside_v1_too() -> None:
    with made("v2") as (cgroup, directories):
        if not (directories[0] / "cpu.pressure").exists():
            with pytest.raises(
                CgroupError, match=r"cpu.pressure does not exist: the kernel lacks it"
            ):
                cgroup.read_text("cpu.pressure")
            return
        assert cgroup.read_text("cpu.pressure").startswith("some avg10=")
