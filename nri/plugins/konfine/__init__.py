"""Confines containers to the CPUs that the system does not keep for itself.

A container may use the CPUs of its parent cgroup that are not reserved, or all of them if its class may use the
reserved ones. A CPU list in the request (the kubelet's static policy) and an annotation of the workload can narrow
that, and nothing can widen it. A list that does not parse, or that leaves no CPU, counts as not said: whatever a pod
says, the reserved CPUs are kept.
"""

from __future__ import annotations

from nri import __version__
from nri.plugins import sample as conf_
from nri.types.gojson import describe, shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.cgroups import Cgroup
    from nri.types.v1 import Request

DEFAULT_CLASS = "system"

ANNOTATION = "cpus.konfine.nri.io"
"""The annotation, with the usual scopes, that names a container's CPUs: a CPU list."""

_CPU = "0*(819[01]|81[0-8][0-9]|80[0-9]{2}|[1-7][0-9]{3}|[0-9]{1,3})"  # 0 to nri.cgroups.MAX_CPU


class Konfine(conf_.SamplePlugin):
    """On ``create`` and ``update``: a container's cpuset without the CPUs that are reserved."""

    type = "konfine"
    version = __version__
    description = f"Confines containers to the CPUs that the system does not reserve, or to those of {ANNOTATION}."
    uses = ("nri.cgroups",)
    conf_schema = conf_.schema(
        {
            "systemReserved": {
                "anyOf": [
                    {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 8191}},
                    {
                        "type": "string",
                        "maxLength": 65536,
                        "title": "A list of CPUs from 0 to 8191, such as 0-1,8",
                        "pattern": rf"^\s*({_CPU}(-{_CPU})?\s*(,\s*{_CPU}(-{_CPU})?\s*)*)?$",
                    },
                    {"type": "null"},
                ],
                "description": 'CPUs kept from containers: [0, 1], or a CPU list "0-1,8" (default none)',
            },
            "systemClasses": conf_.classes_schema(DEFAULT_CLASS, "classes that may use the reserved CPUs"),
        },
        "class",
        "cpus",
    )

    def act(self, request: Request, conf: dict[str, Any], metadata: dict[str, str]) -> None:
        """Confine the container; the metadata says to which CPUs."""
        from nri.cgroups import render_cpus

        reserved = _reserved(conf)
        if conf_.container_class(request, conf, metadata) in conf_.classes(conf, "systemClasses", DEFAULT_CLASS):
            reserved = frozenset()
        annotated = conf_.said(request, conf, "cpus", ANNOTATION, metadata)
        cgroup = conf_.cgroup(request, conf)
        cpus = _unreserved(request, cgroup, reserved)
        if (listed := _listed(request)) is not None:
            cpus = _narrowed(cpus, "spec.resources.cpu.cpus", listed, metadata)
        if annotated is not None:
            cpus = _narrowed(cpus, f"the annotation {shorten(annotated[0])}", annotated[1], metadata)
        # On v2 a cgroup without CPUs of its own follows its parent: where it has them all anyway, it shall go on to.
        if (cgroup.cpus() or cgroup.effective_cpus()) != cpus:
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
    """Return those of *cpus* that a CPU list names, or all where it is no list, or names none of them.

    :param metadata: the result's; a list that does not count is added to its ``ignored``.
    """
    from nri.cgroups import CpuListError, parse_cpus, render_cpus

    if not isinstance(listed, str):
        why = f"found {describe(listed)}, expected a CPU list"
    else:
        try:
            left = cpus & parse_cpus(listed)
        except CpuListError as error:
            why = str(error)
        else:
            if left:
                return left
            why = f"{shorten(repr(listed))} has no CPU of {shorten(render_cpus(cpus))}"
    conf_.ignore(metadata, where, why)
    return cpus


def _listed(request: Request) -> object:
    """Return what the request's resources have for a CPU list; None for nothing."""
    resources = request.spec.resources if request.spec is not None else None
    cpu = resources.get("cpu") if isinstance(resources, dict) else None
    listed = cpu.get("cpus") if isinstance(cpu, dict) else None
    return None if listed == "" else listed


def _reserved(conf: dict[str, Any]) -> frozenset[int]:
    from nri.cgroups import MAX_CPU, CpuListError, parse_cpus
    from nri.types.jsonobject import integer, mismatch

    value = conf.get("systemReserved")
    where = "conf.systemReserved"
    if value is None:
        return frozenset()
    if isinstance(value, str):
        try:
            return parse_cpus(value)
        except CpuListError as error:
            raise CpuListError(f"{where}: {error}") from error
    if not isinstance(value, list):
        raise mismatch(value, where, 'an array of CPU numbers, or a CPU list like "0-1,8"')
    for index, cpu in enumerate(value):
        if not 0 <= integer(cpu, f"{where}[{index}]") <= MAX_CPU or cpu is None:
            raise mismatch(cpu, f"{where}[{index}]", f"the number of a CPU, 0 to {MAX_CPU}")
    return frozenset(value)
