"""``konfine show``: a picture of the machine's CPUs in 80 columns, and of who has which of them.

It reads the record, and holds no lock: a record is replaced as a whole.
"""

from __future__ import annotations

import os
import sys

from nri.cgroups import CgroupError, render_cpus
from nri.cgroups.topology import Topology
from nri.errors import NRIError, escape
from nri.plugins.konfine import KonfineConf
from nri.plugins.konfine.state import FILE, State
from nri.types import gojson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

WIDTH = 80
USAGE = "usage: konfine show [--json] [--conf FILE.conf]"

_SIGNS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_COLORS = (31, 32, 33, 34, 35, 36)  # of a terminal


def main(words: Sequence[str]) -> int:
    """Print the picture, or the same as JSON; return the exit status."""
    words = [*words]
    as_json = "--json" in words
    conf = KonfineConf()
    if "--conf" in words[:-1]:
        at = words.index("--conf")
        try:
            conf = _of_entry(words[at + 1])
        except (OSError, NRIError, LookupError, TypeError) as error:
            sys.stderr.write(escape(f"konfine show: {words[at + 1]}: {error}") + "\n")
            return 1
        del words[at : at + 2]
    if [word for word in words if word != "--json"]:
        sys.stderr.write(f"{USAGE}\n")
        return 2
    try:
        snapshot = who_has_what(conf)
    except (NRIError, CgroupError) as error:
        sys.stderr.write(escape(f"konfine show: {error}") + "\n")
        return 1
    has_color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    text = gojson.dumps(snapshot).decode() if as_json else "\n".join(picture(snapshot, has_color=has_color))
    sys.stdout.write(f"{text}\n")
    return 0


def _of_entry(path: str) -> KonfineConf:
    """Return the first conf of konfine in a host configuration."""
    with open(path, "rb") as file:
        value: Any = gojson.loads(file.read())
    confs = [entry.get("conf") for entry in value["plugins"] if entry["type"] == "konfine"]
    if not confs:
        raise NRIError("found no entry of konfine")
    return KonfineConf.from_value(confs[0])


def who_has_what(conf: KonfineConf) -> dict[str, Any]:
    """Return the topology, and the holders of CPUs, the containers that have some alone first, as JSON.

    :raises NRIError: the record, or the topology, cannot be read.
    """
    state = State(conf.run, conf.sys)
    try:
        state.load()
    except OSError as error:
        raise NRIError(f"{state.directory}/{FILE}: {error.strerror}; expected to be root") from error
    holders: list[dict[str, Any]] = []
    pools: dict[str, list[str]] = {}
    for entry in state.containers.values():
        if entry["kind"] == "exclusive":
            holders.append({"kind": "exclusive", "name": entry["name"], "cpus": entry["cpus"]})
        elif entry["kind"] == "pool":
            pools.setdefault(entry["pool"], []).append(entry["name"])
    known = {pool.name: render_cpus(pool.cpus) for pool in conf.pools if pool.cpus is not None} | state.pools
    for name, members in pools.items():
        holders.append({"kind": "pool", "name": name, "cpus": known.get(name, ""), "containers": sorted(members)})
    return {
        "topology": state.topology.to_value(),
        "reserved": render_cpus(conf.system_reserved),
        "holders": sorted(holders, key=lambda holder: (holder["kind"], holder["name"])),
        "shared": sum(entry["kind"] == "shared" for entry in state.containers.values()),
    }


def picture(snapshot: dict[str, Any], *, has_color: bool) -> list[str]:
    """Return the lines: packages, nodes and caches, a cell for each core with a sign for each of its threads."""
    from nri.cgroups import parse_cpus

    topology, signs, colors = Topology.from_value(snapshot["topology"]), {}, {}
    reserved, legend = parse_cpus(snapshot["reserved"]), []
    for number, holder in enumerate(snapshot["holders"]):
        sign = _SIGNS[number % len(_SIGNS)]
        for cpu in parse_cpus(holder["cpus"]):
            signs[cpu], colors[cpu] = sign, _COLORS[number % len(_COLORS)]
        members = f" ({len(holder['containers'])} containers)" if "containers" in holder else ""
        about = f"{holder['kind']} {escape(holder['name'])}{members}: {holder['cpus'] or 'as configured'}"
        legend.append(f"{sign}  {about}")
    lines = []
    for package_number, package in enumerate(topology.packages):
        lines.append(f"package {package_number}")
        for node, node_cpus in topology.nodes.items():
            if not (of_node := node_cpus & package):
                continue
            lines.append(f"  node {node}{'' if node in topology.memory else ', without memory'}")
            for cache in [cache & of_node for cache in topology.caches if cache & of_node]:
                lines += _row(topology, cache, reserved, signs, colors if has_color else {})
    lines += [f"node {node}: no CPUs" for node, cpus in topology.nodes.items() if not cpus]
    free = topology.online - topology.isolated - reserved - signs.keys()
    lines += ["", *legend, f".  shared by {snapshot['shared']} containers: {render_cpus(free) or 'none'}"]
    lines += [f"#  reserved: {snapshot['reserved']}"] if reserved else []
    lines += [f"i  isolated: {render_cpus(topology.isolated)}"] if topology.isolated else []
    return [line if len(line) <= WIDTH or "\x1b" in line else f"{line[: WIDTH - 1]}…" for line in lines]


def _row(
    topology: Topology, cache: frozenset[int], reserved: frozenset[int], signs: dict[int, str], colors: dict[int, int]
) -> list[str]:
    """Return the lines of a cache: its CPUs, and its cores; those of slower types after a bar."""
    head = f"    {render_cpus(cache):<15.15} "
    lines, line, used = [], head, len(head)
    for kind, of_kind in topology.kinds.items():
        cores = [core & cache for core in topology.cores if core & cache & of_kind]
        if cores and used > len(head):
            line, used = f"{line}| ", used + 2
        for core in cores:
            cell = "".join([_sign(cpu, topology, reserved, signs, colors) for cpu in sorted(core)])
            if used + len(core) + 1 > WIDTH - len(kind):
                lines.append(line.rstrip())
                line, used = " " * len(head), len(head)
            line, used = f"{line}{cell} ", used + len(core) + 1
        if cores and kind:
            line, used = f"{line}{kind} ", used + len(kind) + 1
    return [*lines, line.rstrip()]


def _sign(
    cpu: int, topology: Topology, reserved: frozenset[int], signs: dict[int, str], colors: dict[int, int]
) -> str:
    sign = signs.get(cpu) or ("#" if cpu in reserved else "i" if cpu in topology.isolated else ".")
    return f"\x1b[{colors[cpu]}m{sign}\x1b[0m" if cpu in colors else sign
