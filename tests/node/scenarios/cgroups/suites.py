"""The unit tests of cgroups and of the plugins, on the kernel's own cgroup v2 files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.node.guest import suites

if TYPE_CHECKING:
    from collections.abc import Callable


def test_the_suites_pass_on_cgroup_v2(record_property: Callable[[str, object], None]) -> None:
    suites.must_pass("cpu v2 and cpuset v2", record_property)
