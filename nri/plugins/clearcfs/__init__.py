"""Clear the CFS quota of latency-sensitive containers.

A CFS quota stops a container for the rest of its period when it has used up its share, also on an idle machine. For
a service that answers requests, this adds latency without any benefit.
"""

from __future__ import annotations

from nri import __version__
from nri.plugins import sample
from nri.types.table import FLAG, Key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.types.v1 import Request


class ClearCFS(sample.SamplePlugin):
    """The plugin ``clearcfs``: clears a container's quota, and its pod's if asked, on ``create`` and ``update``."""

    type = "clearcfs"
    version = __version__
    description = "Clears the CFS quota of containers whose class is latency-sensitive."
    conf_table = sample.table(
        sample.classes_key("classes", "ls", "classes whose quota is cleared"),
        Key(
            "pod",
            FLAG,
            default=False,
            description="also clear the pod's own quota, which binds its containers as well (default false)",
        ),
        settable=("class",),
    )

    def act(self, request: Request, conf: dict[str, Any], metadata: dict[str, str]) -> None:
        """Clear the quota of a container of one of the classes; the metadata has the old quota."""
        if sample.container_class(request, conf, metadata) not in conf["classes"]:
            return
        from nri.cgroups import CgroupError

        cgroup = sample.cgroup(request, conf)
        # The pod first: its quota limits its containers, and on v1 a child's quota may not exceed it.
        if conf["pod"] and not request.is_sandbox:
            cgroup.cpu_quota()  # raises before the pod is changed
            pod = cgroup.parent()
            if pod is None or not pod.is_pod():
                # The parent may be the cgroup of all pods, whose quota must not change for one container.
                metadata["pod"] = "none: the cgroup above the container's is not one that the kubelet made for a pod"
            else:
                before = pod.clear_cpu_quota()
                if before.quota_us is not None:
                    metadata["pod"] = pod.directory("cpu")
                    metadata["podQuota"] = str(before)
        try:
            quota = cgroup.clear_cpu_quota()
        except CgroupError as error:
            if "podQuota" in metadata:
                done = f"the quota of its pod was cleared before that, it was {metadata['podQuota']}"
                raise type(error)(f"{error}; {done}") from error
            raise
        sample.note_untold(cgroup, metadata)
        if quota.quota_us is not None:
            metadata["cleared"] = cgroup.directory("cpu")
            metadata["quota"] = str(quota)
