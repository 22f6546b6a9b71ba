"""The machine's cgroups as the kernel shows them: read a knob, list the cgroups below a path, remove them.

A path is a runtime's `cgroupsPath`, such as `/nri-test-1a2b/pod`, below the mount of every hierarchy. This module
does not use `nri.cgroups`, whose work the tests check with it.
"""

import os
import time
from pathlib import Path


def hierarchies() -> dict[str, Path]:
    """Return the mount of each hierarchy, by v1 controller (or `name=…`), and of cgroup v2 under ""."""
    mounts: dict[str, Path] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        mount = Path(left.split(" ")[4])
        if kind == "cgroup2":
            mounts.setdefault("", mount)
        elif kind == "cgroup":
            for option in options.split(","):
                if option not in ("rw", "ro"):
                    mounts.setdefault(option, mount)
    return mounts


def directory(controller: str, path: str) -> Path:
    """Return a cgroup's directory in the v1 hierarchy of a controller, or in cgroup v2 if it has none."""
    mounts = hierarchies()
    mount = mounts[controller] if controller in mounts else mounts[""]
    return mount / path.lstrip("/")


def knob(path: str, name: str) -> str:
    """Return the text of a knob such as `cpu.cfs_quota_us`, whose name begins with the controller."""
    return (directory(name.partition(".")[0], path) / name).read_text().strip()


def directories(path: str) -> list[Path]:
    """Return all directories at and below `path`, in all hierarchies, children first."""
    tops = {mount / path.lstrip("/") for mount in hierarchies().values()}
    return [Path(folder) for top in sorted(tops) for folder, _, _ in os.walk(top, topdown=False)]


def processes(path: str) -> set[int]:
    """Return the processes at and below `path`."""
    pids: set[int] = set()
    for folder in directories(path):
        try:
            pids.update(int(pid) for pid in (folder / "cgroup.procs").read_text().split())
        except FileNotFoundError:
            continue  # removed meanwhile
    return pids


def remove(path: str, *, timeout: float = 5.0) -> None:
    """Remove `path` and all cgroups below it; processes that are ending have `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while folders := directories(path):
        for folder in folders:
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:  # EBUSY: a process is still ending
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
