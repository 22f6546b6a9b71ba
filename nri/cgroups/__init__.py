"""Cgroups: from an OCI cgroupsPath to directories and knobs; v1, v2 and hybrid, cgroupfs and systemd.

It finds a container's cgroup, and reads and writes it for a plugin. It knows nothing of requests, results and
configuration, reads no environment variables, and gets all paths as arguments.

The package imports only ``os``, ``errno``, ``stat``, ``time`` and ``nri.errors``. Plugins load it at every start of a
container; importing ``re``, ``typing``, ``dataclasses`` or ``pathlib`` would take longer than all of its work. Only
for a cgroup that is a unit of systemd's it imports what talks to systemd, and only for :meth:`Cgroup.read`,
``write``, ``pressure`` and ``statistics`` the table of knobs and what reads these.
"""

from __future__ import annotations

from .cgroup import Cgroup, find
from .cpulist import MAX_CPU
from .cpulist import parse as parse_cpus
from .cpulist import render as render_cpus
from .errors import CgroupError, CgroupPathError, CpuListError, GoneError, KnobValueError
from .mounts import Mounts
from .quota import Quota
from .units import Systemd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .pressure import Pressure, Stall

__all__ = [
    "MAX_CPU",
    "Cgroup",
    "CgroupError",
    "CgroupPathError",
    "CpuListError",
    "GoneError",
    "KnobValueError",
    "Mounts",
    "Pressure",
    "Quota",
    "Stall",
    "Systemd",
    "find",
    "parse_cpus",
    "render_cpus",
]


def __getattr__(name: str) -> object:
    if name in ("Pressure", "Stall"):
        from . import pressure

        return getattr(pressure, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
