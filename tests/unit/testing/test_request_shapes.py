"""A built request has exactly the keys of the recorded one, at every level, for each runtime and state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nri.adjust import Changes
from nri.authoring.simulated import described
from nri.client.chain import as_shown
from nri.testing import Pod, recorded
from nri.testing.pods import PROFILES
from nri.types.v1 import Request
from nri.v1bridge.requests import Subject, abilities, config_of
from nri.v2.stub import RuntimeInfo

WEB: dict[str, Any] = {
    "labels": {"app": "web", "tier": "front"},
    "annotations": {"qos.class": "ls"},
}
RECORDED = {
    "containerd-1.6": "containerd-1.6.20-native",
    "containerd-1.7": "bridge/containerd-1.7.24",
    "containerd-2.1": "bridge/containerd-2.1.9",
    "podman": "hook/podman",
    "runc": "hook/runc",
    "crun": "hook/runc",
    "nri-runc": "nri-runc",
}
KUBERNETES = [
    ("cgroupfs", 1, "v1-cgroupfs", "sandbox", "create"),
    ("cgroupfs", 1, "v1-cgroupfs", "sandbox", "delete"),
    ("cgroupfs", 1, "v1-cgroupfs", "container", "create"),
    ("cgroupfs", 1, "v1-cgroupfs", "container", "update"),
    ("systemd", 2, "v2-systemd", "sandbox", "create"),
    ("systemd", 2, "v2-systemd", "container", "create"),
    ("systemd", 2, "v2-systemd", "container", "update"),
]


def shape(value: Any, where: str = "") -> set[str]:
    """The paths of all keys and the kinds of their values; the items of an array count together."""
    if isinstance(value, dict):
        inner = [shape(item, f"{where}.{key}") for key, item in value.items()]
        return {f"{where}{{}}", *set().union(*inner)} if inner else {f"{where}{{}}"}
    if isinstance(value, list):
        return {f"{where}[]", *set().union(*[shape(item, f"{where}[]") for item in value])}
    return {f"{where}:{type(value).__name__}"}


def sent(request: Request) -> dict[str, Any]:
    """The request as a plugin reads it."""
    value: dict[str, Any] = json.loads(request.to_json())
    return value


@pytest.mark.parametrize("runtime", RECORDED)
def test_without_a_kubelet(runtime: str) -> None:
    pod = Pod("web", **WEB, runtime=runtime, kubelet=False, cgroup_version=1)
    app = pod.container("app", annotations={"qos.class": "ls"})
    for owner, kind, states in (
        (pod, "pod", pod.profile.pod_states),
        (app, "container", pod.profile.states),
    ):
        for state in states:
            request = sent(owner.request(state, conf={"a": [0, 1]}))
            assert shape(request) == shape(recorded(f"{RECORDED[runtime]}.{kind}-{state}")), (
                kind,
                state,
            )


@pytest.mark.parametrize(("driver", "version", "form", "kind", "state"), KUBERNETES)
def test_under_a_kubelet(driver: str, version: int, form: str, kind: str, state: str) -> None:
    labels = {"app": "web", "set": "qos"}
    before = recorded(f"kubernetes/{form}-{state}-{kind}-burst{'' if state == 'delete' else '-ls'}")
    labels = {key: value for key, value in labels.items() if key in before["labels"]}
    pod = Pod(
        "web",
        labels=labels,
        annotations={"qos.class": "ls"},
        runtime="containerd-1.7",
        cgroup_driver=driver,
        cgroup_version=version,
    )
    request = sent((pod if kind == "sandbox" else pod.container("app")).request(state))
    if kind == "sandbox":  # the recorded one is in the host's network
        before["spec"]["namespaces"] |= {"network": "", "uts": ""}
    assert shape(request) == shape(before)


@pytest.mark.parametrize(
    ("driver", "form"), [("cgroupfs", "v1-cgroupfs"), ("systemd", "v2-systemd")]
)
def test_the_cgroups_path_is_the_kubelets(driver: str, form: str) -> None:
    before = recorded(f"kubernetes/{form}-create-container-burst-ls")
    pod = Pod(cgroup_driver=driver)
    app, uid = pod.container("app"), before["labels"]["io.kubernetes.pod.uid"]
    theirs = before["spec"]["cgroupsPath"].replace("/kubelab", "")
    for old, new in (
        (uid, pod.uid),
        (uid.replace("-", "_"), pod.uid.replace("-", "_")),
        (before["id"], app.id),
    ):
        theirs = theirs.replace(old, new)
    assert app.cgroups_path == theirs


@pytest.mark.parametrize("kubelet", [True, False])
@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
@pytest.mark.parametrize("runtime", ["containerd-1.7", "containerd-2.1", "cri-o-1.36"])
def test_requests_are_those_of_a_bridge_on_the_embedded_runtime(
    runtime: str, driver: str, kubelet: bool
) -> None:
    pod = Pod("web", **WEB, runtime=runtime, cgroup_driver=driver, kubelet=kubelet)
    app = pod.container(
        "app", env=["A=1"], resources={"cpu": {"quota": 50000, "cpus": "0-1"}, "pids": {"limit": 9}}
    )
    sandbox, (container,) = described(pod)
    for state in ("create", "delete"):
        assert Subject(sandbox).request(state).to_value() == pod.request(state).to_value()
    changes = Changes(
        abilities(RuntimeInfo(name="containerd", version="2.1.9")), config_of(sandbox, container)
    )
    subject = Subject(sandbox, container)
    assert as_shown(subject.request("setup"), changes).to_value() == app.request("setup").to_value()
    container.pid = app.pid
    for state in ("create", "update", "delete"):
        assert (
            Subject(sandbox, container).request(state).to_value() == app.request(state).to_value()
        )


@pytest.mark.parametrize("runtime", PROFILES)
def test_every_request_is_one_that_a_plugin_can_read(runtime: str) -> None:
    pod = Pod("web", **WEB, runtime=runtime)
    app = pod.container("app")
    for owner, states in ((pod, pod.profile.pod_states), (app, pod.profile.states)):
        for state in states:
            request = owner.request(state, conf={"a": 1}, late=True)
            assert Request.from_json(request.to_json()) == request
            assert (request.state, request.id, request.late) == (state, owner.id, True)
            assert request.is_sandbox == (owner is pod)


def test_a_containers_annotations_and_labels_are_those_that_its_runtime_shows() -> None:
    said = {"class.example.com": "batch"}
    for runtime, shown in (
        ("containerd-1.6", False),
        ("containerd-2.1", True),
        ("cri-o-1.36", True),
        ("runc", True),
    ):
        request = (
            Pod("web", annotations=said, labels=said, runtime=runtime)
            .container("app")
            .request("create")
        )
        assert request.spec is not None
        assert ("class.example.com" in request.spec.annotations) == shown
        assert (request.labels.get("class.example.com") == "batch") == (runtime != "runc")


def test_only_setup_and_resize_say_that_changes_are_applied() -> None:
    app = Pod().container("app", args=["nginx"], env=["A=1"], mounts=[{"destination": "/data"}])
    states = {
        state: app.request(state) for state in ("setup", "create", "resize", "update", "delete")
    }
    assert {state for state, request in states.items() if request.extensions} == {"setup", "resize"}
    assert {
        state for state, request in states.items() if request.spec and request.spec.process
    } == {"setup"}
    spec = states["setup"].spec
    assert spec is not None
    assert (spec.process["args"], spec.process["env"][-2:]) == (["nginx"], ["HOSTNAME=shop", "A=1"])
    assert spec.mounts[-1] == {"destination": "/data"}


def test_resources_are_the_containers_and_an_update_has_new_ones() -> None:
    app = Pod().container("app", resources={"cpu": {"cpus": "0-1"}, "pids": {"limit": 10}})
    before, after = app.request("create"), app.request("update", resources={"cpu": {"cpus": "2"}})
    assert before.spec is not None and after.spec is not None
    assert before.spec.resources["cpu"] == {"cpus": "0-1"}
    assert after.spec.resources == {**before.spec.resources, "cpu": {"cpus": "2"}}


def test_a_state_that_a_runtime_never_sends_is_refused() -> None:
    updates = "containerd-1.6 sends no 'update' about a container: it sends create, delete"
    with pytest.raises(ValueError, match=updates):
        Pod(runtime="containerd-1.6").container("app").request("update")
    with pytest.raises(ValueError, match="podman sends no 'setup' about a container"):
        Pod(runtime="podman").container("app").request("setup")
    with pytest.raises(
        ValueError, match="podman sends no 'create' about a pod's sandbox: it sends none"
    ):
        Pod(runtime="podman").request("create")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("runtime", "runtime 'x' is not known here: expected one of containerd-1.6, "),
        ("cgroup_driver", "cgroup_driver: found 'x', expected one of 'cgroupfs', 'systemd'"),
        ("cgroup_version", "cgroup_version: found 'x', expected one of 1, 2"),
        ("qos", "qos: found 'x', expected one of "),
    ],
)
def test_a_wrong_option_is_named(option: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Pod(**{option: "x"})  # type: ignore[arg-type]


def test_ids_follow_from_the_names_and_differ() -> None:
    one, same, other = Pod("a"), Pod("a"), Pod("b")
    assert (one.id, one.uid, one.pid) == (same.id, same.uid, same.pid)
    containers = [pod.container(name) for pod in (one, other) for name in ("x", "y")]
    assert len({each.id for each in containers}) == len({each.pid for each in containers}) == 4
    with pytest.raises(ValueError, match="pod 'a' has a container 'x' already"):
        one.container("x")
