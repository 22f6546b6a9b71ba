"""One request of konfine where CPUs are given out: what its container asks for, what it gets, and who gives way."""

from __future__ import annotations

import sys

from nri.cgroups import CgroupError, CpuListError, GoneError, parse_cpus, render_cpus
from nri.errors import NRIError, escape
from nri.plugins import annotated, shared
from nri.plugins.konfine import (
    COUNTED,
    EXCLUSIVE,
    RESOURCE,
    allowed,
    narrow,
    note_absent,
    requested_list,
)
from nri.plugins.konfine.record import Record, now
from nri.plugins.konfine.sharing import Sharing, Wish, name_of, requested
from nri.skel import Refusal, fields, why_not_allowed
from nri.skel.scopes import SUBGROUP
from nri.types.gojson import shorten
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.cgroups import Cgroup
    from nri.plugins.konfine import KonfineConf
    from nri.plugins.konfine.record import Entry
    from nri.types.v1 import Request

RESTARTS = "io.kubernetes.container.restartCount"
"""The kubelet's annotation of a container: ``newContainerAnnotations`` in its ``kuberuntime/labels.go``."""


def give_out(request: Request, conf: KonfineConf, metadata: dict[str, str]) -> dict[str, Any]:
    """Give a container its CPUs, and all others theirs; return the changes that the result asks for.

    For a release ``had``: the CPUs that it has of konfine, and the lists that the runtime was told.
    """
    with Record(conf.run, conf.sys) as record:
        sharing = Sharing(record, conf, request)
        if sharing.rebuilt:
            said = f"the record of CPUs was made again of the cgroups: {sharing.rebuilt}"
            sys.stderr.write(f"konfine: {said}\n")
            metadata["rebuilt"] = sharing.rebuilt
        for name in sharing.parted:
            lost = "had CPUs that another container has alone, and has lost them"
            sys.stderr.write(f"konfine: {escape(name)} {lost}\n")
        note_absent(conf, record.topology.online, metadata)
        if request.state == State.DELETE:
            return _let_go(request, sharing, metadata)
        return _give(request, conf, sharing, metadata)


def _let_go(request: Request, sharing: Sharing, metadata: dict[str, str]) -> dict[str, Any]:
    """Free the CPUs of a container that ends, or that konfine is not run for any more."""
    had: dict[str, Any] = {}
    before = sharing.before
    if before is not None and request.release:
        try:
            had = {"had": (sharing.wanted(before), before.get("told", []))}
        except NRIError:
            pass  # the conf leaves it none: it has what its metadata say
    sharing.leave(is_released=request.release)
    sharing.fit_pools(sharing.usable)
    _move(sharing, metadata)
    return had


def _give(
    request: Request, conf: KonfineConf, sharing: Sharing, metadata: dict[str, str]
) -> dict[str, Any]:
    """Give a container what it asks for, after the others have lost it; return the changes.

    :raises Refusal: it may not have what it asks for. One that runs already has what it had, or shares CPUs.
    """
    record = sharing.record
    is_setup = request.state == State.SETUP
    cgroup = None if is_setup else shared.cgroup(request, conf)
    within = sharing.parents(request) if cgroup is None else cgroup.parent_cpus()
    entry, wish, refusal = _wanted(request, conf, sharing, cgroup, within, metadata)
    if wish.count or entry["kind"] == "pool":
        sharing.adopt(is_whole=False)
    is_first = _is_first(request, wish.count)
    is_running = request.state == State.UPDATE or request.late
    is_in_the_way = True
    refused: Refusal | None = None
    while is_in_the_way:  # another container keeps CPUs of the set: take others
        refused = sharing.enter(entry, wish, within, is_first=is_first, is_running=is_running)
        is_in_the_way = _move(sharing, metadata, tells=is_setup)
    refused = refused or refusal
    if refused is not None and not is_running:
        raise refused
    had_others = sharing.settle(cgroup, tells=is_setup)
    entry = record.containers[sharing.own]
    if cgroup is not None:
        _follow(request, conf, sharing, cgroup, metadata)
    record.save()
    if refused is not None:
        raise refused
    _describe(entry, sharing, metadata)
    if cgroup is None:
        return _changes(entry, conf, sharing, metadata["cpus"])
    if not had_others:
        metadata["skipped"] = "it has these CPUs already"
    shared.note_untold(cgroup, metadata)
    return {}


def _follow(
    request: Request,
    conf: KonfineConf,
    sharing: Sharing,
    cgroup: Cgroup,
    metadata: dict[str, str],
) -> None:
    """Lift the quota of a container that has CPUs alone; give one that had some its quota and memory back."""
    entry, before = sharing.record.containers[sharing.own], sharing.before
    if entry["kind"] == "exclusive":
        _lift_quota(cgroup, entry, metadata)
    elif before is not None:
        if before["kind"] == "exclusive":
            _free_memory(cgroup, conf, metadata)
        _give_quota_back(cgroup, request, entry.pop("quota", ""), metadata)


def _lift_quota(cgroup: Cgroup, entry: Entry, metadata: dict[str, str]) -> None:
    """Remove the quota of a container that has CPUs alone, as the kubelet does for its own exclusive ones.

    A quota throttles it on CPUs that no other may use (kubernetes/kubernetes#70585).
    """
    try:
        quota = cgroup.clear_cpu_quota()
    except GoneError:
        raise
    except CgroupError as error:
        shared.ignore(metadata, "cpu.max", str(error))
        return
    if quota.quota_us is not None:
        entry["quota"] = str(quota)
    if "quota" in entry:
        metadata["quota"] = entry["quota"]


def _give_quota_back(
    cgroup: Cgroup, request: Request, noted: str, metadata: dict[str, str]
) -> None:
    """Give a container that has no CPUs alone any more its quota.

    :param noted: the quota that was lifted, such as ``50000/100000``; "" for none.
    """
    if not noted:
        return
    try:
        shared.restore_quota(cgroup, shared.quota_to_restore(request, noted))
    except GoneError:
        raise
    except CgroupError as error:
        shared.ignore(metadata, "cpu.max", str(error))


def _describe(entry: Entry, sharing: Sharing, metadata: dict[str, str]) -> None:
    """Add what a container has to the metadata."""
    metadata["cpus"] = render_cpus(sharing.wanted(entry))
    if entry["kind"] == "exclusive":
        count = str(len(sharing.alone(entry)))
        metadata["exclusive"] = f"{count}+shared" if entry.get("plus") else count
        if "counted" in entry:
            metadata["counted"] = entry["counted"]
    elif entry["kind"] == "pool":
        metadata["pool"] = shorten(entry["pool"])


def _changes(entry: Entry, conf: KonfineConf, sharing: Sharing, cpus: str) -> dict[str, Any]:
    """Return the changes that tell a runtime the CPUs of a container that it is about to create."""
    cpu = {"cpus": cpus}
    if entry["kind"] == "exclusive" and conf.exclusive.memory:
        cpu["mems"] = render_cpus(sharing.topology.memory_of(sharing.alone(entry)))
    return {
        "adjust": {"linux": {"resources": {"cpu": cpu}}},
        "updates": sharing.updates() or None,
    }


def _move(sharing: Sharing, metadata: dict[str, str], *, tells: bool = False) -> bool:
    """Give all other containers what the record says; return whether one keeps CPUs of the request's own set."""
    plan = sharing.plan()
    sharing.record.save()
    is_in_the_way = sharing.move(plan, tells=tells)
    sharing.record.save()
    if sharing.moved:
        metadata["moved"] = f"{len(sharing.moved)} other containers"
    if sharing.held:
        metadata["held"] = shorten(
            escape("; ".join([reason for _, reason in sharing.held.values()])), 500
        )
    shared.note_untold(sharing.systemd, metadata)
    return is_in_the_way


def give_back(request: Request, conf: KonfineConf, metadata: dict[str, str]) -> None:
    """Give a container that runs on its parent's CPUs, unless it has others than konfine gave it."""
    before = shared.previous(request)
    given = parse_cpus(before["cpus"]) if "cpus" in before else None
    told: list[str] = []
    if conf.gives_out:
        given, told = give_out(request, conf, metadata).get("had", (given, told))
    cgroup = shared.cgroup(request, conf)
    if given is not None and (own := cgroup.cpus()) and own != given:
        metadata["skipped"] = (
            f"it has other CPUs than {shorten(render_cpus(given))}, which konfine gave it"
        )
        return
    cpus, listed = cgroup.parent_cpus(), requested_list(request)
    if listed is not None and listed not in told:
        cpus = narrow(cpus, "spec.resources.cpu.cpus", listed, metadata)
    cgroup.confine(cpus)
    if "exclusive" in before:
        _free_memory(cgroup, conf, metadata)
        _give_quota_back(cgroup, request, before.get("quota", ""), metadata)
    shared.note_untold(cgroup, metadata)
    metadata["restored"] = render_cpus(cpus)


def _free_memory(cgroup: Cgroup, conf: KonfineConf, metadata: dict[str, str]) -> None:
    """Let a container that had CPUs alone use the memory of all NUMA nodes again."""
    if conf.exclusive.memory and (above := cgroup.parent()) is not None:
        try:
            cgroup.write("cpuset.mems", above.read("cpuset.mems.effective"))
        except CgroupError as error:
            shared.ignore(metadata, "cpuset.mems", str(error))


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
    before: Entry = sharing.before or {}
    is_ours = requested_list(request) in before.get(
        "told", ()
    )  # the CPUs that the runtime has of us
    within = (
        before["within"]
        if is_ours
        else render_cpus(allowed(request, conf, parents, sharing.topology.isolated, metadata))
    )
    entry: Entry = {
        "id": request.id,
        "pod": request.sandbox_id,
        "name": name_of(request),
        "cgroup": sharing.path_of(cgroup),
        "kind": "shared",
        "cpus": "",
        "within": within,
    }
    if "told" in before:
        entry["told"] = before["told"]
    if "untold" in before:
        entry["untold"] = before["untold"]
    if "quota" in before:
        entry["quota"] = before["quota"]
    if request.is_sandbox:
        entry["sandbox"] = True
    if subgroup := request.annotations.get(SUBGROUP, ""):
        entry["subgroup"] = subgroup[:255]
    if cgroup is None:
        entry["since"] = now()
    wish, refusal = Wish(), None
    try:
        wish = wish_of(request, conf, metadata)
    except Refusal as error:
        if request.state != State.UPDATE and not request.late:
            raise
        refusal = error
        if before.get("kind") == "exclusive":  # it keeps what it has
            wish = Wish("", len(sharing.alone(before)), before.get("plus", False))
    if not wish.count and (pool := _pool(request, conf, metadata)):
        entry["kind"], entry["pool"], entry["milli"] = "pool", pool, requested(request)
    return entry, wish, refusal


def wish_of(request: Request, conf: KonfineConf, metadata: dict[str, str]) -> Wish:
    """Return what a container asks for alone.

    :raises Refusal: it asks wrongly.
    """
    if request.is_sandbox:
        return Wish()
    if COUNTED in request.own_annotations and conf.exclusive.counted:
        return _counted_wish(request.annotations[COUNTED])
    if COUNTED in request.annotations:
        reason = "it is the pod's, not the kubelet's"
        if not conf.exclusive.counted:
            reason = "conf.exclusive.counted is false"
        shared.ignore(metadata, COUNTED, reason)
    annotation = annotated.asked(request, conf.allow, "exclusive", (EXCLUSIVE,), metadata)
    if annotation is None:
        return Wish()
    key, text = annotation
    wish = _annotated_wish(key, text.strip())
    if "/container." not in key and _is_extra(request):
        shared.ignore(metadata, key, "it is for the pod's containers that request CPUs")
        return Wish()
    return wish


def _counted_wish(text: str) -> Wish:
    """Return the wish for the CPUs that the device plugin has allocated.

    :raises Refusal: the list is not one.
    """
    try:
        listed = parse_cpus(text)
    except CpuListError as error:
        raise Refusal(f"{COUNTED}: {error}") from None
    if not listed:
        expected = "expected the CPUs that the device plugin has allocated"
        raise Refusal(f"{COUNTED}: found an empty list, {expected}")
    return Wish(f"the resource {RESOURCE}", len(listed), listed=listed)


def _annotated_wish(key: str, text: str) -> Wish:
    """Return the wish in an annotation, ``4`` or ``4+shared``.

    :raises Refusal: it is no such number.
    """
    count, plus, more = text.partition("+")
    is_short = 0 < len(count) < 5
    is_number = is_short and count.isascii() and count.isdigit()
    if not is_number or not 0 < int(count) <= fields.MAX_CPU or more != ("shared" if plus else ""):
        wrong = f"found {shorten(repr(text))}, expected a number of CPUs, 1 to {fields.MAX_CPU}"
        raise Refusal(f"{key}: {wrong}")
    return Wish(key, int(count), bool(plus))


def _is_extra(request: Request) -> bool:
    """Return whether a container requests no CPUs, and its pod does: such as that of ``kubectl debug``.

    A wish for the whole pod is that of its ordinary containers.
    """
    path = request.spec.cgroups_path if request.spec is not None else ""
    has_shares = "shares" in shared.cpu_resources(request)
    return has_shares and not requested(request) and "besteffort" not in path


def _is_first(request: Request, count: int) -> bool:
    """Return whether this is a container's first start in its pod, and it requests CPUs: init containers are over."""
    annotations = request.annotations
    is_start = request.state in (State.SETUP, State.CREATE) and not request.is_sandbox
    return is_start and annotations.get(RESTARTS, "0") == "0" and bool(count or requested(request))


def _pool(request: Request, conf: KonfineConf, metadata: dict[str, str]) -> str:
    """Return the name of the pool that a container is in, "" for none.

    Labels and annotations are the pod's own words, so they count for pods of ``allow.pools`` alone.
    """
    if request.is_sandbox:
        return ""
    namespace = request.namespace
    annotations = request.annotations
    class_ = shared.container_class(request, conf, conf.allow, {})
    for pool in conf.pools:
        if (
            (not pool.classes or class_ in pool.classes)
            and (not pool.namespaces or namespace in pool.namespaces)
            and all(request.labels.get(key) == value for key, value in pool.labels.items())
            and all(annotations.get(key) == value for key, value in pool.annotations.items())
        ):
            is_of_pod = bool(pool.labels or pool.annotations)
            if is_of_pod and (
                reason := why_not_allowed(request, conf.allow.get("pools") or False, "allow.pools")
            ):
                shared.ignore(metadata, f"pool {pool.name}", reason)
                continue
            return pool.name
    return ""
