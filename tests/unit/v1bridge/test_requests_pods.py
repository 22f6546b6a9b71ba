"""The pods that the bridge remembers, and how they complete a later event."""

from typing import Any

import pytest

from nri.v1bridge import requests as module
from nri.v1bridge.requests import Pods
from nri.v2.api import LinuxResources, PodSandbox

WHOLE: dict[str, Any] = {
    "id": "6efd",
    "pid": 4711,
    "annotations": {"qos.class": "ls", "team": "red"},
    "linux": {
        "cgroups_path": "/kubepods/6efd",
        "cgroup_parent": "/kubepods",
        "namespaces": [{"type": "pid"}, {"type": "network", "path": "/proc/4711/ns/net"}],
        "resources": {"cpu": {"shares": {"value": 2}}},
    },
}


def knowing(*pods: PodSandbox) -> Pods:
    memory = Pods()
    for pod in pods:
        memory.remember(pod)
    return memory


def test_exactly_the_missing_part_is_filled_in() -> None:
    known = PodSandbox(**WHOLE)
    said = PodSandbox(id="6efd", pid=12, annotations={"team": "blue", "new": "", "k": "v"})
    said.linux.cgroups_path, said.linux.cgroup_parent = "/other/6efd", "/other"
    said.linux.namespaces.add(type="ipc", path="/x")
    said.linux.resources.cpu.shares.value = 512
    annotations = {"qos.class": "ls", "team": "blue", "new": "", "k": "v"}
    for missing in ("pid", "cgroups_path", "cgroup_parent", "namespaces", "resources"):
        lacking, expected = PodSandbox(), PodSandbox()
        lacking.CopyFrom(said)
        (lacking if missing == "pid" else lacking.linux).ClearField(missing)
        expected.CopyFrom(lacking)
        expected.annotations.update(annotations)
        part = PodSandbox(**WHOLE).linux
        for name in {"cgroups_path", "cgroup_parent", "namespaces", "resources"} - {missing}:
            part.ClearField(name)
        expected.linux.MergeFrom(part)
        expected.pid = expected.pid or known.pid
        assert knowing(known).complete(lacking) == expected
    own = PodSandbox(id="6efd", name="web", uid="u", labels={"app": "web"}, ips=["10.0.0.1"])
    whole = knowing(PodSandbox(**WHOLE, name="x", labels={"tier": "x"}, runtime_handler="kata")).complete(own)
    assert (whole.name, whole.uid, dict(whole.labels), list(whole.ips)) == ("web", "u", {"app": "web"}, ["10.0.0.1"])
    assert whole.runtime_handler == ""


def test_neither_event_nor_remembered_pod_is_modified() -> None:
    told, said = PodSandbox(**WHOLE), PodSandbox(id="6efd")
    memory = knowing(told)
    whole = memory.complete(said)
    assert whole == told
    whole.pid = 1
    whole.annotations["team"] = "blue"
    whole.linux.resources.cpu.shares.value = 9
    whole.linux.namespaces[0].path = "/x"
    told.pid = 2
    told.annotations["team"] = "green"
    told.linux.cgroups_path = "/gone"
    assert said == PodSandbox(id="6efd")
    assert memory.complete(said) == PodSandbox(**WHOLE)


def test_a_pod_that_is_gone_is_forgotten() -> None:
    memory = knowing(PodSandbox(**WHOLE))
    memory.forget(PodSandbox(id="6efd"))
    memory.forget(PodSandbox(id="6efd"))
    said = PodSandbox(id="6efd", annotations={"a": "b"})
    assert memory.complete(said) is said
    assert len(memory) == 0


def test_synchronization_replaces_all_pods() -> None:
    memory = knowing(PodSandbox(**WHOLE), PodSandbox(id="gone", pid=3))
    memory.replace([PodSandbox(id="6efd", pid=8), PodSandbox(id="new", pid=10)])
    memory.remember(PodSandbox(id="6efd", pid=9))  # the last message counts
    assert len(memory) == 2
    assert memory.complete(PodSandbox(id="6efd")) == PodSandbox(id="6efd", pid=9)
    assert memory.complete(PodSandbox(id="gone")).pid == 0
    assert memory.complete(PodSandbox(id="new")).pid == 10
    memory.replace([])
    assert len(memory) == 0


def test_the_number_of_pods_is_bounded_and_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PODS", 3)
    memory = knowing(*[PodSandbox(id=str(number), pid=number) for number in range(1, 6)])
    assert len(memory) == 3
    assert [memory.complete(PodSandbox(id=str(number))).pid for number in range(1, 6)] == [0, 0, 3, 4, 5]


def resources(shares: int) -> LinuxResources:
    return LinuxResources(cpu={"shares": {"value": shares}})


def test_resized_pod_has_its_latest_resources_once() -> None:
    memory = knowing(PodSandbox(**WHOLE))
    memory.resize(PodSandbox(id="6efd"), resources(7))
    memory.resize(PodSandbox(id="6efd"), resources(8))
    whole = memory.resized(PodSandbox(id="6efd"))
    assert whole.linux.resources == resources(8)
    assert whole.linux.cgroups_path == "/kubepods/6efd"
    assert memory.resized(PodSandbox(id="6efd")) == PodSandbox(**WHOLE)
    assert memory.complete(PodSandbox(id="6efd")) == PodSandbox(**WHOLE)


def test_the_resources_of_a_pod_that_is_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PODS", 2)
    memory = Pods()
    for id_ in ("a", "b", "c"):
        memory.resize(PodSandbox(id=id_), resources(7))
    memory.forget(PodSandbox(id="b"))
    assert [memory.resized(PodSandbox(id=id_)).HasField("linux") for id_ in ("a", "b", "c")] == [False, False, True]
