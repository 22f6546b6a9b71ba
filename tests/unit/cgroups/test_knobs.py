"""Files of a cgroup that disappear, are too long, or are not written completely."""

from __future__ import annotations

import os
import shutil

import pytest

from nri.cgroups import (
    CgroupError,
    GoneError,
)
from nri.testing.cgroup_files import CgroupFiles
from tests.unit.cgroups.trees import PATH, look


def test_a_removed_cgroup_is_gone_for_every_method(tree: CgroupFiles) -> None:
    cgroup = look(tree)
    cgroup.directory("cpu")
    cgroup.directory("cpuset")
    for point in tree.points.values():
        shutil.rmtree(point + PATH)
    actions = (
        cgroup.cpu_quota,
        cgroup.clear_cpu_quota,
        cgroup.cpus,
        cgroup.effective_cpus,
        lambda: cgroup.set_cpus(frozenset({0})),
    )
    for action in actions:
        with pytest.raises(GoneError, match="does not exist any more"):
            action()


def test_a_knob_that_is_too_long_is_not_read_to_its_end(tree: CgroupFiles) -> None:
    tree.put(PATH, "cpuset.cpus", "0," * 40000)
    with pytest.raises(CgroupError, match=r"cannot read .*/cpuset.cpus: more than 65536 bytes"):
        look(tree).cpus()


def test_a_short_write_is_an_error(tree: CgroupFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda descriptor, data: len(data) - 1)
    with pytest.raises(CgroupError, match=r"cannot write '0-1' to .*: the kernel took only 2 of 3 bytes"):
        look(tree).set_cpus(frozenset({0, 1}))
