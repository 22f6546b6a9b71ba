"""Computes the costs of NRI on ten thousand nodes, from the figures of docs/performance.md and measured sizes.

``python -m bench.fleet`` prints the tables of docs/fleet.md, those of :mod:`bench.rollout` included; ``--write``
puts them there. Run it after `make bench` has given docs/performance.md new figures.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench import rollout
from nri.metrics.series import series as series_of_a_node

if TYPE_CHECKING:
    from collections.abc import Sequence

DOCS = Path(__file__).parents[1] / "docs"
PAGE, FIGURES = DOCS / "fleet.md", DOCS / "performance.md"

NODES = rollout.FLEET
PODS = 200
"""Pods of one container that start and end on a node each day; the simulation's rollouts have the same."""

RUNNING = 30
"""Pods that run on a node at a time."""

DAY = 86400.0

BASE_LAYER = 28.2
"""MB, compressed: debian:bookworm-slim for amd64, as registries list it. Not measured here."""

OUR_LAYER = 15.4
"""MB, compressed by gzip: dist/nri of this version in a tar archive, measured; 25.2 MB uncompressed."""

LAYER_ON_NODE = 25.2
"""MB: the same, uncompressed. On the node it is there twice: in the image, and in /opt/nri; and its predecessor."""

NETWORK = 1.0
"""GB/s that the registry, or its mirrors together, deliver: 8 Gbit/s."""

CPU = 1.2
"""CPU time of bridge and residents for an event's duration, at most; measured: 0.9 to 1.2."""

PROBE, FOLLOW_PROBE, FOLLOW = 0.025, 0.0065, 0.055 / 120
"""CPU seconds of one `nri bridge --probe`, of one probe of follow-configuration, and of a second of it; measured."""


def performance() -> dict[str, float]:
    """Return the figures of docs/performance.md by the names of their rows; in ms, MB or s, as there."""
    rows = re.findall(r"^\| ([^|]+) \| ([0-9.]+) [^|]*\|", FIGURES.read_text(), re.MULTILINE)
    return {name: float(figure) for name, figure in rows}


def event_with_two() -> float:
    """Return the ms of an event with two resident plugins: half-way between one and three."""
    known = performance()
    return (known["one plugin, resident"] + known["three plugins, resident"]) / 2


def sizes() -> str:
    """Return what a rollout pulls and stores."""
    first, later = NODES * (BASE_LAYER + OUR_LAYER) / 1000, NODES * OUR_LAYER / 1000
    return _table(
        ("a rollout to 10,000 nodes", "each node", "all nodes", "at 8 Gbit/s"),
        [
            ("the first: base and our layer", f"{BASE_LAYER + OUR_LAYER:.1f} MB", f"{first:.0f} GB", _minutes(first)),
            ("a new version: our layer", f"{OUR_LAYER:.1f} MB", f"{later:.0f} GB", _minutes(later)),
            ("another configuration: a ConfigMap", "2 kB", "20 MB, from the API server", "-"),
            ("disk: image, /opt/nri, its predecessor", f"{3 * LAYER_ON_NODE:.0f} MB and the base", "-", "-"),
        ],
    )


def costs() -> str:
    """Return the delay and the CPU time of pods, and what is always there."""
    known, two = performance(), event_with_two()
    none = known["no plugin"]
    start = 2 * two + none
    life = 4 * two + none
    cpu = CPU * life / 1000
    probes = DAY / rollout.PERIOD * (PROBE + FOLLOW_PROBE) + DAY * FOLLOW
    memory = known["bridge, idle"] + known["its watchdog"]
    memory += 2 * known["a resident plugin"]
    return _table(
        ("two resident plugins", "a pod", "a node, each day", "10,000 nodes, each day"),
        [
            ("delay of the start of a pod", f"{start:.1f} ms", f"{start * PODS / 1000:.1f} s", "-"),
            ("delay of all its events", f"{life:.1f} ms", f"{life * PODS / 1000:.1f} s", "-"),
            ("CPU time of its events", f"{1000 * cpu:.0f} ms", f"{cpu * PODS:.1f} s", _cpus(cpu * PODS)),
            ("CPU time of the probes and of follow-configuration", "-", f"{probes:.0f} s", _cpus(probes)),
            ("memory", "-", f"{memory:.0f} MB", f"{memory * NODES / 1000:.0f} GB"),
        ],
    )


def series() -> str:
    """Return the series of metrics, by number of plugins."""
    rows = []
    for plugins in (1, 2, 3, 5, 10):
        each = series_of_a_node(plugins=plugins)
        rows.append((str(plugins), str(each), f"{each * NODES / 1e6:.2f} million", f"{each * NODES / 30:,.0f}"))
    return _table(("plugins", "a node", "10,000 nodes", "samples each second, every 30 s"), rows)


def figures() -> dict[str, str]:
    """Return the tables of docs/fleet.md by name."""
    return {"sizes": sizes(), "costs": costs(), "series": series(), **rollout.figures()}


def written(text: str) -> str:
    """Return the page with its tables replaced: each is between `<!-- table NAME -->` and an empty line."""
    for name, table in figures().items():
        mark = f"<!-- table {name} -->\n\n"
        before, _, rest = text.partition(mark)
        if not rest:
            raise SystemExit(f"{PAGE}: found no place for the table {name}")
        text = before + mark + table + re.sub(r"\A(?:\|.*\n)*", "", rest)
    return text


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _minutes(gigabytes: float) -> str:
    return f"{gigabytes / NETWORK / 60:.0f} min"


def _cpus(seconds: float) -> str:
    return f"{seconds * NODES / 3600:.0f} CPU hours: {seconds * NODES / DAY:.1f} CPUs"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(written(PAGE.read_text()))
    else:
        sys.stdout.write("\n".join(f"{name}:\n\n{text}" for name, text in figures().items()))
