"""The machine's cgroups as the kernel shows them: read a knob, list what is below a path, remove it.

A path is what a runtime calls `cgroupsPath`, such as `/nri-test-1a2b/pod`, below the mount of every
hierarchy. This looks directly, and not through `nri.cgroups`, whose work it is to judge.
"""

import os
import time
from pathlib import Path


def hierarchies() -> dict[str, Path]:
    """Where each hierarchy is mounted: by v1 controller (or `name=…`), and cgroup v2 as the empty name."""
    found: dict[str, Path] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        mount = Path(left.split(" ")[4])
        if kind == "cgroup2":
            found.setdefault("", mount)
        elif kind == "cgroup":
            for option in options.split(","):
                if option not in ("rw", "ro"):
                    found.setdefault(option, mount)
    return found


def directory(controller: str, path: str) -> Path:
    """A cgroup's directory in the v1 hierarchy of a controller; in cgroup v2 if the controller has none."""
    mounts = hierarchies()
    mount = mounts[controller] if controller in mounts else mounts[""]
    return mount / path.lstrip("/")


def knob(path: str, name: str) -> str:
    """A knob's text, such as `cpu.cfs_quota_us`; its first word is the controller."""
    return (directory(name.partition(".")[0], path) / name).read_text().strip()


def directories(path: str) -> list[Path]:
    """Every directory at and below `path`, in all hierarchies, children first."""
    tops = {mount / path.lstrip("/") for mount in hierarchies().values()}
    return [Path(folder) for top in sorted(tops) for folder, _, _ in os.walk(top, topdown=False)]


def processes(path: str) -> set[int]:
    """The processes at and below `path`."""
    found: set[int] = set()
    for folder in directories(path):
        try:
            found.update(int(pid) for pid in (folder / "cgroup.procs").read_text().split())
        except FileNotFoundError:
            continue  # removed while we looked
    return found


def remove(path: str, *, patience: float = 5.0) -> None:
    """Remove `path` and all below it; processes that are just dying have `patience` seconds to do so."""
    deadline = time.monotonic() + patience
    while folders := directories(path):
        for folder in folders:
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:  # EBUSY: a process is still leaving
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
