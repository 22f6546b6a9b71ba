"""A cgroup's parents, and what the package imports; the kernel's part is in test_real.py."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from nri.cgroups import (
    Cgroup,
    CgroupError,
)
from nri.testing.cgroup_files import CgroupFiles, make_process
from tests.unit.cgroups.trees import PATH, look, make

if TYPE_CHECKING:
    from pathlib import Path


def test_parents_lead_to_the_pod_and_stop_below_the_root(tree: CgroupFiles) -> None:
    cgroup: Cgroup | None = look(tree)
    seen = []
    while cgroup is not None:
        seen.append((cgroup.directory("cpuset").rpartition("/")[2], cgroup.is_pod()))
        cgroup = cgroup.parent()
    assert seen == [("abc", False), ("pod1-2", True), ("burstable", False), ("kubepods", False)]


def test_a_parent_that_is_the_root_in_one_hierarchy_is_never_touched(tmp_path: Path) -> None:
    tree = make(tmp_path, "v1")
    for path in ("/b", "/a/b"):
        tree.make(path)
    make_process(tmp_path / "proc", 7, "3:cpuset:/b\n2:cpu:/a/b\n")
    parent = look(tree, "", 7, tmp_path / "proc", "b").parent()
    assert parent is not None
    assert parent.directory("cpu").endswith("/cpu/a")
    with pytest.raises(CgroupError, match="no parent but the root cgroup"):
        parent.set_cpus(frozenset({0}))


def test_the_package_imports_only_what_python_has_loaded_anyway() -> None:
    code = (
        "import os, errno, __future__, sys; before = set(sys.modules); import nri.cgroups; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if not name.startswith("nri.cgroups")] == [
        "nri",
        "nri.errors",
    ]


def test_the_table_of_knobs_is_loaded_only_when_a_knob_is_used(tmp_path: Path) -> None:
    make(tmp_path, "v2")
    (tmp_path / "mountinfo").write_text(CgroupFiles(tmp_path / "cgroup tree", "v2").mountinfo)
    code = (
        "import sys; from nri.cgroups import Mounts, find\n"
        f"cgroup = find({PATH!r}, mounts=Mounts.read({str(tmp_path / 'mountinfo')!r}))\n"
        "cgroup.clear_cpu_quota(); cgroup.confine(frozenset({0}))\n"
        "for use in (str, lambda: cgroup.read('cpu.max')):\n"
        "    use(); print('nri.cgroups.knob_table' in sys.modules, 'nri.cgroups.pressure' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False False", "True False"]
