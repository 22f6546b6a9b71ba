"""nri cgroup: the directories of a request's container, on nodes of each kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nri.testing import CgroupTree, Container, Pod
from tests.integration.cli.running import Ran, inside


def request(web: Container, folder: Path) -> Path:
    path = folder / "request.json"
    path.write_text(
        json.dumps({"id": web.id, "state": "create", "spec": {"cgroupsPath": web.cgroups_path}})
    )
    return path


def run(tree: CgroupTree, *words: object) -> Ran:
    return inside("cgroup", *map(str, words), "--mountinfo", tree.mountinfo)


@pytest.mark.parametrize(
    ("kind", "driver"), [("v1", "cgroupfs"), ("v2", "systemd"), ("hybrid", "systemd")]
)
def test_the_directories_of_a_container_are_printed(tmp_path: Path, kind: str, driver: str) -> None:
    web = Pod(cgroup_driver=driver).container("web")
    tree = CgroupTree(kind, driver=driver)
    tree.add(web)
    file = request(web, tmp_path)
    directories = run(tree, file, "--json").json
    served = ("cpu", "cpuset", "memory", "io", "pids", *(["hugetlb"] if kind != "v1" else []))
    assert directories == {
        each: tree.directory("web", {"io": "blkio"}.get(each, each) if kind != "v2" else each)
        for each in served
    }
    assert run(tree, file).stdout.splitlines()[1].split() == ["cpu", tree.directory("web")]
    assert (
        run(tree, file, "--controller", "memory").stdout == f"{tree.directory('web', 'memory')}\n"
    )


def test_container_without_a_cgroup_is_an_error(tmp_path: Path) -> None:
    web = Pod().container("web")
    tree = CgroupTree("v1")
    file = request(web, tmp_path)
    for words in ([], ["--controller", "memory"], ["--json"]):
        ran = run(tree, file, *words)
        assert (ran.status, ran.stdout) == (1, "")
        assert web.cgroup in ran.stderr
