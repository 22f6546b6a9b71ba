"""Let :mod:`nri.cgroups` of this process see other files than the kernel's, for as long as a test wants.

Its one module that reads and writes files, :mod:`nri.cgroups.knobs`, gets a stand-in for ``os``. So a plugin needs no
change: the list of mounts, ``/proc/PID/cgroup`` and what a write does are the test's. A unit of systemd is looked for
in another ``/run``, so that no test talks to the machine's systemd.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from nri.cgroups import knobs, units

if TYPE_CHECKING:
    from collections.abc import Callable


class SystemCalls:
    """The module ``os`` as :mod:`nri.cgroups.knobs` sees it.

    :param locate: returns the file to open in place of a path.
    :param opening: is called before a file is opened for writing, and returns whether its writes are the test's.
    :param writing: does a write; its arguments are the path, the open descriptor and the bytes.
    """

    def __init__(
        self,
        locate: Callable[[str], str],
        opening: Callable[[str], bool],
        writing: Callable[[str, int, bytes], int],
    ) -> None:
        self._locate, self._opening, self._writing = locate, opening, writing
        self._open: dict[int, str] = {}

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        """Open a file; the kernel's cgroup files ignore O_TRUNC."""
        path = self._locate(path)
        if not flags & (os.O_WRONLY | os.O_RDWR) or not self._opening(path):
            return os.open(path, flags, mode)
        descriptor = os.open(path, (flags & ~(os.O_TRUNC | os.O_WRONLY)) | os.O_RDWR, mode)
        self._open[descriptor] = path
        return descriptor

    def write(self, descriptor: int, data: bytes) -> int:
        """Write to a file, as its kernel would."""
        path = self._open.get(descriptor)
        return os.write(descriptor, data) if path is None else self._writing(path, descriptor, data)

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""
        self._open.pop(descriptor, None)
        os.close(descriptor)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


class Replacement:
    """The replacement in :mod:`nri.cgroups`; one at a time.

    :param run: the directory in place of ``/run``.
    """

    _active: Replacement | None = None

    def __init__(self, calls: SystemCalls, run: str) -> None:
        self._calls, self._run = calls, run
        self._real_init = units.Systemd.__init__

    def start(self) -> None:
        """Replace; raise RuntimeError if another replacement is in force."""
        if Replacement._active is not None:
            raise RuntimeError("a CgroupTree is active already: expected one at a time")
        Replacement._active = self
        real_init, run = self._real_init, self._run

        def init(self: units.Systemd, given: str = units.RUN) -> None:
            real_init(self, run if given == units.RUN else given)

        setattr(units.Systemd, "__init__", init)  # noqa: B010 - mypy refuses an assignment to a method
        setattr(knobs, "os", self._calls)  # noqa: B010

    def stop(self) -> None:
        """Put everything back, if this replacement is in force."""
        if Replacement._active is not self:
            return
        setattr(units.Systemd, "__init__", self._real_init)  # noqa: B010
        setattr(knobs, "os", os)  # noqa: B010
        Replacement._active = None
