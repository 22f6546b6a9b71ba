"""Clear the CFS quota of latency-sensitive containers.

A CFS quota stops a container for the rest of its period when it has used up its share, also on an idle machine. For
a service that answers requests, this adds latency without any benefit.
"""

from __future__ import annotations

from nri import __version__, skel
from nri.errors import NRIError
from nri.plugins import shared
from nri.skel import Plugin, why_not_allowed
from nri.types import fields
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.cgroups import Cgroup
    from nri.types.v1 import Request, Result


class ClearCFSConf(shared.SharedConf):
    """The plugin conf of ``clearcfs``."""

    classes: tuple[str, ...] = shared.classes("classes whose quota is cleared", "ls")
    pod: bool = fields.flag("also clear the quota of the pod's own cgroup", default=False)
    allow: dict[str, Any] = shared.allow("class")


class ClearCFS(Plugin):
    """The plugin ``clearcfs``: clears a container's quota, and its pod's if asked, on ``create`` and ``update``."""

    type = "clearcfs"
    version = __version__
    description = "Clears the CFS quota of containers whose class is latency-sensitive."
    conf_class = ClearCFSConf
    resident = True
    releases = True
    grants = True
    acts_on = (State.CREATE, State.UPDATE)
    uses = ("nri.cgroups.systemd_bus", "nri.cgroups.knob_table")

    def invoke(self, request: Request, conf: ClearCFSConf) -> Result:
        """Clear the quota of a container of one of the classes; the metadata has the old quota, or why it did not."""
        metadata: dict[str, str] = {}
        try:
            self._act(request, conf, metadata)
        except NRIError as error:
            shared.skip_elsewhere(error, metadata)
        return request.new_result(self.type, metadata=metadata)

    def _act(self, request: Request, conf: ClearCFSConf, metadata: dict[str, str]) -> None:
        class_name = shared.container_class(request, conf, conf.allow, metadata)
        if request.release:
            _give_back(request, conf, metadata)
        elif class_name in conf.classes:
            _clear(request, conf, metadata)
        else:
            metadata["skipped"] = shared.not_in(class_name, conf.classes)
            if request.late:
                _give_back(request, conf, metadata)
            else:
                _carry_on(request, metadata)
            if conf.pod and request.state == State.UPDATE and _is_for_another(request, conf):
                cgroup = shared.cgroup(request, conf)
                _clear_pod(cgroup, metadata)
                shared.note_untold(cgroup, metadata)


def _is_for_another(request: Request, conf: ClearCFSConf) -> bool:
    """Return whether the pod names one of the classes for another of its containers.

    An update may have given the pod its quota back, which binds that container as well.
    """
    if why_not_allowed(request, conf.allow["class"], "allow.class"):
        return False
    for key, value in [*request.annotations.items(), *request.labels.items()]:
        is_for_pod = key in (conf.key, f"{conf.key}/pod")
        if is_for_pod or key.startswith(f"{conf.key}/container."):
            if value in conf.classes:
                return True
    return False


def _clear(request: Request, conf: ClearCFSConf, metadata: dict[str, str]) -> None:
    from nri.cgroups import CgroupError

    cgroup = shared.cgroup(request, conf)
    # The pod first: its quota limits its containers, and on v1 a child's quota may not exceed it.
    has_pod = not request.is_sandbox or request.state == State.UPDATE
    if conf.pod and has_pod:
        cgroup.cpu_quota()  # raises before the pod is changed
        _clear_pod(cgroup, metadata)
    try:
        quota = cgroup.clear_cpu_quota()
    except CgroupError as error:
        if "podQuota" in metadata:
            done = f"the quota of its pod was cleared before that, it was {metadata['podQuota']}"
            raise type(error)(f"{error}; {done}") from error
        raise
    shared.note_untold(cgroup, metadata)
    if quota.quota_us is not None:
        metadata["cleared"] = cgroup.directory("cpu")
        metadata["quota"] = str(quota)
    elif "podQuota" not in metadata:
        metadata["skipped"] = "it has no quota"
    _carry_on(request, metadata)


def _carry_on(request: Request, metadata: dict[str, str]) -> None:
    """Keep the quotas that an earlier result has cleared, so that a later request can give them back."""
    for key in ("quota", "podQuota"):
        if key in shared.previous(request):
            metadata.setdefault(key, shared.previous(request)[key])


def _give_back(request: Request, conf: ClearCFSConf, metadata: dict[str, str]) -> None:
    """Restore the quotas that an earlier result has cleared, where there is none still, the pod's first.

    The container's is what the runtime wants now, if the request says so: one without a quota says nothing of it.
    """
    from nri.cgroups import GoneError

    before = dict(shared.previous(request))
    if not {"quota", "podQuota"} & before.keys():
        return
    if not request.is_sandbox:
        before["quota"] = shared.quota_to_restore(request, before.get("quota", ""))
    cgroup = shared.cgroup(request, conf)
    try:
        if request.release or not _is_for_another(request, conf):
            pod = shared.pod_of(cgroup)
            noted = before.get("podQuota", "")
            if pod is not None and shared.restore_quota(pod, noted):
                metadata["podRestored"] = noted
        noted = before.get("quota", "")
        if shared.restore_quota(cgroup, noted):
            metadata["restored"] = noted
    except GoneError as error:
        shared.skip_gone(error, metadata)
    shared.note_untold(cgroup, metadata)


def _clear_pod(cgroup: Cgroup, metadata: dict[str, str]) -> None:
    pod = shared.pod_of(cgroup)
    if pod is None:
        metadata["pod"] = shared.NO_POD
        return
    before = pod.clear_cpu_quota()
    if before.quota_us is not None:
        metadata["pod"] = pod.directory("cpu")
        metadata["podQuota"] = str(before)


def main() -> None:
    """Run the plugin as this process."""
    skel.main(ClearCFS())
