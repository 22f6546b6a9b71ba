"""A request's pod and container: annotations with a scope, whether they count, and the container's cgroup.

A key with a scope is for a pod or for one of its containers. The convention is that of NRI's v2 plugins:
``KEY/container.NAME`` overrides ``KEY/pod``, which overrides ``KEY`` alone. Source: ``GetEffectiveAnnotation`` in
pkg/plugin/annotations.go of containerd/nri.
"""

from __future__ import annotations

from nri.types import DecodeError, gojson
from nri.types.gojson import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from nri.cgroups import Cgroup, Mounts, Systemd
    from nri.types.v1 import Request

SUBGROUP = "run.oci.systemd.subgroup"
"""crun's annotation: crun(1), "EXTENSIONS TO OCI"."""

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
    scopes = [key + suffix for suffix in suffixes(container_name(request))]
    for values in (request.annotations, request.labels):
        for scope in scopes:
            if scope in values:
                return scope, values[scope]
    return None


def why_not_allowed(request: Request, pods: bool | Collection[str], key: str = "namespaces") -> str:
    """Return the reason why the request's pod may not ask for something; "" if it may.

    Where no namespace is known (``nri hook``, docker), only True lets a container ask.

    :param pods: ``nri.skel.fields.namespaces``: any pod, none, or the pods of some namespaces.
    :param key: the key of the plugin conf that says so, for the reason.
    """
    if pods is True:
        return ""
    if not pods:
        return f"{key} is for no pod"
    namespace = request.namespace
    if not namespace:
        return f"{key} needs a namespace, and none is known"
    listed = [pods] if isinstance(pods, str) else pods  # a text would be searched for a part of it
    if namespace in listed:
        return ""
    return f"{key} is not for the namespace {shorten(namespace)}"


def cgroup_of(
    request: Request, *, mounts: Mounts | None = None, systemd: Systemd | None = None
) -> Cgroup:
    """Return the cgroup of the request's container; the parameters are those of ``nri.cgroups.find``.

    :raises CgroupError: when it cannot be found.
    """
    from nri.cgroups import find

    return find(
        request.cgroups_path,
        request.pid,
        request.id,
        mounts=mounts,
        systemd=systemd,
        subgroup=request.annotations.get(SUBGROUP, ""),
    )


def suffixes(container: str | None, scopes: tuple[str, ...] = SCOPES) -> list[str]:
    """Return what follows a key in each of ``scopes``, in their order.

    :param container: the container's name; None for a pod, or if it is not known: then that scope is left out.
    """
    by_scope = {"pod": "/pod", "": ""}
    if container is not None:
        by_scope["container"] = f"/container.{container}"
    return [by_scope[scope] for scope in scopes if scope in by_scope]


def container_name(request: Request) -> str | None:
    """Return the name of the request's container in its pod; None for the sandbox, or if no name is known."""
    if request.is_sandbox:
        return None
    annotations = request.annotations
    for key in CONTAINER_NAME_KEYS:
        if key in annotations:
            return annotations[key]
    return name_in_metadata(annotations)


def name_in_metadata(annotations: Mapping[str, str]) -> str | None:
    """Return the container's name in ``METADATA``; None if it is not there."""
    if METADATA not in annotations:
        return None
    from nri.types.table import Key, open_table, text

    try:
        value: Any = gojson.loads(annotations[METADATA])
    except DecodeError:
        return None
    named = open_table(Key("name", text(1), required=True))
    if not named.accepts(value):
        return None
    return str(value["name"])
