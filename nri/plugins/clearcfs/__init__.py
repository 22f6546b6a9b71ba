"""Clears the CFS quota of latency-sensitive containers.

A CFS quota stops a container for the rest of its period when it has used up its share, also on an idle machine. For
a service whose answer somebody waits for that is latency for nothing.
"""

from __future__ import annotations

from nri import __version__
from nri.plugins import sample as conf_

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.types.v1 import Request

DEFAULT_CLASS = "ls"


class ClearCFS(conf_.SamplePlugin):
    """On ``create`` and ``update``: no CFS quota for a container of one of the classes, and for its pod if asked."""

    type = "clearcfs"
    version = __version__
    description = "Clears the CFS quota of containers whose class is latency-sensitive."
    uses = ("nri.cgroups",)
    conf_schema = conf_.schema(
        {
            "classes": conf_.classes_schema(DEFAULT_CLASS, "classes whose quota is cleared"),
            "pod": {
                "type": ["boolean", "null"],
                "description": "also clear the pod's own quota, which binds its containers as well (default false)",
            },
        },
        "class",
    )

    def act(self, request: Request, conf: dict[str, Any], metadata: dict[str, str]) -> None:
        """Clear what is to be cleared; the metadata says what was, and the quota before."""
        classes = conf_.classes(conf, "classes", DEFAULT_CLASS)
        with_pod = _boolean(conf, "pod")
        if conf_.container_class(request, conf, metadata) in classes:
            _clear(request, conf, metadata, with_pod=with_pod)


def _boolean(conf: dict[str, Any], key: str) -> bool:
    value = conf.get(key)
    if value is None or isinstance(value, bool):
        return bool(value)
    from nri.types.jsonobject import mismatch

    raise mismatch(value, f"conf.{key}", "true or false")


def _clear(request: Request, conf: dict[str, Any], metadata: dict[str, str], *, with_pod: bool) -> None:
    from nri.cgroups import CgroupError

    cgroup = conf_.cgroup(request, conf)
    quota = cgroup.cpu_quota()
    # The pod first: as long as it has a quota, that binds its containers, and on v1 a child's may not exceed it.
    if with_pod and not request.is_sandbox:
        pod = cgroup.parent()
        if pod is None or not pod.is_pod():
            # Its parent may be that of all pods: nothing that one container may lift.
            metadata["pod"] = "none: the cgroup above the container's is not one that the kubelet made for a pod"
        else:
            before = pod.clear_cpu_quota()
            if before.quota_us is not None:
                metadata["pod"] = pod.directory("cpu")
                metadata["podQuota"] = str(before)
    if quota.quota_us is None:
        return
    try:
        cgroup.clear_cpu_quota()
    except CgroupError as error:
        if "podQuota" in metadata:
            done = f"the quota of its pod was cleared before that, it was {metadata['podQuota']}"
            raise type(error)(f"{error}; {done}") from error
        raise
    metadata["cleared"] = cgroup.directory("cpu")
    metadata["quota"] = str(quota)
