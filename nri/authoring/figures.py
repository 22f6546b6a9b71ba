"""Size on disk and start time of executables, measured in turns, so that a noisy moment affects all of them."""

from __future__ import annotations

import os
import statistics
import sys
import time
from typing import NamedTuple

from nri.authoring.build_errors import BuildError
from nri.process.conversation import launch

SAMPLES = ("clearcfs", "konfine")
"""Plugins of this project that figures are compared with."""

SAMPLE_DIRS = ("/opt/nri/bin", "dist/nri")
"""Folders in which they are looked up."""

WARM_RUNS, COLD_RUNS = 11, 3
_WITHIN = 30.0  # seconds for one start


class Figures(NamedTuple):
    """The figures of one program."""

    name: str
    size: int | None  # bytes of its folder; None if it has none of its own
    cold: float | None  # milliseconds with its files on disk only; None if they can't be removed from memory
    warm: float  # milliseconds with its files in memory


class Measured:
    """A program that is measured.

    :param argv: its path, and its name and arguments as it sees them.
    """

    def __init__(self, name: str, path: str, argv: list[str], stdin: bytes, folder: str = "") -> None:
        self.name = name
        self._path, self._argv, self._stdin = path, argv, stdin
        self._folder = os.path.realpath(folder) if folder else ""
        self._warm: list[float] = []
        self._cold: list[float] = []

    def run(self, *, cold: bool) -> None:
        """Run it once, and note the time."""
        if cold and not (self._folder and _drop(self._files())):
            return
        output = launch(self._path, self._argv, self._stdin, time.monotonic() + _WITHIN, log=lambda _line: None)
        if output.stopped or output.status:
            raise BuildError(f"{self.name}: {output.ending or 'no answer'} while its start was measured")
        (self._cold if cold else self._warm).append(output.seconds * 1000)

    def figures(self) -> Figures:
        """Return its figures; times are medians."""
        size = sum(os.path.getsize(path) for path in self._files()) if self._folder else None
        cold = statistics.median(self._cold) if self._cold else None
        return Figures(self.name, size, cold, statistics.median(self._warm[1:]))

    def _files(self) -> list[str]:
        found = [os.path.join(place, name) for place, _, names in os.walk(self._folder) for name in names]
        return [path for path in found if os.path.isfile(path) and not os.path.islink(path)]


def measure(programs: list[Measured]) -> list[Figures]:
    """Return the figures of these programs, in their order."""
    for cold, runs in ((True, COLD_RUNS), (False, WARM_RUNS + 1)):
        for _ in range(runs):
            for program in programs:
                program.run(cold=cold)
    return [program.figures() for program in programs]


def samples(request: bytes) -> list[Measured]:
    """Return the sample plugins that are installed or built, else a bare interpreter."""
    for folder in SAMPLE_DIRS:
        paths = [os.path.join(folder, name) for name in SAMPLES]
        if all(os.access(path, os.X_OK) for path in paths):
            return [
                Measured(path, path, [name, "invoke"], request, os.path.dirname(os.path.realpath(path)))
                for name, path in zip(SAMPLES, paths, strict=True)
            ]
    return [Measured("a bare interpreter", sys.executable, [sys.executable, "-I", "-S", "-c", "pass"], b"")]


def _drop(paths: list[str]) -> bool:
    """Remove files from the page cache; return whether the first is gone, which not every file system allows."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            try:
                os.fsync(descriptor)  # a page that is not written stays
            except OSError:
                pass  # a file system that is read-only has no such page
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    return bool(paths) and not _is_cached(max(paths, key=os.path.getsize))


def _is_cached(path: str) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT) > 0
    except BlockingIOError:
        return False
    except OSError:
        return True  # it can't be asked
    finally:
        os.close(descriptor)
