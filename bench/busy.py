"""A node whose CPUs are all busy: a loop on each, in a cgroup that weighs as much as pods that request all CPUs."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from bench import cpus
from nri.cgroups import Mounts
from nri.errors import NRIError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@contextlib.contextmanager
def every_cpu(beside: Sequence[int] = ()) -> Iterator[None]:
    """Have every CPU that this process may use busy meanwhile.

    :param beside: processes that are in the cgroup of the loops meanwhile. Where none can be made, all stay where
        they are.
    """
    loops = [subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"]) for _ in cpus.available()]
    folder = _cgroup(len(loops))
    try:
        if folder is not None:
            _move([*[loop.pid for loop in loops], *beside], folder)
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
        if folder is not None:
            _move(
                [int(pid) for pid in (folder / "cgroup.procs").read_text().split()], folder.parent
            )
            folder.rmdir()


def _move(pids: Sequence[int], folder: Path) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            (folder / "cgroup.procs").write_text(str(pid))


def _cgroup(size: int) -> Path | None:
    """Make a cgroup of the weight of so many CPUs; return None where none can be made."""
    with contextlib.suppress(NRIError, OSError):
        mount = Mounts.read().serving("cpu")
        if mount is not None:
            folder = Path(f"{mount.point}/nri-bench-{os.getpid()}")
            folder.mkdir()
            for knob, weight in (
                ("cpu.shares", 1024 * size),
                ("cpu.weight", min(10_000, 100 * size)),
            ):
                if (folder / knob).exists():
                    (folder / knob).write_text(str(weight))
                    return folder
            folder.rmdir()
    return None
