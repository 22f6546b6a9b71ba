"""Confine containers to the CPUs that are not reserved for the system.

A container may use the CPUs of its parent cgroup that are not reserved, or all of them if its class may use the
reserved ones. A CPU list in the request (the kubelet's static policy) and an annotation of the workload can narrow
that, not widen it. A list that does not parse, or that leaves no CPU, is ignored; but if the kubelet's list has
reserved CPUs only, all others are exclusive CPUs of other containers, and it counts as it is.

With ``allow.exclusive``, ``exclusive.counted`` or ``pools`` in its conf it gives CPUs to one container alone or to a
pool of containers (``.giving``). All other containers lose these CPUs; a file lists the CPUs of each container
(``.record``).
"""

from __future__ import annotations

from nri import __version__, skel
from nri.errors import NRIError
from nri.plugins import shared
from nri.skel import Plugin, Refusal, fields
from nri.types.conf import Conf
from nri.types.gojson import describe, shorten
from nri.types.table import Key, Table, array, either, number, text
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.types.v1 import Request, Result

    Set = frozenset[int]

ANNOTATION = "cpus.konfine.nri.io"
"""The annotation, with the usual scopes, that has a container's CPU list."""

EXCLUSIVE = "exclusive.konfine.nri.io"
"""The annotation, with the usual scopes, that has the number of CPUs that a container wants for itself: ``4``, or
``4+shared`` for these and the shared ones."""

COUNTED = "counted.konfine.nri.io"
"""The annotation of a container with the CPU list that ``nri device-plugin`` has allocated to it. The kubelet sets it
for the container; a pod that states it itself gets nothing by it."""

RESOURCE = "nri.io/exclusive-cpu"
"""The resource that containers ask the scheduler for, to have CPUs alone."""

_RESERVED = either(
    array(
        number(
            0, fields.MAX_CPU, whole=True, expected=f"the number of a CPU, 0 to {fields.MAX_CPU}"
        )
    ),
    fields.CPU_LIST,
    expected='an array of CPU numbers, or a CPU list like "0-1,8"',
)


def _cpus(value: str | list[int]) -> frozenset[int]:
    if isinstance(value, list):
        return frozenset(value)
    from nri.cgroups import parse_cpus

    return parse_cpus(value)


class ExclusiveConf(Conf):
    """How CPUs are given to one container alone."""

    counted: bool = fields.flag(
        f"containers have the CPUs alone that they request as {RESOURCE}", default=False
    )
    whole_cores: bool = fields.flag("only whole cores; another number is refused", default=False)
    spread: bool = fields.flag(
        "a set may have CPUs of several NUMA nodes, near ones first", default=False
    )
    memory: bool = fields.flag(
        "also set cpuset.mems: the nodes of its CPUs, or the nearest with memory", default=False
    )
    min_shared: int = fields.integer("CPUs that always stay shared", 1, fields.MAX_CPU, default=1)


class PoolConf(Conf):
    """A pool of CPUs for some containers; all conditions that are given must hold."""

    name: str = fields.value(
        text(
            1,
            63,
            matches=lambda name: "/" not in name,
            pattern="^[^/]*$",
            expected="a name without '/'",
        ),
        "its name in the metadata and in the record",
    )
    cpus: frozenset[int] | None = fields.cpus(
        "its CPUs; without them it grows with the requests", default=None
    )
    min: int = fields.integer("CPUs that it has at least if it grows", 1, fields.MAX_CPU, default=1)
    max: int = fields.integer(
        "CPUs that it has at most if it grows", 1, fields.MAX_CPU, default=fields.MAX_CPU
    )
    classes: tuple[str, ...] = shared.classes("for containers of these classes")
    namespaces: tuple[str, ...] = fields.array(
        fields.text(), "for pods of these namespaces", default=[]
    )
    labels: dict[str, Any] = fields.mapping(
        fields.text(), "for pods with all of these labels", default={}
    )
    annotations: dict[str, Any] = fields.mapping(
        fields.text(), "for pods with all of these annotations", default={}
    )


_ALLOW = Table(
    Key("class", fields.NAMESPACES, default=True),
    Key("cpus", fields.NAMESPACES, default=True),
    Key("exclusive", fields.NAMESPACES, default=False),
    Key("pools", fields.NAMESPACES, default=False),
    nulls=True,
)


class KonfineConf(shared.SharedConf):
    """The plugin conf of ``konfine``."""

    system_reserved: frozenset[int] = fields.value(
        _RESERVED, "CPUs kept from containers", default=[], read=_cpus
    )
    system_classes: tuple[str, ...] = shared.classes(
        "classes that may use the reserved CPUs", "system"
    )
    exclusive: ExclusiveConf = fields.section(
        ExclusiveConf, "CPUs for one container alone", default={}
    )
    pools: tuple[PoolConf, ...] = fields.array(
        PoolConf, "pools of CPUs; a container is in the first one whose conditions hold", default=[]
    )
    allow: dict[str, Any] = fields.value(
        _ALLOW,
        "pods that may set their class or cpus (true, any, is the default), ask for exclusive CPUs, or be in a pool "
        "by labels or annotations (false, none, is the default), for each: an array of namespaces, true, or false",
        default={},
        read=_ALLOW.read,
    )
    sys: str = fields.text("where sysfs is mounted", default="/sys")

    @property
    def gives_out(self) -> bool:
        """True if the conf allows exclusive CPUs, or has pools."""
        return bool(self.pools or self.exclusive.counted or self.allow["exclusive"])

    def fixed_pools(self, online: Set) -> dict[str, Set]:
        """Return the pools that name their CPUs, with those that are online."""
        return {pool.name: pool.cpus & online for pool in self.pools if pool.cpus is not None}


class Konfine(Plugin):
    """The plugin ``konfine``: takes the reserved CPUs out of a container's cpuset, and gives out CPUs."""

    type = "konfine"
    version = __version__
    description = f"""Confines containers to the CPUs that the system does not reserve, or to those of {ANNOTATION};
gives CPUs to one container alone ({EXCLUSIVE}), or to a pool."""
    conf_class = KonfineConf
    resident = True
    releases = True
    create_suffices = True
    acts_on = (State.SETUP, State.CREATE, State.UPDATE, State.DELETE)
    uses = ("nri.cgroups.systemd_bus", "nri.plugins.konfine.giving")

    def invoke(self, request: Request, conf: KonfineConf) -> Result:
        """Confine the container; the metadata names its CPUs, and whether it had them already."""
        metadata: dict[str, str] = {}
        changes: dict[str, Any] = {}
        try:
            changes = self._act(request, conf, metadata)
        except NRIError as error:
            shared.skip_elsewhere(error, metadata)
            if asked := self._asked(request, conf):
                raise Refusal(f"{shorten(asked, 120)}: {error}") from None
        return request.new_result(self.type, metadata=metadata, **changes)

    def _act(self, request: Request, conf: KonfineConf, metadata: dict[str, str]) -> dict[str, Any]:
        """Do what the request asks for; return the changes of the result."""
        if request.release:
            self._release(request, conf, metadata)
        elif conf.gives_out:
            from nri.plugins.konfine.giving import give_out

            return give_out(request, conf, metadata)
        elif request.state in (State.CREATE, State.UPDATE):
            self._confine(request, conf, metadata)
        return {}

    def _release(self, request: Request, conf: KonfineConf, metadata: dict[str, str]) -> None:
        from nri.cgroups import GoneError
        from nri.plugins.konfine.giving import give_back

        try:
            give_back(request, conf, metadata)
        except GoneError as error:
            shared.skip_gone(error, metadata)

    def _confine(self, request: Request, conf: KonfineConf, metadata: dict[str, str]) -> None:
        from nri.cgroups import render_cpus
        from nri.cgroups.topology import isolated_cpus, online_cpus

        if {"exclusive", "pool"} & shared.previous(request).keys():
            # The conf has given CPUs out before.
            from nri.plugins.konfine.giving import forget

            forget(request, conf)
        cgroup = shared.cgroup(request, conf)
        note_absent(conf, online_cpus(conf.sys), metadata)
        cpus = allowed(request, conf, cgroup.parent_cpus(), isolated_cpus(conf.sys), metadata)
        if not cgroup.confine(cpus):
            metadata["skipped"] = "it has these CPUs already"
        shared.note_untold(cgroup, metadata)
        metadata["cpus"] = render_cpus(cpus)

    def _asked(self, request: Request, conf: KonfineConf) -> str:
        """Return what a pod asks for CPUs with, "" if it asks for none."""
        if request.release:
            return ""
        from nri.plugins.konfine.asked import wish_of

        if asker := wish_of(request, conf, {}).asker:
            return asker
        named = shared.allowed_value(request, conf.allow, "cpus", ANNOTATION, {})
        return "" if named is None else named[0]

    def notes(self, conf: KonfineConf) -> list[str]:
        """Return a note on CPUs that the machine lacks: nothing is kept there."""
        from nri.cgroups import CgroupError, render_cpus
        from nri.cgroups.topology import online_cpus

        try:
            online = online_cpus(conf.sys)
        except CgroupError:  # no sysfs
            return []
        missing = absent(conf, online)
        if not missing:
            return []
        names = f"conf names CPUs {render_cpus(missing)}, which are not online: this machine has"
        return [f"{self.type}: {names} {render_cpus(online)}"]


def absent(conf: KonfineConf, online: frozenset[int]) -> frozenset[int]:
    """Return the CPUs that the conf names and the machine has not, or not now."""
    return (
        conf.system_reserved.union(*[pool.cpus for pool in conf.pools if pool.cpus is not None])
        - online
    )


def note_absent(conf: KonfineConf, online: frozenset[int], metadata: dict[str, str]) -> None:
    """Add the CPUs that the conf names and the machine has not to the metadata, if there are some."""
    from nri.cgroups import render_cpus

    if missing := absent(conf, online):
        metadata["absent"] = shorten(
            f"conf names CPUs that are not online: {render_cpus(missing)}", 200
        )


def allowed(
    request: Request,
    conf: KonfineConf,
    parents: frozenset[int],
    isolated: frozenset[int],
    metadata: dict[str, str],
) -> frozenset[int]:
    """Return the CPUs of the parent cgroup that a container may have, if there are no exclusive sets and pools.

    Isolated CPUs are in no container's, unless a list that the runtime was given names them, or they are reserved and
    its class may use those: no load is balanced there, so all of its threads would stay on the first one.
    """
    class_ = shared.container_class(request, conf, conf.allow, metadata)
    noted = shared.allowed_value(request, conf.allow, "cpus", ANNOTATION, metadata)
    reserved = conf.system_reserved
    if class_ in conf.system_classes:
        isolated -= reserved
        reserved = frozenset()
    unreserved = _unreserved(request, parents, reserved)
    cpus = unreserved - isolated
    if not cpus:
        # Those that are not reserved are isolated: the others, if there are some.
        cpus = unreserved
        if parents - isolated:
            cpus = parents - isolated
            metadata["reserved"] = "all other CPUs are isolated"
    listed = requested_list(request)
    if listed is not None:
        cpus = _narrow_to_list(request, listed, parents, unreserved, cpus, metadata)
    if noted is None:
        return cpus
    return narrow(cpus, f"the annotation {shorten(noted[0])}", noted[1], metadata)


def _narrow_to_list(
    request: Request,
    listed: object,
    parents: frozenset[int],
    unreserved: frozenset[int],
    cpus: frozenset[int],
    metadata: dict[str, str],
) -> frozenset[int]:
    """Return the CPUs of a container whose request has a CPU list; *cpus* if the list does not narrow them."""
    kept = _kubelets_reserved(request, listed, parents - unreserved)
    if kept:
        metadata["reserved"] = "the kubelet leaves it no other CPUs"
        return kept
    narrowed = narrow(unreserved, "spec.resources.cpu.cpus", listed, metadata)
    return cpus if narrowed == unreserved else narrowed


def _kubelets_reserved(
    request: Request, listed: object, reserved: frozenset[int]
) -> frozenset[int]:
    """Return the CPUs of the kubelet's list if they are all reserved; none if others are among them.

    With the static policy, its list for shared containers has all CPUs that no container has exclusively.
    """
    from nri.cgroups import CpuListError

    if not request.namespace:
        return frozenset()
    try:
        cpus = _parsed(listed)
    except CpuListError:
        return frozenset()
    return cpus if cpus <= reserved else frozenset()


def _unreserved(
    request: Request, parents: frozenset[int], reserved: frozenset[int]
) -> frozenset[int]:
    """Return the CPUs of the parent cgroup that are not reserved.

    :raises CgroupError: when there are none: the configuration does not fit the node.
    """
    from nri.cgroups import CgroupError, render_cpus

    if parents <= reserved:
        has = shorten(render_cpus(parents), 200)
        kept = shorten(render_cpus(reserved), 200)
        raise CgroupError(
            f"no CPU is left for {shorten(request.id, 80)}: its parent cgroup has {has}, and conf.systemReserved is "
            f"{kept}; expected one that leaves a CPU of the parent's"
        )
    return parents - reserved


def narrow(
    cpus: frozenset[int], where: str, listed: object, metadata: dict[str, str]
) -> frozenset[int]:
    """Return the CPUs of *cpus* that a CPU list names; all of them if it is not a CPU list, or names none of them."""
    from nri.cgroups import CpuListError, render_cpus

    try:
        if left := cpus & _parsed(listed):
            return left
        reason = f"{shorten(repr(listed))} has no CPU of {shorten(render_cpus(cpus))}"
    except CpuListError as error:
        reason = str(error)
    shared.ignore(metadata, where, reason)
    return cpus


def _parsed(listed: object) -> frozenset[int]:
    """Return the CPUs of a list that a request has.

    :raises CpuListError: it is no CPU list.
    """
    from nri.cgroups import CpuListError, parse_cpus

    if not isinstance(listed, str):
        raise CpuListError(f"found {describe(listed)}, expected a CPU list")
    return parse_cpus(listed)


def requested_list(request: Request) -> object:
    """Return the CPU list of the request's resources; None if they have none."""
    listed = shared.cpu_resources(request).get("cpus")
    return None if listed == "" else listed


def main() -> None:
    """Run the plugin as this process."""
    skel.main(Konfine())
