"""Cgroups: from an OCI cgroupsPath to directories and knobs; v1, v2 and hybrid, cgroupfs and systemd.

It finds a container's cgroup, and reads and writes it for a plugin. It knows nothing of requests, results and
configuration, reads no environment variables, and gets all paths as arguments.

The package imports only ``os``, ``errno``, ``stat``, ``time`` and ``nri.errors``. Plugins load it at every start of a
container; importing ``re``, ``typing``, ``dataclasses`` or ``pathlib`` would take longer than all of its work. Only
for a cgroup that is a unit of systemd's it imports what talks to systemd, and only for ``Cgroup.read`` and
``write`` the table of knobs.
"""

from __future__ import annotations

from .cgroup import Cgroup, find
from .cpulist import MAX_CPU
from .cpulist import parse as parse_cpus
from .cpulist import render as render_cpus
from .errors import (
    CgroupError,
    CgroupPathError,
    CpuListError,
    ElsewhereError,
    GoneError,
    KnobValueError,
    NoKnobError,
)
from .mounts import Mounts
from .quota import Quota
from .units import Systemd

__all__ = [
    "MAX_CPU",
    "Cgroup",
    "CgroupError",
    "CgroupPathError",
    "CpuListError",
    "ElsewhereError",
    "GoneError",
    "KnobValueError",
    "Mounts",
    "NoKnobError",
    "Quota",
    "Systemd",
    "find",
    "parse_cpus",
    "render_cpus",
]
