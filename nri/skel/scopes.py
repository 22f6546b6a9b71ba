"""Annotations with a scope: one key that is said for a pod or for one of its containers.

The convention is that of the field's v2 plugins: ``KEY/container.NAME`` is stronger than ``KEY/pod``, and that is
stronger than ``KEY`` alone.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.types.v1 import Request

CONTAINER_NAME_KEYS = (
    "io.kubernetes.cri.container-name",  # containerd
    "io.kubernetes.cri-o.ContainerName",  # CRI-O
    "io.kubernetes.container.name",  # CRI-O, the kubelet's own label
)
"""The annotations that tell a container's name, by runtime."""


def scoped(request: Request, key: str) -> tuple[str, str] | None:
    """What is said under ``key`` for the request's container: in the annotations, then in the sandbox's labels.

    Returns the key as it was found, with its scope, and its value; None where nothing is said.
    """
    annotations = request.spec.annotations if request.spec is not None else {}
    scopes = [f"{key}/pod", key]
    if not request.is_sandbox:
        for name_key in CONTAINER_NAME_KEYS:
            if name_key in annotations:
                scopes.insert(0, f"{key}/container.{annotations[name_key]}")
                break
    for said in (annotations, request.labels):
        for scope in scopes:
            if scope in said:
                return scope, said[scope]
    return None
