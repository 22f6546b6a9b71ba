"""From v2 messages to requests of v0.1: as the Go adapter makes them, but for what is said at each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.api.convert import namespaces_to_paths, resources_of, resources_to_oci
from nri.types.v1 import Request, Spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nri.api import Container, LinuxContainer, LinuxPodSandbox, PodSandbox


def of_pod(pod: PodSandbox, state: str) -> Request:
    """A request about the pod sandbox itself."""
    spec = _spec(pod.linux, pod.annotations)
    return Request(state=state, id=pod.id, sandbox_id=pod.id, pid=pod.pid, spec=spec, labels=pod.labels)


def of_container(pod: PodSandbox, container: Container, state: str) -> Request:
    """A request about a container.

    Its annotations are the pod's, overlaid by its own: containerd does not pass a pod's annotations down, and it is
    there that people say what a pod's containers are.
    """
    spec = _spec(container.linux, {**pod.annotations, **container.annotations})
    sandbox = container.pod_sandbox_id or pod.id
    return Request(state=state, id=container.id, sandbox_id=sandbox, pid=container.pid, spec=spec, labels=pod.labels)


def _spec(linux: LinuxPodSandbox | LinuxContainer, annotations: Mapping[str, str]) -> Spec:
    return Spec(
        resources=resources_to_oci(resources_of(linux)),
        namespaces=namespaces_to_paths(linux.namespaces),
        cgroups_path=linux.cgroups_path,
        annotations=annotations,
    )
