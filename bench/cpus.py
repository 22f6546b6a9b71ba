"""CPUs that a measurement is pinned to."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def available() -> list[int]:
    """Return the CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))


def cores() -> list[int]:
    """Return one CPU of each core that this process may use: two threads of a core share its caches."""
    by_siblings: dict[str, int] = {}
    for cpu in available():
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        by_siblings.setdefault(siblings.read_text() if siblings.exists() else str(cpu), cpu)
    return list(by_siblings.values())


def two() -> list[int]:
    """Return two CPUs, of two cores if there are; one on a machine with one CPU."""
    first = cores()[:2]
    return first if len(first) == 2 else available()[:2]


@contextmanager
def pinned(cpus: list[int]) -> Iterator[None]:
    """Run the current thread, and the threads and processes that it starts meanwhile, on these CPUs only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
