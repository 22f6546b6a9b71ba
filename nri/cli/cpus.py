"""A picture of who has which CPUs, for `nri status --cpus`: a sign for each CPU, by package, node, cache and core.

It is drawn of the file that konfine writes (docs/cpus.md, "The record") and of the machine's topology.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nri import files
from nri.cgroups import parse_cpus, render_cpus
from nri.cgroups.topology import Topology
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
SINGLE = [
    sign for sign in "abcdefghijklmnopqrstuvwxyz0123456789" if sign not in (RESERVED, ISOLATED)
]
POOL = [*"ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
"""The signs of containers with CPUs alone, and of pools; further ones have ``MORE``."""

MAX_FILE = 16 * 1024 * 1024
"""Bytes of konfine's file that are read."""

_BOOT = "/proc/sys/kernel/random/boot_id"


def _is_cpus(value: object) -> bool:
    try:
        return isinstance(value, str) and (value == "" or bool(parse_cpus(value)))
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
    if not _FILE.accepts(value) or "incomplete" in value:
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
    signs, legend = _signs(owners, topology)
    cpus = len(topology.online)
    cores = len(topology.cores)
    nodes = len(topology.nodes)
    lines = [f"{cpus} CPUs online, {cores} cores, {nodes} NUMA node{'s' if nodes != 1 else ''}", ""]
    for place, groups in _places(topology):
        if place:
            lines.append(place)
        lines += _rows(groups, signs, style)
    about = "a word is a core, a sign a thread, from the CPU at the left; | is between caches"
    lines += ["", about]
    for line in legend:
        lines.append(line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}...")
    return lines


def _signs(owners: Owners, topology: Topology) -> tuple[dict[int, tuple[str, str]], list[str]]:
    """Return the sign and the kind of each CPU, and the legend."""
    online = topology.online
    signs = dict.fromkeys(online, (SHARED, "shared"))
    legend: list[tuple[str, Set, str]] = []

    def put(cpus: Set, sign: str, kind: str, about: str) -> None:
        signs.update(dict.fromkeys(cpus & online, (sign, kind)))
        legend.append((sign, cpus, about))

    put(topology.isolated, ISOLATED, "isolated", "isolated, and free")
    put(owners.reserved, RESERVED, "reserved", "reserved for the system")
    containers = owners.containers
    for (name, own), sign in _signed(sorted(owners.pools.items()), POOL):
        count = len([entry for entry in containers if entry.get("pool") == name])
        put(parse_cpus(own), sign, "pool", f"pool {name} ({_counted(count)})")
    single = [entry for entry in containers if entry["kind"] == "exclusive"]
    first = frozenset[int]().union(
        *[parse_cpus(entry["cpus"]) for entry in single if entry["cgroup"]]
    )
    for entry, sign in _signed(
        sorted(single, key=lambda entry: min(parse_cpus(entry["cpus"]))), SINGLE
    ):
        others = (
            frozenset() if entry["cgroup"] else first
        )  # of the pod's container that runs, or comes before
        first |= parse_cpus(entry["cpus"])
        put(parse_cpus(entry["cpus"]) - others, sign, "single", entry["name"] + _more(entry))
    sharing = len([entry for entry in containers if entry["kind"] == "shared"])
    legend.append((SHARED, frozenset(), f"shared ({_counted(sharing)})"))
    rows: dict[tuple[str, str], str] = {}
    for sign, cpus, about in legend:
        left = frozenset([cpu for cpu, (own, _) in signs.items() if own == sign])
        if listed := left if sign in (SHARED, ISOLATED) else cpus:
            rows[sign, about] = render_cpus(listed)
    width = min(max(map(len, rows.values()), default=0), WIDTH // 3)
    return signs, [
        f"{sign}  {cpus:<{width}}  {escape(shorten(about, 200))}"
        for (sign, about), cpus in rows.items()
    ]


def _signed(items: list[Any], signs: list[str]) -> list[tuple[Any, str]]:
    signed: list[tuple[Any, str]] = []
    for number, item in enumerate(items):
        signed.append((item, signs[number] if number < len(signs) else MORE))
    return signed


def _more(entry: Entry) -> str:
    if entry.get("ended"):
        state = ", ended: kept for its next start"
    elif entry["cgroup"]:
        state = ""
    else:
        state = ", not yet begun"
    if "counted" in entry:
        way = ", counted by the scheduler"
    else:
        way = ""
    return f"{', and the shared ones' if entry.get('plus') else ''}{way}{state}"


def _counted(count: int) -> str:
    return f"{count} container{'s' if count != 1 else ''}"


def _places(topology: Topology) -> list[tuple[str, list[list[Set]]]]:
    """Return each package's nodes by name, with the cores of each of their caches."""
    places = []
    for number, package in enumerate(topology.packages):
        for node, of_node in topology.nodes.items():
            if own := of_node & package:
                cores = sorted([core for core in topology.cores if core & own], key=min)
                groups = []
                for cache in topology.caches:
                    groups.append([core for core in cores if core & cache])

                is_one = len(topology.packages) == 1 and len(topology.nodes) == 1
                places.append(
                    (
                        "" if is_one else f"package {number}, node {node}",
                        [group for group in groups if group],
                    )
                )
    return places


def _rows(groups: list[list[Set]], signs: dict[int, tuple[str, str]], style: Style) -> list[str]:
    """Return the cores of the groups in lines, each with its first CPU at the left."""
    rows: list[str] = []
    row = ""
    width = WIDTH
    for group in groups:
        needed = sum([len(core) + 1 for core in group])
        if len(groups) > 1 and width + needed + 2 > WIDTH and needed + 6 < WIDTH:
            width = WIDTH  # a cache that fits into a line is in one
        elif row:
            row = f"{row} |"
            width = width + 2
        for core in group:
            if width + len(core) + 1 > WIDTH:
                rows.append(row)
                row = f"{min(core):>5}"
                width = 5
            row += " " + "".join([style(*signs[cpu]) for cpu in sorted(core)])
            width += len(core) + 1
    return [*rows[1:], row]
