"""Finds the containers that the record lacks, by the cpuset files of the machine.

The record may be lost, damaged or of another boot, or konfine was not run for a container. Its own cpuset file shows
its CPUs then. CPUs that one container has alone stay its own until its next request, wherever its cgroup is: no other
container is given them. All other containers of pods share CPUs.
"""

from __future__ import annotations

from nri.cgroups import CgroupError, knobs, render_cpus
from nri.cgroups.paths import is_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from nri.plugins.konfine.record import Entry, Lists

    Set = frozenset[int]

KNOB = "cpuset.cpus"

_DEEPEST = 20
"""Levels below the mount at which containers are looked for."""

_ID_LENGTH = 64
"""Hexadecimal digits of a container's id, as containerd, CRI-O, podman and docker make it."""

_NO_CONTAINERS = (".service", ".socket", ".mount", ".swap")
"""The endings of systemd's units that hold no container's cgroup."""

_PARENTS = ("docker", "libpod_parent", "lxc")
"""The names of cgroups whose children are containers, where systemd does not make them."""


def sets(point: str, known: Collection[str], lists: Lists) -> dict[str, Set]:
    """Return the CPUs in the cpuset file of each container, by its cgroup's path below the mount; none for no file.

    :param point: where the hierarchy of cpuset is mounted.
    :param known: the paths of cgroups that are left out.
    """
    listed: dict[str, Set] = {}
    left = [point]
    while left:
        directory = left.pop()
        path = directory.removeprefix(point)
        if path in known:
            continue
        if _is_container(path):
            listed[path] = lists.of_file(f"{directory}/{KNOB}") or frozenset()
        elif path.count("/") < _DEEPEST and not path.endswith(_NO_CONTAINERS):
            left += _children(directory)
    return listed


def _children(directory: str) -> list[str]:
    try:
        return knobs.children(directory)
    except CgroupError:
        return []  # no request fails for what another cgroup is like


def entries(
    found: dict[str, Set], known: list[Set], usable: Set, present: Set, nobodys: Set
) -> dict[str, Entry]:
    """Return the entries of containers that the record does not have.

    :param found: of ``sets``.
    :param known: the sets of the containers of the record that share CPUs.
    :param usable: the CPUs that containers can share now.
    :param present: the same with those that are offline.
    :param nobodys: those that no container has alone: the reserved ones and those of fixed pools.
    """
    # A set with all of them is that of a container that no one has narrowed yet.
    narrowed = {path: cpus - nobodys for path, cpus in found.items() if not cpus >= usable}
    lists = [cpus - nobodys for cpus in known if not cpus >= usable]
    lists += narrowed.values()
    shared = _shared(lists, present)
    made = {}
    for path, cpus in found.items():
        own = narrowed.get(path, shared)
        alone = own - shared
        if alone and lists.count(own) == 1:
            made[path] = _entry(path, "exclusive", cpus=render_cpus(alone))
            if shared and own >= shared:
                made[path]["plus"] = True
        elif _is_in_pod(path):
            made[path] = _entry(path, "shared", within=render_cpus(cpus))
    return made


def _shared(lists: list[Set], present: Set) -> Set:
    """Return the set of the containers that share CPUs; none if that cannot be known.

    It is the one that most of several containers have: on a node of Kubernetes those of all sandboxes are the same.
    Where each has another one, it is the one that has all CPUs which are in no other, if it is by far the largest.
    Some always stay shared: so if all are in a set, one of the sets is theirs.
    """
    counts: dict[Set, int] = {}
    for each in filter(None, lists):
        counts[each] = counts.get(each, 0) + 1
    if not counts:
        return frozenset()
    cpus, times = max(counts.items(), key=lambda item: item[1])
    if times > 1:
        return cpus
    largest, *others = sorted(counts, key=len, reverse=True)
    is_rest = largest >= present.difference(*others)
    is_by_far = not others or len(largest) >= 2 * len(others[0])
    if is_rest and is_by_far:
        return largest
    return frozenset()


def _entry(path: str, kind: str, *, cpus: str = "", within: str = "") -> Entry:
    return {
        "id": "",
        "name": path,
        "cgroup": path,
        "kind": kind,
        "cpus": cpus,
        "within": within,
    }


def _is_container(path: str) -> bool:
    above, _, name = path.rpartition("/")
    is_named = above.rpartition("/")[2] in _PARENTS or name.endswith(".scope")
    return is_named or is_pod(above) or _is_id(name)


def _is_in_pod(path: str) -> bool:
    return is_pod(path.rpartition("/")[0])


def _is_id(name: str) -> bool:
    """Return whether a cgroup's name ends with a container's id, as in ``libpod-ID``."""
    id_ = name.rpartition("-")[2]
    return len(id_) == _ID_LENGTH and not id_.strip("0123456789abcdef")
