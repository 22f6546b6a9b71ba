"""Confine containers to the CPUs that are not reserved for the system.

A container may use the CPUs of its parent cgroup that are not reserved, or all of them if its class may use the
reserved ones. A CPU list in the request (the kubelet's static policy) and an annotation of the workload can narrow
that, not widen it. A list that does not parse, or that leaves no CPU, is ignored.
"""

from __future__ import annotations

from nri import __version__
from nri.plugins import sample
from nri.types.gojson import describe, shorten
from nri.types.table import Key, Rule, array, either, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.cgroups import Cgroup
    from nri.types.v1 import Request

ANNOTATION = "cpus.konfine.nri.io"
"""The annotation, with the usual scopes, that has a container's CPU list."""

MAX_CPU = 8191
"""The highest CPU number, :data:`nri.cgroups.MAX_CPU`."""

_CPU = "0*(819[01]|81[0-8][0-9]|80[0-9]{2}|[1-7][0-9]{3}|[0-9]{1,3})"  # 0 to MAX_CPU


def _why_no_cpu_list(value: str) -> str:
    from nri.cgroups import CpuListError, parse_cpus

    try:
        parse_cpus(value)
    except CpuListError as error:
        return str(error)
    return ""


_CPU_LIST = Rule(
    str,
    lambda value: isinstance(value, str) and not _why_no_cpu_list(value),
    "a CPU list",
    {
        "type": "string",
        "maxLength": 65536,
        "title": f"A list of CPUs from 0 to {MAX_CPU}, such as 0-1,8",
        "pattern": rf"^\s*({_CPU}(-{_CPU})?\s*(,\s*{_CPU}(-{_CPU})?\s*)*)?$",
    },
    explain=_why_no_cpu_list,
)
_CPU_NUMBERS = array(number(0, MAX_CPU, whole=True, expected=f"the number of a CPU, 0 to {MAX_CPU}"))


class Konfine(sample.SamplePlugin):
    """The plugin ``konfine``: takes the reserved CPUs out of a container's cpuset, on ``create`` and ``update``."""

    type = "konfine"
    version = __version__
    description = f"Confines containers to the CPUs that the system does not reserve, or to those of {ANNOTATION}."
    conf_table = sample.table(
        Key(
            "systemReserved",
            either(_CPU_NUMBERS, _CPU_LIST, expected='an array of CPU numbers, or a CPU list like "0-1,8"'),
            default=[],
            description='CPUs kept from containers: [0, 1], or a CPU list "0-1,8" (default none)',
        ),
        sample.classes_key("systemClasses", "system", "classes that may use the reserved CPUs"),
        settable=("class", "cpus"),
    )

    def act(self, request: Request, conf: dict[str, Any], metadata: dict[str, str]) -> None:
        """Confine the container; the metadata names its CPUs."""
        from nri.cgroups import parse_cpus, render_cpus

        listed = conf["systemReserved"]
        reserved = parse_cpus(listed) if isinstance(listed, str) else frozenset(listed)
        if sample.container_class(request, conf, metadata) in conf["systemClasses"]:
            reserved = frozenset()
        annotated = sample.allowed_value(request, conf, "cpus", ANNOTATION, metadata)
        cgroup = sample.cgroup(request, conf)
        cpus = _unreserved(request, cgroup, reserved)
        if (listed := _listed(request)) is not None:
            cpus = _narrowed(cpus, "spec.resources.cpu.cpus", listed, metadata)
        if annotated is not None:
            cpus = _narrowed(cpus, f"the annotation {shorten(annotated[0])}", annotated[1], metadata)
        # On v2 a cgroup without CPUs of its own follows its parent; do not set them where that gives the same CPUs.
        # The effective ones count as well: crun's child may have these CPUs, and the scope above it fewer.
        if cgroup.cpus() not in (cpus, frozenset()) or cgroup.effective_cpus() != cpus:
            cgroup.set_cpus(cpus)
        metadata["cpus"] = render_cpus(cpus)


def _unreserved(request: Request, cgroup: Cgroup, reserved: frozenset[int]) -> frozenset[int]:
    """Return the CPUs of the parent cgroup that are not reserved.

    :raises CgroupError: when there are none: the configuration does not fit the node.
    """
    from nri.cgroups import CgroupError, render_cpus

    parents = cgroup.parent_cpus()
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
    sample.ignore(metadata, where, why)
    return cpus


def _listed(request: Request) -> object:
    """Return the CPU list of the request's resources; None if they have none."""
    resources = request.spec.resources if request.spec is not None else None
    cpu = resources.get("cpu") if isinstance(resources, dict) else None
    listed = cpu.get("cpus") if isinstance(cpu, dict) else None
    return None if listed == "" else listed
