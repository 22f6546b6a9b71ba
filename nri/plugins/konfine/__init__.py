"""Confine containers to the CPUs that are not reserved for the system.

A container may use the CPUs of its parent cgroup that are not reserved, or all of them if its class may use the
reserved ones. A CPU list in the request (the kubelet's static policy) and an annotation of the workload can narrow
that, not widen it. A list that does not parse, or that leaves no CPU, is ignored; but if the kubelet's list has
reserved CPUs only, all others are exclusive CPUs of other containers, and it counts as it is.

With ``allow.exclusive``, ``exclusive.guaranteed`` or ``pools`` in its conf it gives CPUs to one container alone
or to a pool of containers. All other containers lose these CPUs (:mod:`.sharing`); a file lists the CPUs of each
container (:mod:`.state`).
"""

from __future__ import annotations

import sys

from nri import __version__, skel
from nri.errors import escape
from nri.plugins import shared
from nri.skel import Plugin, Refusal, fields
from nri.skel.scopes import container_name
from nri.types.conf import Conf
from nri.types.gojson import describe, shorten
from nri.types.table import Key, Table, array, either, number, text
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.cgroups import Cgroup
    from nri.plugins.konfine.record import Entry
    from nri.plugins.konfine.sharing import Sharing, Wish
    from nri.types.v1 import Request, Result

ANNOTATION = "cpus.konfine.nri.io"
"""The annotation, with the usual scopes, that has a container's CPU list."""

EXCLUSIVE = "exclusive.konfine.nri.io"
"""The annotation, with the usual scopes, that has the number of CPUs that a container wants for itself: ``4``, or
``4+shared`` for these and the shared ones."""

RESTARTS = "io.kubernetes.container.restartCount"
"""The kubelet's annotation of a container: ``newContainerAnnotations`` in its ``kuberuntime/labels.go``."""

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


class ExclusiveConf(Conf):
    """How CPUs are given to one container alone."""

    guaranteed: bool = fields.flag("guaranteed pods that request whole CPUs get theirs alone", default=False)
    whole_cores: bool = fields.flag("only whole cores; another number is refused", default=False)
    spread: bool = fields.flag("a set may have CPUs of several NUMA nodes, near ones first", default=False)
    memory: bool = fields.flag(
        "also set cpuset.mems: the nodes of its CPUs, or the nearest with memory", default=False
    )
    min_shared: int = fields.integer("CPUs that always stay shared", 1, fields.MAX_CPU, default=1)
    threads: int = fields.integer(
        "CPUs that it gets of each core, whose others stay idle; by default all", 1, 16, default=0
    )
    keep: bool = fields.flag("a container that ends keeps its CPUs for its next start in the pod", default=True)
    isolated: str = fields.choice(
        *("prefer", "only", "never"),
        default="prefer",
        description="whether a set is of the CPUs that isolcpus= isolates: if there is room, always, or never",
    )


class PoolConf(Conf):
    """A pool of CPUs for some containers; all conditions that are given must hold."""

    name: str = fields.value(
        text(1, 63, matches=lambda name: "/" not in name, pattern="^[^/]*$", expected="a name without '/'"),
        "its name in the metadata and in the record",
    )
    cpus: frozenset[int] | None = fields.cpus("its CPUs; without them it grows with the requests", default=None)
    min: int = fields.integer("CPUs that it has at least if it grows", 1, fields.MAX_CPU, default=1)
    max: int = fields.integer("CPUs that it has at most if it grows", 1, fields.MAX_CPU, default=fields.MAX_CPU)
    per: str = fields.choice(
        *("node", "namespace", "pod"), default="node", description="one for the node, each namespace, or each pod"
    )
    classes: tuple[str, ...] = shared.classes("for containers of these classes")
    namespaces: tuple[str, ...] = fields.array(fields.text(), "for pods of these namespaces", default=[])
    labels: dict[str, Any] = fields.mapping(fields.text(), "for pods with all of these labels", default={})
    annotations: dict[str, Any] = fields.mapping(fields.text(), "for pods with all of these annotations", default={})


class KonfineConf(shared.SharedConf):
    """The plugin conf of ``konfine``."""

    system_reserved: frozenset[int] = fields.value(_RESERVED, "CPUs kept from containers", default=[], read=_cpus)
    system_classes: tuple[str, ...] = shared.classes("classes that may use the reserved CPUs", "system")
    exclusive: ExclusiveConf = fields.section(ExclusiveConf, "CPUs for one container alone", default={})
    pools: tuple[PoolConf, ...] = fields.array(
        PoolConf, "pools of CPUs; a container is in the first one whose conditions hold", default=[]
    )
    allow: dict[str, Any] = fields.value(
        Table(
            *[Key(name, shared.NAMESPACES) for name in ("class", "cpus")],
            *[Key(name, shared.NAMESPACES, default=False) for name in ("exclusive", "pools")],
            nulls=True,
        ),
        "pods that may set their class or cpus (true, any, is the default), ask for exclusive CPUs, or be in a pool "
        "by labels or annotations (false, none, is the default), for each: an array of namespaces, true, or false",
        default={},
    )
    sys: str = fields.text("where sysfs is mounted", default="/sys")

    @property
    def gives_out(self) -> bool:
        """True if the conf allows exclusive CPUs, or has pools."""
        return bool(self.pools or self.exclusive.guaranteed or self.allow.get("exclusive"))


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
    uses = ("nri.cgroups.systemd_bus", "nri.plugins.konfine.record", "nri.plugins.konfine.sharing")

    def invoke(self, request: Request, conf: KonfineConf) -> Result:
        """Confine the container; the metadata names its CPUs, and whether it had them already."""
        metadata: dict[str, str] = {}
        if request.release:
            from nri.cgroups import GoneError

            try:
                _give_back(request, conf, metadata)
            except GoneError:
                metadata["skipped"] = "its cgroup is gone"
            return request.new_result(self.type, metadata=metadata)
        if conf.gives_out:
            changes = _give_out(request, conf, metadata)
            return request.new_result(self.type, metadata=metadata, **changes)
        if request.state in (State.CREATE, State.UPDATE):
            from nri.cgroups import render_cpus

            if {"exclusive", "pool"} & shared.previous(request).keys():  # of a conf that gave CPUs out
                from nri.plugins.konfine.record import Record
                from nri.plugins.konfine.sharing import Sharing

                with Record(conf.run, conf.sys) as record:
                    Sharing(record, conf, request).leave(is_released=True)
                    record.save()
            cgroup = shared.cgroup(request, conf)
            from nri.cgroups.topology import isolated_cpus, online_cpus

            if conf.system_reserved:
                _note_absent(conf, online_cpus(conf.sys), metadata)
            cpus = _allowed(request, conf, cgroup.parent_cpus(), isolated_cpus(conf.sys), metadata)
            if not cgroup.confine(cpus):
                metadata["skipped"] = "it has these CPUs already"
            shared.note_untold(cgroup, metadata)
            metadata["cpus"] = render_cpus(cpus)
        return request.new_result(self.type, metadata=metadata)


def absent(conf: KonfineConf, online: frozenset[int]) -> frozenset[int]:
    """Return the CPUs that the conf names and the machine has not, or not now."""
    return conf.system_reserved.union(*[pool.cpus for pool in conf.pools if pool.cpus is not None]) - online


def _note_absent(conf: KonfineConf, online: frozenset[int], metadata: dict[str, str]) -> None:
    from nri.cgroups import render_cpus

    if missing := absent(conf, online):
        metadata["absent"] = shorten(f"conf names CPUs that are not online: {render_cpus(missing)}", 200)


def _allowed(
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
    is_system = shared.container_class(request, conf, conf.allow, metadata) in conf.system_classes
    noted = shared.allowed_value(request, conf.allow, "cpus", ANNOTATION, metadata)
    reserved = frozenset() if is_system else conf.system_reserved
    cpus = unreserved = _unreserved(request, parents, reserved)
    if ordinary := unreserved - (isolated - (conf.system_reserved if is_system else frozenset())):
        cpus = ordinary
    elif others := parents - isolated:
        cpus, metadata["reserved"] = others, "all other CPUs are isolated"
    if (listed := _listed(request)) is not None:
        if kept := _kubelets_reserved(request, listed, parents - unreserved):
            cpus, metadata["reserved"] = kept, "the kubelet leaves it no other CPUs"
        elif (narrowed := _narrowed(unreserved, "spec.resources.cpu.cpus", listed, metadata)) != unreserved:
            cpus = narrowed
    return cpus if noted is None else _narrowed(cpus, f"the annotation {shorten(noted[0])}", noted[1], metadata)


def _give_out(request: Request, conf: KonfineConf, metadata: dict[str, str]) -> dict[str, Any]:
    """Give a container its CPUs, and all others theirs; return the changes that the result asks for.

    For a release ``had``: the CPUs that it has of konfine, and the lists that the runtime was told.
    """
    from nri.cgroups import render_cpus
    from nri.plugins.konfine.record import Record
    from nri.plugins.konfine.sharing import Sharing

    with Record(conf.run, conf.sys) as record:
        sharing, cgroup = Sharing(record, conf, request), None
        if sharing.rebuilt:
            sys.stderr.write(f"konfine: the record of CPUs was made again of the cgroups: {sharing.rebuilt}\n")
            metadata["rebuilt"] = sharing.rebuilt
        _note_absent(conf, record.topology.online, metadata)
        if request.state == State.DELETE:
            had: dict[str, Any] = {}
            if sharing.before is not None and request.release:
                had = {"had": (sharing.wanted(sharing.before), sharing.before.get("told", []))}
            sharing.leave(is_released=request.release)
            sharing.fit_pools(sharing.usable)
            _move(sharing, metadata)
            return had
        is_setup = request.state == State.SETUP
        cgroup = None if is_setup else shared.cgroup(request, conf)
        within = sharing.parents(request) if cgroup is None else cgroup.parent_cpus()
        entry, wish, refusal = _wanted(request, conf, sharing, cgroup, within, metadata)
        is_first, is_running = _is_first(request, wish.count), request.state == State.UPDATE or request.late
        while True:
            refused = sharing.enter(entry, wish, within, is_first=is_first, is_running=is_running) or refusal
            if not _move(sharing, metadata, tells=is_setup):
                break  # else another container keeps CPUs of the set: take others
        if refused is not None and not is_running:
            raise refused
        had_others = sharing.settle(cgroup, tells=is_setup)
        record.save()
        if refused is not None:
            raise refused
        entry = record.containers[sharing.own]
        metadata["cpus"] = render_cpus(sharing.wanted(entry))
        if entry["kind"] == "exclusive":
            metadata["exclusive"] = f"{len(sharing.alone(entry))}{'+shared' if entry.get('plus') else ''}"
        elif entry["kind"] == "pool":
            metadata["pool"] = shorten(entry["pool"])
        if cgroup is not None:
            if not had_others:
                metadata["skipped"] = "it has these CPUs already"
            shared.note_untold(cgroup, metadata)
            return {}
        cpu = {"cpus": metadata["cpus"]}
        if entry["kind"] == "exclusive" and conf.exclusive.memory:
            cpu["mems"] = render_cpus(record.topology.memory_of(sharing.alone(entry)))
        return {"adjust": {"linux": {"resources": {"cpu": cpu}}}, "updates": sharing.updates() or None}


def _move(sharing: Sharing, metadata: dict[str, str], *, tells: bool = False) -> bool:
    """Give all other containers what the record says; return whether one keeps CPUs of the request's own set."""
    plan = sharing.plan()
    sharing.record.save()
    is_in_the_way = sharing.move(plan, tells=tells)
    sharing.record.save()
    if sharing.moved:
        metadata["moved"] = f"{len(sharing.moved)} other containers"
    if sharing.held:
        metadata["held"] = shorten(escape("; ".join([reason for _, reason in sharing.held.values()])), 500)
    shared.note_untold(sharing.systemd, metadata)
    return is_in_the_way


def _give_back(request: Request, conf: KonfineConf, metadata: dict[str, str]) -> None:
    """Give a container that runs on its parent's CPUs, unless it has others than konfine gave it."""
    from nri.cgroups import CgroupError, parse_cpus, render_cpus

    before = shared.previous(request)
    given = parse_cpus(before["cpus"]) if "cpus" in before else None
    told: list[str] = []
    if conf.gives_out:
        given, told = _give_out(request, conf, metadata).get("had", (given, told))
    cgroup = shared.cgroup(request, conf)
    if given is not None and (own := cgroup.cpus()) and own != given:
        metadata["skipped"] = f"it has other CPUs than {shorten(render_cpus(given))}, which konfine gave it"
        return
    cpus, listed = cgroup.parent_cpus(), _listed(request)
    if listed is not None and listed not in told:
        cpus = _narrowed(cpus, "spec.resources.cpu.cpus", listed, metadata)
    cgroup.confine(cpus)
    if "exclusive" in before and conf.exclusive.memory and (above := cgroup.parent()) is not None:
        try:
            cgroup.write("cpuset.mems", above.read("cpuset.mems.effective"))
        except CgroupError as error:
            shared.ignore(metadata, "cpuset.mems", str(error))
    shared.note_untold(cgroup, metadata)
    metadata["restored"] = render_cpus(cpus)


def _wanted(
    request: Request,
    conf: KonfineConf,
    sharing: Sharing,
    cgroup: Cgroup | None,
    parents: frozenset[int],
    metadata: dict[str, str],
) -> tuple[Entry, Wish, Refusal | None]:
    """Return a container's entry as that of one that shares CPUs or is in a pool, and what it asks for alone.

    :returns: also the refusal of one that runs already and asks wrongly: it shares CPUs as without asking.
    :raises Refusal: it asks wrongly.
    """
    from nri.cgroups import render_cpus
    from nri.plugins.konfine.sharing import Wish, now, requested

    names = [request.labels.get(f"io.kubernetes.pod.{key}") for key in ("namespace", "name")]
    before: Entry = sharing.before or {}
    is_ours = _listed(request) in before.get("told", ())  # the CPUs that the runtime has of us
    within = (
        before["within"]
        if is_ours
        else render_cpus(_allowed(request, conf, parents, sharing.topology.isolated, metadata))
    )
    entry: Entry = {
        "id": request.id,
        "name": "/".join(filter(None, [*names, container_name(request)])) or request.id[:12],
        "cgroup": sharing.path_of(cgroup),
        "kind": "shared",
        "cpus": "",
        "within": within,
    }
    if "told" in before:
        entry["told"] = before["told"]
    if "untold" in before:
        entry["untold"] = before["untold"]
    if request.is_sandbox:
        entry["sandbox"] = True
    if subgroup := shared.subgroup(request):
        entry["subgroup"] = subgroup[:255]
    if cgroup is None:
        entry["since"] = now()
    wish, refusal = Wish(), None
    try:
        wish = _wish(request, conf, metadata)
    except Refusal as error:
        if request.state != State.UPDATE and not request.late:
            raise
        refusal = error
        if before.get("kind") == "exclusive":  # it keeps what it has
            wish = Wish("", len(sharing.alone(before)), before.get("plus", False))
    if not wish.count and (pool := _pool(request, conf, metadata)):
        entry["kind"], entry["pool"], entry["milli"] = "pool", pool, requested(request)
    return entry, wish, refusal


def _wish(request: Request, conf: KonfineConf, metadata: dict[str, str]) -> Wish:
    """Return what a container asks for alone.

    A wish for the whole pod is that of its ordinary containers: of those that request CPUs, if the pod does. So
    `kubectl debug`, whose container cannot request any, shares them.

    :raises Refusal: its annotation is no such number.
    """
    from nri.plugins import annotated
    from nri.plugins.konfine.sharing import Wish, guaranteed, requested

    if request.is_sandbox:
        return Wish()
    annotation = annotated.asked(request, conf.allow, "exclusive", (EXCLUSIVE,), metadata)
    if annotation is None:
        return Wish("the guaranteed pod's limit", guaranteed(request) if conf.exclusive.guaranteed else 0)
    key, text = annotation[0], annotation[1].strip()
    count, plus, more = text.partition("+")
    is_number = count.isascii() and count.isdigit() and 0 < int(count[:5]) <= fields.MAX_CPU and len(count) < 5
    if not is_number or more != ("shared" if plus else ""):
        wrong = f"found {shorten(repr(text))}, expected a number of CPUs, 1 to {fields.MAX_CPU}"
        raise Refusal(f"{key}: {wrong}")
    path = request.spec.cgroups_path if request.spec is not None else ""
    is_other = "shares" in shared.cpu_resources(request) and not requested(request) and "besteffort" not in path
    if is_other and "/container." not in key:
        shared.ignore(metadata, key, "it is for the pod's containers that request CPUs")
        return Wish()
    return Wish(key, int(count), bool(plus))


def _is_first(request: Request, count: int) -> bool:
    """Return whether this is a container's first start in its pod, and it requests CPUs: init containers are over."""
    from nri.plugins.konfine.sharing import requested

    annotations = request.spec.annotations if request.spec is not None else {}
    is_start = request.state in (State.SETUP, State.CREATE) and not request.is_sandbox
    return is_start and annotations.get(RESTARTS, "0") == "0" and bool(count or requested(request))


def _pool(request: Request, conf: KonfineConf, metadata: dict[str, str]) -> str:
    """Return the name of the pool that a container is in, "" for none.

    Labels and annotations are the pod's own words, so they count for pods of ``allow.pools`` alone.
    """
    if request.is_sandbox:
        return ""
    namespace = request.labels.get(shared.NAMESPACE)
    annotations = request.spec.annotations if request.spec is not None else {}
    class_ = shared.container_class(request, conf, conf.allow, {})
    for pool in conf.pools:
        if (
            (not pool.classes or class_ in pool.classes)
            and (not pool.namespaces or namespace in pool.namespaces)
            and all(request.labels.get(key) == value for key, value in pool.labels.items())
            and all(annotations.get(key) == value for key, value in pool.annotations.items())
        ):
            is_of_pod = bool(pool.labels or pool.annotations)
            if is_of_pod and (reason := shared.why_not_allowed(request, "pools", conf.allow.get("pools") or False)):
                shared.ignore(metadata, f"pool {pool.name}", reason)
                continue
            part = {"node": "", "namespace": namespace or "", "pod": request.sandbox_id or request.id}[pool.per]
            return f"{pool.name}/{part[:80]}" if pool.per != "node" and pool.cpus is None else pool.name
    return ""


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
        reason = f"{shorten(repr(listed))} has no CPU of {shorten(render_cpus(cpus))}"
    except CpuListError as error:
        reason = str(error)
    shared.ignore(metadata, where, reason)
    return cpus


def _listed(request: Request) -> object:
    """Return the CPU list of the request's resources; None if they have none."""
    listed = shared.cpu_resources(request).get("cpus")
    return None if listed == "" else listed


def main() -> None:
    """Run the plugin as this process."""
    skel.main(Konfine())
