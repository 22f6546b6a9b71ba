"""Converts v2 messages to v0.1 requests, as the Go adapter does; each function states how it differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.api.convert import namespaces_to_paths, resources_of, resources_to_oci
from nri.types.v1 import Request, Spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nri.api import Container, LinuxContainer, LinuxPodSandbox, PodSandbox


def of_pod(pod: PodSandbox, state: str) -> Request:
    """Return a request about the pod sandbox itself."""
    spec = _spec(pod.linux, pod.annotations)
    return Request(state=state, id=pod.id, sandbox_id=pod.id, pid=pod.pid, spec=spec, labels=pod.labels)


def of_container(pod: PodSandbox, container: Container, state: str) -> Request:
    """Return a request about a container.

    Its annotations are the pod's, overridden by its own: containerd does not copy a pod's annotations to its
    containers, and annotations for containers are usually written at the pod.
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
