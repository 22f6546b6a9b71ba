"""The enclosure itself: real places inside, nothing outside, and no trace of one that could not be made."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.containerd import cgroups
from harness.containerd.enclosure import CommandFailedError, Enclosure

pytestmark = pytest.mark.runtime


@pytest.fixture(autouse=True)
def can_enclose(need: Callable[..., None]) -> None:
    need()


def test_plugins_and_configuration_are_at_their_real_places_inside_only(tmp_path: Path) -> None:
    (tmp_path / "plugin").write_text("#!/bin/sh\n")
    outside = [os.path.exists(path) for path in ("/etc/nri/conf.json", "/opt/nri/bin/plugin")]
    with Enclosure(bin_dir=tmp_path, conf={"version": "0.1"}) as enclosure:
        assert enclosure.run("cat", "/etc/nri/conf.json") == '{"version": "0.1"}'
        assert enclosure.run("ls", "/opt/nri/bin") == "plugin\n"
        assert enclosure.run("cat", "/etc/hostname") == Path("/etc/hostname").read_text()

        (enclosure.etc_nri / "resource.d").mkdir()  # seen at once
        assert enclosure.run("ls", "/etc/nri") == "conf.json\nresource.d\n"

        enclosure.run("touch", f"/run/{enclosure.root.name}")
        assert not os.path.exists(f"/run/{enclosure.root.name}")
        inside = [os.path.exists(path) for path in ("/etc/nri/conf.json", "/opt/nri/bin/plugin")]
        assert inside == outside


def test_a_failing_command_raises_with_what_it_said() -> None:
    with Enclosure() as enclosure, pytest.raises(CommandFailedError, match="exit 3: no") as failed:
        enclosure.run("sh", "-c", "echo no >&2; exit 3")
    assert (failed.value.code, failed.value.stderr) == (3, "no\n")


def test_a_daemon_that_left_its_parents_ends_with_the_enclosure() -> None:
    with Enclosure() as enclosure:
        enclosure.run("sh", "-c", "setsid sleep 1000000 >/dev/null 2>&1 &")
        processes = enclosure.processes()
        assert len(processes) == 2  # the enclosure's first process and sleep
    assert not [pid for pid in processes if os.path.exists(f"/proc/{pid}")]


def test_an_enclosure_that_cannot_be_made_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"no namespaces for the enclosure: mount: .*absent"):
        Enclosure(bin_dir=tmp_path / "absent").__enter__()
    assert list(tmp_path.iterdir()) == []


def test_a_cgroup_with_children_is_removed_from_every_hierarchy() -> None:
    with Enclosure() as enclosure:
        mounts = set(cgroups.hierarchies().values())
        for mount in mounts:
            os.makedirs(f"{mount}{enclosure.cgroup_parent}/pod/container")
        assert len(cgroups.directories(enclosure.cgroup_parent)) == 3 * len(mounts)
    assert cgroups.directories(enclosure.cgroup_parent) == []
