"""Controllers of cgroup v2 that nobody has enabled: enabled while tests use them, also tests of other processes."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK = Path("/run/nri-test-controllers")
"""All users hold a shared lock on it; it has a line for each controller that they have enabled, which the last one
disables."""


@contextmanager
def enabled(control: Path, *controllers: str) -> Iterator[None]:
    """Enable controllers in a ``cgroup.subtree_control`` for as long as somebody uses this function."""
    with LOCK.open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        try:
            for controller in controllers:
                if controller not in control.read_text().split():
                    lock.write(f"{control} {controller}\n")
                    lock.flush()
                    control.write_text(f"+{controller}")
            yield
        finally:
            with suppress(BlockingIOError):  # somebody else uses them
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                lock.seek(0)
                for line in set(lock.read().splitlines()):
                    file, controller = line.rsplit(" ", 1)
                    with suppress(OSError):  # a cgroup of somebody else hands it on
                        Path(file).write_text(f"-{controller}")
                lock.truncate(0)
