"""v0.1 requests from v2 messages: field by field what the Go adapter sent, as recorded on real containerds."""

import json
from typing import Any

import pytest

from nri.testing import recorded, recordings
from nri.types.v1 import Request, State
from nri.v1bridge import requests as module
from nri.v1bridge.requests import Pods, Subject
from nri.v2 import api
from nri.v2.api import LinuxResources, PodSandbox

GOLDEN = recordings("*adapter*")


def is_of_a_pod(request: dict[str, Any]) -> bool:
    return bool(request["id"] == request["sandboxID"])


def linux(spec: dict[str, Any]) -> dict[str, Any]:
    """The ``linux`` that the runtime must have sent for ``spec`` to come out."""
    said: dict[str, Any] = {"cgroups_path": spec.get("cgroupsPath", "")}
    said["namespaces"] = [
        {"type": kind, "path": path} for kind, path in spec.get("namespaces", {}).items()
    ]
    oci = spec["resources"]
    if oci is not None:
        assert set(oci) <= {"devices", "memory", "cpu"}, "the golden requests have more now"
        said["resources"] = {
            "devices": oci.get("devices", []),
            "memory": {key: {"value": value} for key, value in oci["memory"].items()},
            "cpu": {key: {"value": value} for key, value in oci["cpu"].items()},
        }
    return said


def messages(request: dict[str, Any]) -> tuple[api.PodSandbox, api.Container | None]:
    """The pod, and the container if the request has one, that the runtime must have sent, as they arrive."""
    spec = request["spec"]
    told = {
        "pid": request.get("pid", 0),
        "annotations": spec.get("annotations", {}),
        "linux": linux(spec),
    }
    labels = request.get("labels", {})
    if is_of_a_pod(request):
        pod = api.PodSandbox(id=request["id"], labels=labels, **told)
        return api.PodSandbox.FromString(pod.SerializeToString()), None
    pod = api.PodSandbox(id=request["sandboxID"], labels=labels)
    container = api.Container(id=request["id"], pod_sandbox_id=request["sandboxID"], **told)
    return pod, api.Container.FromString(container.SerializeToString())


def made(request: dict[str, Any], pod: api.PodSandbox, container: api.Container | None) -> Request:
    state = State(request["state"])
    return Subject(pod, container).request(state)


def sent(request: Request) -> dict[str, Any]:
    """The request as a plugin reads it, without its conf."""
    value: dict[str, Any] = json.loads(request.to_json())
    return value


def without_conf(request: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in request.items() if key != "conf"}


@pytest.mark.parametrize("name", GOLDEN)
def test_request_and_the_order_of_its_keys_are_the_adapters(name: str) -> None:
    request = recorded(name)
    pod, container = messages(request)
    before = [
        message.SerializeToString(deterministic=True) for message in (pod, container) if message
    ]
    ours = sent(made(request, pod, container))
    assert [
        message.SerializeToString(deterministic=True) for message in (pod, container) if message
    ] == before
    assert ours == without_conf(request)
    assert list(ours) == list(without_conf(request))
    assert list(ours["spec"]) == list(request["spec"])
    if request["spec"]["resources"] is not None:
        assert list(ours["spec"]["resources"]) == list(request["spec"]["resources"])


@pytest.mark.parametrize("release", ["1.7.24", "2.1.9"])
def test_a_pods_end_has_all_that_its_beginning_had(release: str) -> None:
    begun = recorded(f"containerd-{release}-adapter.pod-create")
    ended = recorded(f"containerd-{release}-adapter.pod-delete")
    pods = Pods()
    pods.remember(messages(begun)[0])
    request = sent(Subject(pods.complete(messages(ended)[0])).request(State.DELETE))
    assert request == without_conf(begun) | {"state": "delete"}


@pytest.mark.parametrize("release", ["1.7.24", "2.1.9"])
def test_container_has_its_pods_annotations_below_its_own(release: str) -> None:
    of_pod = recorded(f"containerd-{release}-adapter.pod-create")
    of_container = recorded(f"containerd-{release}-adapter.container-create")
    pod, _ = messages(of_pod)
    _, container = messages(of_container)
    assert container is not None
    request = sent(Subject(pod, container).request(State.CREATE))
    expected = without_conf(of_container)
    theirs, own = of_pod["spec"]["annotations"], of_container["spec"]["annotations"]
    expected["spec"] = expected["spec"] | {"annotations": theirs | own}
    expected["ownAnnotations"] = sorted(own.keys() - theirs.keys())
    assert request == expected
    assert request["spec"]["annotations"]["io.kubernetes.cri.container-type"] == "container"
    assert "io.kubernetes.cri.sandbox-log-directory" in request["spec"]["annotations"]


@pytest.mark.parametrize(
    ("of_pod", "own"),
    [
        ({"a": "1", "b": "2"}, ("c",)),
        ({"a": "2"}, ("b", "c")),  # the value is no matter: the pod states it
        ({}, ()),  # its annotations are not known
    ],
)
def test_own_annotations_are_those_that_the_pod_does_not_state(
    of_pod: dict[str, str], own: tuple[str, ...]
) -> None:
    pod = api.PodSandbox(id="6efd", annotations=of_pod)
    container = api.Container(id="1f92", annotations={"c": "3", "a": "1", "b": "2"})
    assert Subject(pod, container).request(State.CREATE).own_annotations == own
    assert Subject(pod).request(State.CREATE).own_annotations == ()


def test_messages_with_little_make_requests_with_little() -> None:
    pod = api.PodSandbox(id="6efd", pid=4711)
    little = {
        "version": "0.1",
        "state": "delete",
        "id": "6efd",
        "sandboxID": "6efd",
        "spec": {"resources": None},
    }
    of_pod = Subject(api.PodSandbox(id="6efd")).request(State.DELETE)
    assert (sent(of_pod), of_pod.is_sandbox, Subject(pod).request(State.CREATE).pid) == (
        little,
        True,
        4711,
    )
    no_resources, resources = api.LinuxContainer(), api.LinuxContainer(resources={})
    for container, expected in (
        (api.Container(id="1f92", name="app"), None),  # it has no process
        (api.Container(id="1f92", linux=no_resources), None),
        (api.Container(id="1f92", linux=resources), {"memory": {}, "cpu": {}}),
    ):
        request = Subject(pod, container).request(State.DELETE)
        assert sent(request) == little | {"id": "1f92", "spec": {"resources": expected}}
        assert not request.is_sandbox
    container = api.Container(id="1f92", pod_sandbox_id="0000", pid=2**32 - 1)
    request = Subject(pod, container).request(State.CREATE)
    assert (request.pid, request.sandbox_id) == (2**32 - 1, "0000")


# The pods that the bridge remembers, and how they complete a later event

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


def resources(shares: int) -> LinuxResources:
    return LinuxResources(cpu={"shares": {"value": shares}})


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
    whole = knowing(
        PodSandbox(**WHOLE, name="x", labels={"tier": "x"}, runtime_handler="kata")
    ).complete(own)
    assert (whole.name, whole.uid, dict(whole.labels), list(whole.ips)) == (
        "web",
        "u",
        {"app": "web"},
        ["10.0.0.1"],
    )
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
    memory.resize(PodSandbox(id="6efd"), resources(7))
    memory.forget(PodSandbox(id="6efd"))
    memory.forget(PodSandbox(id="6efd"))
    pod = PodSandbox(id="6efd", annotations={"a": "b"})
    assert memory.complete(pod) is memory.resized(pod) is pod
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


def test_the_number_of_pods_is_bounded_and_the_oldest_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_PODS", 3)
    memory = knowing(*[PodSandbox(id=str(number), pid=number) for number in range(1, 6)])
    assert len(memory) == 3
    assert [memory.complete(PodSandbox(id=str(number))).pid for number in range(1, 6)] == [
        0,
        0,
        3,
        4,
        5,
    ]
    for number in range(6, 10):
        memory.resize(PodSandbox(id=str(number)), resources(number))
    assert [memory.resized(PodSandbox(id=id_)).HasField("linux") for id_ in "6789"] == [
        False,
        True,
        True,
        True,
    ]
