"""Confine containers to the CPUs that are not reserved for the system.

A container may use the CPUs of its parent cgroup that are not reserved, or all of them if its class may use the
reserved ones. A CPU list in the request (the kubelet's static policy) and an annotation of the workload can narrow
that, not widen it. A list that does not parse, or that leaves no CPU, is ignored; but if the kubelet's list has
reserved CPUs only, all others are exclusive CPUs of other containers, and it counts as it is.
"""

from __future__ import annotations

from nri import __version__
from nri.plugins import shared
from nri.skel import Plugin, fields
from nri.types.gojson import describe, shorten
from nri.types.table import array, either, number
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.types.v1 import Request, Result

ANNOTATION = "cpus.konfine.nri.io"
"""The annotation, with the usual scopes, that has a container's CPU list."""

_RESERVED = either(
    array(number(0, fields.MAX_CPU, whole=True, expected=f"the number of a CPU, 0 to {fields.MAX_CPU}")),
    fields.CPU_LIST,
    expected='an array of CPU numbers, or a CPU list like "0-1,8"',
)


def _cpus(value: str | list[int]) -> frozenset[int]:
    if isinstance(value, list):
        return frozenset(value)
    from nri.cgroups import parse_cpus

    return parse_cpus(value)


class KonfineConf(shared.SharedConf):
    """The plugin conf of ``konfine``."""

    system_reserved: frozenset[int] = fields.value(
        _RESERVED, 'CPUs kept from containers: [0, 1], or a CPU list "0-1,8"', default=[], read=_cpus
    )
    system_classes: tuple[str, ...] = shared.classes("classes that may use the reserved CPUs", "system")
    allow: dict[str, Any] = shared.allow("class", "cpus")


class Konfine(Plugin):
    """The plugin ``konfine``: takes the reserved CPUs out of a container's cpuset, on ``create`` and ``update``."""

    type = "konfine"
    version = __version__
    description = f"Confines containers to the CPUs that the system does not reserve, or to those of {ANNOTATION}."
    conf_class = KonfineConf
    resident = True
    acts_on = (State.CREATE, State.UPDATE)
    uses = ("nri.cgroups.systemd_bus",)

    def invoke(self, request: Request, conf: KonfineConf) -> Result:
        """Confine the container; the metadata names its CPUs, and whether it had them already."""
        from nri.cgroups import render_cpus

        metadata: dict[str, str] = {}
        is_system = shared.container_class(request, conf, conf.allow, metadata) in conf.system_classes
        annotated = shared.allowed_value(request, conf.allow, "cpus", ANNOTATION, metadata)
        cgroup = shared.cgroup(request, conf)
        parents = cgroup.parent_cpus()
        cpus = _unreserved(request, parents, frozenset() if is_system else conf.system_reserved)
        if (listed := _listed(request)) is not None:
            if reserved := _kubelets_reserved(request, listed, parents - cpus):
                cpus, metadata["reserved"] = reserved, "the kubelet leaves it no other CPUs"
            else:
                cpus = _narrowed(cpus, "spec.resources.cpu.cpus", listed, metadata)
        if annotated is not None:
            cpus = _narrowed(cpus, f"the annotation {shorten(annotated[0])}", annotated[1], metadata)
        if not cgroup.confine(cpus):
            metadata["skipped"] = "it has these CPUs already"
        shared.note_untold(cgroup, metadata)
        metadata["cpus"] = render_cpus(cpus)
        return request.new_result(self.type, metadata=metadata)


def _kubelets_reserved(request: Request, listed: object, reserved: frozenset[int]) -> frozenset[int]:
    """Return the CPUs of the kubelet's list if they are all reserved; none if others are among them.

    With the static policy, its list for shared containers has all CPUs that no container has exclusively.
    """
    from nri.cgroups import CpuListError, parse_cpus

    try:
        is_kubelets = isinstance(listed, str) and shared.NAMESPACE in request.labels
        cpus = parse_cpus(str(listed)) if is_kubelets else frozenset()
    except CpuListError:
        return frozenset()
    return cpus if cpus <= reserved else frozenset()


def _unreserved(request: Request, parents: frozenset[int], reserved: frozenset[int]) -> frozenset[int]:
    """Return the CPUs of the parent cgroup that are not reserved.

    :raises CgroupError: when there are none: the configuration does not fit the node.
    """
    from nri.cgroups import CgroupError, render_cpus

    if parents <= reserved:
        has, kept = (shorten(render_cpus(cpus), 200) for cpus in (parents, reserved))
        raise CgroupError(
            f"no CPU is left for {shorten(request.id, 80)}: its parent cgroup has {has}, and conf.systemReserved is "
            f"{kept}; expected one that leaves a CPU of the parent's"
        )
    return parents - reserved


def _narrowed(cpus: frozenset[int], where: str, listed: object, metadata: dict[str, str]) -> frozenset[int]:
    """Return the CPUs of *cpus* that a CPU list names; all of them if it is not a CPU list, or names none of them."""
    from nri.cgroups import CpuListError, parse_cpus, render_cpus

    try:
        if not isinstance(listed, str):
            raise CpuListError(f"found {describe(listed)}, expected a CPU list")
        if left := cpus & parse_cpus(listed):
            return left
        why = f"{shorten(repr(listed))} has no CPU of {shorten(render_cpus(cpus))}"
    except CpuListError as error:
        why = str(error)
    shared.ignore(metadata, where, why)
    return cpus


def _listed(request: Request) -> object:
    """Return the CPU list of the request's resources; None if they have none."""
    resources = request.spec.resources if request.spec is not None else None
    cpu = resources.get("cpu") if isinstance(resources, dict) else None
    listed = cpu.get("cpus") if isinstance(cpu, dict) else None
    return None if listed == "" else listed
