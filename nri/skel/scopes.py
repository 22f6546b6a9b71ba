"""Annotations with a scope: one key for a pod or for one of its containers.

The convention is that of NRI's v2 plugins: ``KEY/container.NAME`` overrides ``KEY/pod``, which overrides ``KEY``
alone. Source: ``GetEffectiveAnnotation`` in pkg/plugin/annotations.go of containerd/nri.
"""

from __future__ import annotations

from nri.types import DecodeError, gojson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from nri.types.v1 import Request

SCOPES = ("container", "pod", "")
"""The scopes of a key, the most specific one first: ``KEY/container.NAME``, ``KEY/pod``, ``KEY``."""

CONTAINER_NAME_KEYS = (
    "io.kubernetes.cri.container-name",  # containerd
    "io.kubernetes.cri-o.ContainerName",  # CRI-O
    "io.kubernetes.container.name",  # CRI-O, the kubelet's own label
)
"""The annotations that hold a container's name, by runtime."""

METADATA = "io.kubernetes.cri-o.Metadata"
"""CRI-O's annotation with the CRI's metadata, JSON: without a kubelet (crictl) nothing else has the name."""


def scoped(request: Request, key: str) -> tuple[str, str] | None:
    """Return the value of ``key`` for the request's container: from its annotations, else from the sandbox's labels.

    :returns: the key as it was found, with its scope, and its value; None if no such key exists.
    """
    annotations = request.spec.annotations if request.spec is not None else {}
    scopes = [key + suffix for suffix in suffixes(container_name(request))]
    for values in (annotations, request.labels):
        for scope in scopes:
            if scope in values:
                return scope, values[scope]
    return None


def suffixes(container: str | None, scopes: tuple[str, ...] = SCOPES) -> list[str]:
    """Return what follows a key in each of ``scopes``, in their order.

    :param container: the container's name; None for a pod, or if it is not known: then that scope is left out.
    """
    by_scope = {"container": None if container is None else f"/container.{container}", "pod": "/pod", "": ""}
    return [suffix for scope in scopes if (suffix := by_scope[scope]) is not None]


def container_name(request: Request) -> str | None:
    """Return the name of the request's container in its pod; None for the sandbox, or if no name is known."""
    if request.spec is None or request.is_sandbox:
        return None
    annotations = request.spec.annotations
    for key in CONTAINER_NAME_KEYS:
        if key in annotations:
            return annotations[key]
    return name_in_metadata(annotations)


def name_in_metadata(annotations: Mapping[str, str]) -> str | None:
    """Return the container's name in :data:`METADATA`; None if it is not there."""
    if METADATA not in annotations:
        return None
    try:
        value = gojson.loads(annotations[METADATA])
    except DecodeError:
        return None
    name = value.get("name") if isinstance(value, dict) else None
    return name if isinstance(name, str) and name else None
