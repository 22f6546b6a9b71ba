"""Fill a recorded request with the values of a made-up pod or container, so that it has exactly the recorded keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

from nri.testing.recorded_requests import recorded, text_of
from nri.testing.request_profiles import KUBERNETES, SAMPLE_ANNOTATIONS, SAMPLE_LABELS, RequestProfile
from nri.types import gojson

_CRI = "io.kubernetes.cri."
_SANDBOX_SHARE = f"{_CRI}sandbox-"


class ValuesOfPod(Protocol):
    """The values of a :class:`nri.testing.Pod` that its requests have."""

    profile: RequestProfile
    name: str
    namespace: str
    uid: str
    id: str
    pid: int
    runtime: str
    kubelet: bool
    cgroup_version: int
    labels: dict[str, str]
    annotations: dict[str, str]

    @property
    def cgroups_path(self) -> str:
        """The sandbox's."""

    @property
    def containers(self) -> Sequence[ValuesOfContainer]:
        """Its containers."""


class ValuesOfContainer(Protocol):
    """The values of a :class:`nri.testing.Container` that its requests have."""

    name: str
    id: str
    pid: int
    image: str
    annotations: dict[str, str]
    resources: dict[str, Any]
    adjustable: dict[str, Any]

    @property
    def pod(self) -> ValuesOfPod:
        """Its pod."""

    @property
    def cgroups_path(self) -> str:
        """The container's."""


def pod_request(pod: ValuesOfPod, state: str, resources: dict[str, Any]) -> dict[str, Any]:
    """Return the request about a pod's sandbox, as decoded JSON."""
    value = _template(pod, None, state)
    spec = value["spec"]
    spec["annotations"] = _runtime_annotations(pod, None, spec.get("annotations", {}))
    if pod.profile.annotated == "all":
        spec["annotations"] |= pod.annotations
    spec["resources"] = {**spec["resources"], **resources}
    return value


def container_request(container: ValuesOfContainer, state: str, resources: dict[str, Any]) -> dict[str, Any]:
    """Return the request about a container, as decoded JSON."""
    pod = container.pod
    value = _template(pod, container, state)
    spec = value["spec"]
    spec["annotations"] = _runtime_annotations(pod, container, spec.get("annotations", {}))
    if pod.profile.annotated == "all":
        spec["annotations"] |= pod.annotations | container.annotations
    usual = default_resources(pod)
    asked = {**usual, **resources}
    for key, item in asked.items():
        if key in spec["resources"] and item in ({}, None):
            continue
        if key != "devices" or key in spec["resources"]:
            spec["resources"][key] = item
    if pod.cgroup_version == 2:
        spec["namespaces"] = {"cgroup": "", **spec["namespaces"]}
    if state == "setup":
        _adjustable(container, spec)
    return value


def default_resources(pod: ValuesOfPod) -> dict[str, Any]:
    """Return the recorded ``linux.resources`` of a container of this runtime."""
    found: dict[str, Any] = recorded(f"{pod.profile.recordings}.container-create")["spec"]["resources"]
    return found


def resources_of(container: ValuesOfContainer) -> dict[str, Any]:
    """Return the ``linux.resources`` of a container."""
    return {**default_resources(container.pod), **container.resources}


def _template(pod: ValuesOfPod, container: ValuesOfContainer | None, state: str) -> dict[str, Any]:
    """Return a recorded request of this kind with the ids, pids, labels and the cgroupsPath of pod and container."""
    name = f"{pod.profile.recordings}.{'pod' if container is None else 'container'}-{state}"
    before = recorded(name)
    text = text_of(name)
    owner = pod if container is None else container
    if sandbox := before.get("sandboxID"):
        text = text.replace(sandbox, pod.id)
    text = re.sub(r"/proc/[0-9]+/", f"/proc/{pod.pid}/", text.replace(before["id"], owner.id))
    value: dict[str, Any] = gojson.loads(text)  # type: ignore[assignment] # each file has an object
    for key in ("conf", "results"):
        value.pop(key, None)
    value["state"] = state
    value["id"] = owner.id
    if "pid" in value:
        value["pid"] = owner.pid
    value["spec"]["cgroupsPath"] = owner.cgroups_path
    if "labels" in value:
        value["labels"] = _labels(pod, value["labels"])
    return value


def _labels(pod: ValuesOfPod, before: dict[str, str]) -> dict[str, str]:
    of_runtime = {key: item for key, item in before.items() if key not in SAMPLE_LABELS}
    if pod.runtime.startswith("cri-o"):
        of_runtime.pop("io.cri-containerd.kind", None)
    of_kubelet = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid} if pod.kubelet else {}
    return pod.labels | of_runtime | {f"io.kubernetes.pod.{key}": item for key, item in of_kubelet.items()}


def _runtime_annotations(
    pod: ValuesOfPod, container: ValuesOfContainer | None, before: dict[str, str]
) -> dict[str, str]:
    """Return the annotations that come from the runtime and the kubelet, with this pod's values."""
    found = {key: item for key, item in before.items() if key not in SAMPLE_ANNOTATIONS}
    if pod.kubelet and pod.profile.annotated == "all":
        kind = "sandbox" if container is None else "container"
        of_kubelet = recorded(f"{KUBERNETES}-{kind}-burst-ls")["spec"]["annotations"]
        found |= {key: of_kubelet[key] for key in of_kubelet.keys() - found.keys() - SAMPLE_ANNOTATIONS}
        found |= {key: item for key, item in _share(pod).items() if key in found}
    values = _values(pod, container)
    found = {key: values.get(key, item) for key, item in found.items()}
    if pod.runtime.startswith("cri-o"):
        found = {key: item for key, item in found.items() if not key.startswith(_CRI)}
        if container is not None:
            found["io.kubernetes.container.name"] = container.name
    return found


def _values(pod: ValuesOfPod, container: ValuesOfContainer | None) -> dict[str, str]:
    values = {
        f"{_SANDBOX_SHARE}id": pod.id,
        f"{_SANDBOX_SHARE}name": pod.name,
        f"{_SANDBOX_SHARE}namespace": pod.namespace,
        f"{_SANDBOX_SHARE}uid": pod.uid,
        f"{_SANDBOX_SHARE}log-directory": f"/var/log/pods/{pod.namespace}_{pod.name}_{pod.uid}",
    }
    if container is not None:
        values |= {f"{_CRI}container-name": container.name, f"{_CRI}image-name": container.image}
    return values


def share_of_pod(pod: ValuesOfPod) -> dict[str, int]:
    """Return what the kubelet computes for a pod from its containers: ``quota``, ``period``, ``shares``, ``memory``.

    The quota and the memory are 0, for no limit, if a container has none.
    """
    each = [resources_of(container) for container in pod.containers]
    cpus = [resources.get("cpu") or {} for resources in each]
    quotas = [cpu.get("quota", 0) * 100_000 // cpu.get("period", 100_000) for cpu in cpus]
    limits = [(resources.get("memory") or {}).get("limit", 0) for resources in each]
    return {
        "cpu-quota": sum(quotas) if all(quota > 0 for quota in quotas) else 0,
        "cpu-period": 100_000,
        "cpu-shares": max(2, sum(cpu.get("shares", 0) for cpu in cpus)),
        "memory": sum(limits) if all(limit > 0 for limit in limits) else 0,
    }


def _share(pod: ValuesOfPod) -> dict[str, str]:
    return {f"{_SANDBOX_SHARE}{key}": str(number) for key, number in share_of_pod(pod).items()}


def _adjustable(container: ValuesOfContainer, spec: dict[str, Any]) -> None:
    """Put what the test says of the container's process, mounts, hooks and ``linux`` into a request of ``setup``."""
    given = container.adjustable
    if given["args"]:
        spec["process"]["args"] = given["args"]
    env = [line for line in spec["process"]["env"] if not line.startswith("HOSTNAME=")]
    spec["process"]["env"] = [*env, f"HOSTNAME={container.pod.name}", *given["env"]]
    spec["mounts"] = [*spec["mounts"], *given["mounts"]]
    if given["hooks"]:
        spec["hooks"] = given["hooks"]
    spec["linux"] = {**spec["linux"], **given["linux"]}
