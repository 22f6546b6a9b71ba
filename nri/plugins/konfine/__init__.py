"""Confines containers to the CPUs that the system does not keep for itself.

What a container may use is the CPUs of its parent cgroup; of these, those that somebody chose for it (the kubelet's
static policy in the request, and an annotation of the workload, which can only narrow); of these, those that the
system does not reserve, unless the container's class is one that may use them.
"""

from __future__ import annotations

from nri import __version__
from nri.plugins import conf as conf_
from nri.types.gojson import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.cgroups import Cgroup
    from nri.types.v1 import Request

DEFAULT_CLASS = "system"

ANNOTATION = "cpus.konfine.nri.io"
"""The annotation, with the usual scopes, that names a container's CPUs: a CPU list."""


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
                        "pattern": r"^\s*([0-9]+(-[0-9]+)?\s*(,\s*[0-9]+(-[0-9]+)?\s*)*)?$",
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
        chosen = _chosen(request, conf_.said(request, conf, "cpus", ANNOTATION, metadata))
        cgroup = conf_.cgroup(request, conf)
        cpus = _allowed(request, cgroup, chosen, reserved)
        # On v2 a cgroup without CPUs of its own follows its parent: where it has them all anyway, it shall go on to.
        if (cgroup.cpus() or cgroup.effective_cpus()) != cpus:
            cgroup.set_cpus(cpus)
        metadata["cpus"] = render_cpus(cpus)


def _allowed(
    request: Request, cgroup: Cgroup, chosen: dict[str, frozenset[int]], reserved: frozenset[int]
) -> frozenset[int]:
    """The CPUs for the container.

    :raises CgroupError: when there are none, with every set that had a part in it.
    """
    from nri.cgroups import CgroupError, render_cpus

    sets = {"its parent cgroup": cgroup.parent_cpus()} | chosen
    cpus = frozenset.intersection(*sets.values()) - reserved
    if not cpus:
        has = " and ".join([f"{who} has {shorten(render_cpus(those), 200) or 'none'}" for who, those in sets.items()])
        kept = shorten(render_cpus(reserved), 200) or "none"
        raise CgroupError(
            f"no CPU is left for {shorten(request.id, 80)}: {has}, systemReserved is {kept}; "
            f"expected a CPU that is in each of the former and not in the latter"
        )
    return cpus


def _reserved(conf: dict[str, Any]) -> frozenset[int]:
    from nri.cgroups import MAX_CPU
    from nri.types.message import integer, mismatch

    value = conf.get("systemReserved")
    where = "conf.systemReserved"
    if value is None:
        return frozenset()
    if isinstance(value, str):
        return _parse(where, value)
    if not isinstance(value, list):
        raise mismatch(value, where, 'an array of CPU numbers, or a CPU list like "0-1,8"')
    for index, cpu in enumerate(value):
        if not 0 <= integer(cpu, f"{where}[{index}]") <= MAX_CPU or cpu is None:
            raise mismatch(cpu, f"{where}[{index}]", f"the number of a CPU, 0 to {MAX_CPU}")
    return frozenset(value)


def _chosen(request: Request, annotated: tuple[str, str] | None) -> dict[str, frozenset[int]]:
    """The sets of CPUs that somebody chose for the container, by who did.

    :param annotated: the annotation that does, if it may.
    """
    chosen = {}
    resources = request.spec.resources if request.spec is not None else None
    cpu = resources.get("cpu") if isinstance(resources, dict) else None
    listed = cpu.get("cpus") if isinstance(cpu, dict) else None
    if listed:
        where = "spec.resources.cpu.cpus"
        if not isinstance(listed, str):
            from nri.types.message import mismatch

            raise mismatch(listed, where, "a CPU list")
        chosen[where] = _parse(where, listed)
    if annotated is not None:
        where = f"the annotation {shorten(annotated[0])}"
        chosen[where] = _parse(where, annotated[1])
    return chosen


def _parse(where: str, cpu_list: str) -> frozenset[int]:
    from nri.cgroups import CpuListError, parse_cpus

    try:
        return parse_cpus(cpu_list)
    except CpuListError as error:
        raise CpuListError(f"{where}: {error}") from error
