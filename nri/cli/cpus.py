"""A picture of who has which CPUs, for `nri status --cpus`: a sign for each CPU, by package, node, cache and core.

It is drawn of the file that konfine writes (docs/cpus.md, "The record") and of the machine's topology.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain, repeat
from typing import Any

from nri import files
from nri.cgroups import parse_cpus, render_cpus
from nri.cgroups.topology import Topology
from nri.cli import output
from nri.errors import NRIError, escape, reason_of
from nri.types import DecodeError, gojson
from nri.types.gojson import shorten
from nri.types.table import FLAG, Key, Map, Rule, open_table, text, words

Set = frozenset[int]
Style = Callable[[str, str], str]
Entry = dict[str, Any]

WIDTH = 80

SHARED = "."
RESERVED = "r"
ISOLATED = "i"
MORE = "+"
SINGLE = [*"abcdefghjklmnopqstuvwxyz0123456789"]  # without RESERVED and ISOLATED
POOL = [*"ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
"""The signs of containers with CPUs alone, and of pools; further ones have ``MORE``."""

MAX_FILE = 16 * 1024 * 1024
"""Bytes of konfine's file that are read."""

_BOOT = "/proc/sys/kernel/random/boot_id"


def _is_cpus(value: str) -> bool:
    try:
        return value == "" or bool(parse_cpus(value))
    except ValueError:
        return False


_CPUS = Rule(str, _is_cpus, "a CPU list", {})
_ENTRY = open_table(
    Key("kind", words("shared", "pool", "exclusive"), required=True),
    Key("name", text(), required=True),
    Key("cgroup", text(), required=True),
    Key("cpus", _CPUS, required=True),
    Key("pool", text()),
    Key("plus", FLAG),
    Key("ended", FLAG),
)
_FILE = open_table(
    Key("boot", text(), required=True),
    Key(
        "conf",
        open_table(
            Key("reserved", _CPUS, required=True), Key("fixed", Map(_CPUS, text(1)), required=True)
        ),
        required=True,
    ),
    Key("pools", Map(_CPUS, text(1)), required=True),
    Key("containers", Map(_ENTRY, text(1)), required=True),
    Key("incomplete", text()),
)


class Owners:
    """The owners of the node's CPUs, from konfine's file.

    :ivar reserved: the CPUs that containers do not get.
    :ivar pools: the CPUs of each pool, by name.
    :ivar containers: the entries of containers.
    """

    def __init__(self, value: dict[str, Any]) -> None:
        self.reserved = parse_cpus(value["conf"]["reserved"])
        self.pools: dict[str, str] = value["conf"]["fixed"] | value["pools"]
        self.containers: list[Entry] = list(value["containers"].values())


def read(run: str) -> dict[str, Any]:
    """Return the record that konfine has written.

    :param run: the node's /run.
    :raises NRIError: there is no file, or it is not of this boot.
    """
    path = f"{run}/nri/konfine/state.json"
    try:
        document, _ = files.read_regular(path, MAX_FILE)
        with open(_BOOT, encoding="ascii") as file:
            boot = file.read().strip()
        value: Any = gojson.loads(document)
    except FileNotFoundError:
        raise NRIError(f"no CPUs are given out here: {path}: there is none") from None
    except OSError as error:
        expected = "expected to be able to read what konfine writes"
        raise NRIError(f"{path}: {reason_of(error)}; {expected}") from None
    except DecodeError as error:
        again = "konfine's next event makes it again"
        raise NRIError(f"{path}: is damaged: {error}; {again}") from None
    if not _FILE.accepts(value) or value.get("incomplete"):
        raise NRIError(f"{path}: is damaged; konfine's next event makes it again")
    if value["boot"] != boot:
        raise NRIError(f"no CPUs are given out here: {path}: it was of another boot")
    record: dict[str, Any] = value
    return record


def draw(owners: Owners, topology: Topology, style: Style = lambda text, kind: text) -> list[str]:
    """Return the lines of the picture, and a legend.

    :param style: returns a text as it is shown; its second argument is ``single``, ``pool``, ``reserved``,
        ``isolated`` or ``shared``.
    """
    picture = _Picture(owners, topology)
    cpus = len(topology.online)
    cores = len(topology.cores)
    nodes = len(topology.nodes)
    lines = [f"{cpus} CPUs online, {cores} cores, {output.counted(nodes, 'NUMA node')}", ""]
    for place, groups in _places(topology):
        lines.append(place)
        lines += _rows(groups, picture.signs, style)
    about = "a word is a core, a sign a thread, from the CPU at the left; | is between caches"
    lines += ["", about]
    for line in picture.legend():
        if len(line) > WIDTH:
            lines.append(f"{line[: WIDTH - 3]}...")
        else:
            lines.append(line)
    return lines


class _Picture:
    """The sign and the kind of each CPU, and what each sign stands for.

    :ivar signs: by CPU, a sign and a kind.
    """

    def __init__(self, owners: Owners, topology: Topology) -> None:
        self.signs: dict[int, tuple[str, str]] = {}
        self._online = topology.online
        self._entries: list[tuple[str, Set, str]] = []
        self._put(owners.reserved, RESERVED, "reserved", "reserved for the system")
        self._put_pools(owners)
        single = []
        sharing = 0
        for entry in owners.containers:
            if entry["kind"] == "exclusive":
                single.append(entry)
            elif entry["kind"] == "shared":
                sharing += 1
        self._put_single(single)
        free = topology.online - self.signs.keys()
        self._put(free & topology.isolated, ISOLATED, "isolated", "isolated, and free")
        shared = f"shared ({output.counted(sharing, 'container')})"
        self._put(free - topology.isolated, SHARED, "shared", shared)

    def legend(self) -> list[str]:
        """Return a line for each sign that stands for some CPUs."""
        rows: dict[tuple[str, str], str] = {}
        for sign, cpus, about in self._entries:
            if cpus:
                rows[sign, about] = render_cpus(cpus)
        width = min(max(map(len, rows.values()), default=0), WIDTH // 3)
        lines = []
        for (sign, about), cpus_text in rows.items():
            lines.append(f"{sign}  {cpus_text:<{width}}  {escape(shorten(about, 200))}")
        return lines

    def _put(self, cpus: Set, sign: str, kind: str, about: str) -> None:
        for cpu in cpus & self._online:
            self.signs[cpu] = sign, kind
        self._entries.append((sign, cpus, about))

    def _put_pools(self, owners: Owners) -> None:
        numbers = Counter([entry.get("pool") for entry in owners.containers])
        for (name, own), sign in _signed(sorted(owners.pools.items()), POOL):
            about = f"pool {name} ({output.counted(numbers[name], 'container')})"
            self._put(parse_cpus(own), sign, "pool", about)

    def _put_single(self, entries: list[Entry]) -> None:
        """Put the containers that have CPUs alone.

        One that has ended or has not begun yet may have CPUs of its pod's container that runs, or comes before it.
        """
        seen: Set = frozenset()
        for entry in entries:
            if entry["cgroup"]:
                seen |= parse_cpus(entry["cpus"])
        by_cpu = sorted(entries, key=lambda entry: min(parse_cpus(entry["cpus"])))
        for entry, sign in _signed(by_cpu, SINGLE):
            cpus = parse_cpus(entry["cpus"])
            own = cpus if entry["cgroup"] else cpus - seen
            seen |= cpus
            self._put(own, sign, "single", entry["name"] + _more(entry))


def _signed(items: list[Any], signs: list[str]) -> list[tuple[Any, str]]:
    """Return each item with a sign of its own; further ones with ``MORE``."""
    return list(zip(items, chain(signs, repeat(MORE)), strict=False))


def _more(entry: Entry) -> str:
    """Return what is to be said of a container that has CPUs alone, after its name."""
    about = ""
    if entry.get("plus"):
        about += ", and the shared ones"
    if "counted" in entry:
        about += ", counted by the scheduler"
    if entry.get("ended"):
        about += ", ended: kept for its next start"
    elif not entry["cgroup"]:
        about += ", not yet begun"
    return about


def _places(topology: Topology) -> list[tuple[str, list[list[Set]]]]:
    """Return each package's nodes by name, with the cores of each of their caches."""
    places = []
    for number, package in enumerate(topology.packages):
        for node, of_node in topology.nodes.items():
            own = of_node & package
            if own:
                places.append((f"package {number}, node {node}", _groups(topology, own)))
    return places


def _groups(topology: Topology, cpus: Set) -> list[list[Set]]:
    """Return the cores of each cache that have some of these CPUs."""
    cores = sorted(topology.cores_of(cpus), key=min)
    groups = []
    for cache in topology.caches:
        group = [core for core in cores if core & cache]
        if group:
            groups.append(group)
    return groups


def _rows(groups: list[list[Set]], signs: dict[int, tuple[str, str]], style: Style) -> list[str]:
    """Return the cores of the groups in lines, each with its first CPU at the left."""
    rows: list[str] = []
    row = ""
    width = WIDTH
    for group in groups:
        before = " | "
        for core in group:
            if width + len(before) + len(core) > WIDTH:
                rows.append(row)
                row = f"{min(core):>5}"
                width = 5
                before = " "
            row += before + "".join([style(*signs[cpu]) for cpu in sorted(core)])
            width += len(before) + len(core)
            before = " "
    return [*rows[1:], row]
