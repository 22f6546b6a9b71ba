"""Cgroups: from an OCI cgroupsPath to directories and knobs; v1, v2 and hybrid, cgroupfs and systemd.

Belongs here: what a plugin does to a container's cgroup, and how to find it. It knows nothing of requests,
results and configuration; environment variables are not read, the places are arguments.

Banned here: imports other than ``os``, ``errno`` and ``nri.errors``. Plugin executables load this package at
every start of a container; ``re``, ``typing``, ``dataclasses`` or ``pathlib`` would cost more than all that
it does.
"""

from __future__ import annotations

from .cgroup import Cgroup, find
from .cpulist import MAX_CPU
from .cpulist import parse as parse_cpus
from .cpulist import render as render_cpus
from .errors import CgroupError, CgroupPathError, CpuListError, GoneError
from .mounts import Mounts
from .quota import Quota

__all__ = [
    "MAX_CPU",
    "Cgroup",
    "CgroupError",
    "CgroupPathError",
    "CpuListError",
    "GoneError",
    "Mounts",
    "Quota",
    "find",
    "parse_cpus",
    "render_cpus",
]
