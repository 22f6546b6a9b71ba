"""The tests on the kernel's cgroups where cpu is in a v1 hierarchy and cpuset in v2.

That is systemd's hybrid layout, which ``kernel.txt`` asks for, on a kernel without v1 cpusets (CONFIG_CPUSETS_V1).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.node.guest import suites

if TYPE_CHECKING:
    from collections.abc import Callable


def test_the_suites_pass_where_each_controller_has_another_version(
    record_property: Callable[[str, object], None],
) -> None:
    # Systemd leaves that to others here.
    Path("/sys/fs/cgroup/unified/cgroup.subtree_control").write_text("+cpuset")
    suites.must_pass("cpu v1 and cpuset v2", record_property, "-m", "kernel_cgroups")
