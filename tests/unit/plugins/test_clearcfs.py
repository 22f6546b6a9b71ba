"""clearcfs: which quotas it clears, what it says about it, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest

from harness.fake_systemd import FakeSystemd
from nri.cgroups import CgroupError, knobs, systemd_bus
from nri.plugins.clearcfs import ClearCFS
from nri.testing import CgroupTree, Pod, invoke
from tests.unit.plugins.running import CONTAINER, KINDS, POD, PluginNode

LS = {"qos.class": "ls"}


@pytest.fixture(params=KINDS)
def node(request: pytest.FixtureRequest) -> PluginNode:
    """A node of each kind, where pod and container have a quota."""
    return limited(PluginNode(ClearCFS(), request.param))


@pytest.fixture
def v2() -> PluginNode:
    return limited(PluginNode(ClearCFS()))


def limited(node: PluginNode) -> PluginNode:
    node.limit(CONTAINER, 50_000)
    node.limit(POD, 200_000, 50_000)
    return node


def cpu(node: PluginNode, path: str) -> str:
    return node.tree.directory(path)


# What is cleared


def test_quota_of_the_class_is_cleared_and_reported(node: PluginNode) -> None:
    assert node.fine(annotations=LS) == {"cleared": cpu(node, CONTAINER), "quota": "50000/100000"}
    assert not node.is_limited(CONTAINER)
    assert node.is_limited(POD)


def test_other_classes_keep_their_quota_and_the_metadata_has_the_reason(node: PluginNode) -> None:
    for said, what in (
        ("be", "class=be"),
        ("", "class=''"),
        ("LS", "class=LS"),
        (None, "no class"),
    ):
        noted = {"x": "ls"} if said is None else {"qos.class": said}
        assert node.fine(annotations=noted) == {"skipped": f"{what}, not in [ls]"}
        assert node.fine({"classes": ["a", "b"]}, annotations=noted) == {
            "skipped": f"{what}, not in [a, b]"
        }
        assert node.is_limited(CONTAINER)


def test_pod_is_cleared_if_conf_says_so_and_nothing_twice(node: PluginNode) -> None:
    # A sandbox's own.
    assert sorted(node.fine({"pod": True}, annotations=LS, id="pod")) == ["cleared", "quota"]
    assert node.is_limited(POD)
    limited(node)
    container = {"cleared": cpu(node, CONTAINER), "quota": "50000/100000"}
    pod = {"pod": cpu(node, POD), "podQuota": "200000/50000"}
    assert node.fine({"pod": True}, annotations=LS) == pod | container
    assert not node.is_limited(POD)
    assert not node.is_limited(CONTAINER)
    node.limit(POD, 200_000, 50_000)
    assert node.fine({"pod": True}, annotations=LS) == pod
    for state in ("create", "update"):
        assert node.fine({"pod": True}, annotations=LS, state=state) == {
            "skipped": "it has no quota"
        }


@pytest.mark.parametrize("where", ["annotations", "labels"])
def test_update_of_another_container_of_a_pod_with_the_class_clears_the_pod(
    node: PluginNode, where: str
) -> None:
    other = {"qos.class/container.batch": "batch", "io.kubernetes.cri.container-name": "batch"}
    given = (
        {"annotations": LS | other}
        if where == "annotations"
        else {"annotations": other, "labels": LS}
    )
    metadata = node.fine({"pod": True}, state="update", **given)
    assert metadata["skipped"].startswith("class=batch, not in [ls]")
    assert metadata["podQuota"]
    assert not node.is_limited(POD)
    assert node.is_limited(CONTAINER)
    node.limit(POD, 10_000)
    node.fine({"pod": True, "allow": {"class": ["other"]}}, state="update", **given)
    assert node.is_limited(POD)


def test_parent_that_is_no_pod_keeps_its_quota(node: PluginNode) -> None:
    for path in ("/redis", "/kubepods/redis", "/kubepods/burstable/redis", "/user/podabc/redis"):
        node.make(path)
        node.limit(path, 10_000)
        metadata = node.fine({"pod": True}, path=path, annotations=LS)
        assert metadata["pod"].startswith(
            "none: the cgroup above the container's is not one that the kubelet made"
        )
        assert not node.is_limited(path)
        assert node.is_limited(POD)


@pytest.mark.parametrize("kind", KINDS)
def test_with_the_systemd_driver(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemd_bus, "TIMEOUT", 60)
    shop = Pod(annotations=LS, cgroup_driver="systemd")
    web = shop.container("web", resources={"cpu": {"quota": 30_000, "period": 100_000}})
    shop.container("other", resources={"cpu": {"quota": 10_000, "period": 100_000}})
    with (
        CgroupTree(kind, driver="systemd") as tree,
        FakeSystemd(Path(tree.run), shop.cgroup, web.cgroup) as systemd,
    ):
        tree.add(shop)
        for unit, quota in ((shop.cgroup, 400_000), (web.cgroup, 300_000)):
            systemd.add_unit(unit, quota)
        cleared = {
            "pod": tree.directory("pod"),
            "podQuota": "40000/100000",
            "cleared": tree.directory("web"),
            "quota": "30000/100000",
        }
        result = invoke(ClearCFS(), web.request("create", conf={"pod": True}))
        assert (result.error, result.metadata) == ("", cleared)
        assert systemd.calls == ["GetUnitByControlGroup", "Get", "SetProperties"] * 2
        tree.add(shop)
        systemd.fault = "closed"
        metadata = invoke(ClearCFS(), web.request("create", conf={"pod": True})).metadata
        assert metadata.pop("systemd").startswith(
            "not told: systemd did not answer GetUnitByControlGroup at "
        )
        assert metadata == cleared


def test_hostile_class_is_no_class_and_its_message_is_short(v2: PluginNode) -> None:
    for value in ("ls ", "ls\n", "l\0s", "\x1b[2J", "ls" * 100_000, "\ud800", "*", "['ls']"):
        ((key, why),) = v2.fine(annotations={"qos.class": value}).items()
        assert (key, why.isprintable(), len(why) < 300) == ("skipped", True, True)
    why = v2.fine({"classes": ["x" * 50] * 1000}, annotations=LS)["skipped"]
    assert why.startswith("class=ls, not in [xxx")
    assert len(why) < 300


# What it refuses


def test_missing_container_is_an_error_and_the_pod_is_unchanged(node: PluginNode) -> None:
    error = node.error({"pod": True}, path=f"{POD}/gone", annotations=LS)
    assert error.startswith(f"no cpu cgroup for cgroupsPath '{POD}/gone': ")
    assert error.endswith(f"{POD}/gone does not exist")
    assert node.is_limited(POD)


def test_hostile_or_missing_cgroups_path_is_refused(v2: PluginNode) -> None:
    path = "/kubepods/../../etc"
    assert "holds '..': it could leave the cgroup tree" in v2.error(path=path, annotations=LS)
    assert v2.fine(path=path, annotations=LS, state="delete") == {}
    assert v2.fine(spec=None) == {"skipped": "no class, not in [ls]"}
    assert "no cgroupsPath was given, and no pid was given" in v2.error(spec=None, labels=LS)


def test_failed_second_write_reports_the_first(
    node: PluginNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_write = knobs.write_all

    def write(directory: str, *arguments: Any) -> None:
        if directory.endswith("/redis"):
            raise CgroupError(f"cannot write to {directory}")
        real_write(directory, *arguments)

    monkeypatch.setattr(knobs, "write_all", write)
    assert node.error({"pod": True}, annotations=LS) == (
        f"cannot write to {cpu(node, CONTAINER)}; the quota of its pod was cleared before that, it was 200000/50000"
    )
    assert not node.is_limited(POD)
    assert node.is_limited(CONTAINER)
