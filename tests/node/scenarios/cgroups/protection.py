"""The kernel reclaims other memory before that which ``qos`` protects."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nri.cgroups import find
from tests.support.kernel_pod import child, kernel_pod, run, with_memory_and_pids

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.real_cgroups import Real

pytestmark = [pytest.mark.runtime, pytest.mark.kernel_cgroups(cpuset=2)]

MIB = 1 << 20
OWN, ALL = 24 * MIB, 64 * MIB


@pytest.fixture
def disk() -> Iterator[Path]:
    """A directory whose files are read from a disk: the pages of a tmpfs cannot be reclaimed."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        yield Path(place)


@pytest.fixture
def real() -> Iterator[Real]:
    with kernel_pod("0-3") as real:
        yield real


def read(path: str, file: Path, size: int) -> None:
    """Read a file of so many bytes in a cgroup, which has its pages then."""
    file.write_bytes(b"")
    code = f"os.truncate('{file}', {size})\nf = open('{file}', 'rb')\nwhile f.read(65536): pass"
    with child(path, code) as reader:
        assert reader.wait() == 0


@pytest.mark.parametrize("is_protected", [False, True], ids=["not protected", "protected"])
def test_memory_that_is_protected_is_not_reclaimed(
    real: Real, tmp_path: Path, disk: Path, is_protected: bool
) -> None:
    own, other = (real.make(f"/kubepods/pod{name}/{name}") for name in _made(real, "a", "b"))
    with with_memory_and_pids(real, own, other):
        find(real.top).write("memory.max", ALL)
        conf = {
            "run": str(tmp_path),
            "key": "qos.class",
            "allow": {"class": True},
            "containers": {"ls": {"memory.low": OWN + 4 * MIB}},
        }
        if is_protected:
            metadata = run("qos", real, conf, path=own, id_="a").metadata
            assert metadata["kubepods.memory.low"] == str(OWN + 4 * MIB)
        read(own, disk / "own", OWN)
        before = int(find(own).read_text("memory.current"))
        assert before > OWN * 0.9
        read(other, disk / "other", 4 * ALL)
        left = int(find(own).read_text("memory.current")) / before
        assert (left > 0.9) == is_protected, left


def _made(real: Real, *names: str) -> tuple[str, ...]:
    for name in names:
        real.make(f"/kubepods/pod{name}")
    return names
