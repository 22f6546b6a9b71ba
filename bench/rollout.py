"""A simulation of a rollout to a fleet: how far a plugin gets that fails on one node in fifty.

The rules are those of the DaemonSet controller and of the kubelet, as far as they decide that:

- With ``maxUnavailable``, a pod is replaced only while fewer pods than that are unavailable. An updated pod is
  available when it has been ready for ``minReadySeconds``, and no longer when it is not ready any more.
- With ``maxSurge``, a new pod starts beside the old one. Its bridge stands by, and the old bridge answers its probe,
  so it is always available in the end; then the old pod is removed. Pods that get worse afterwards stop nothing.
- A pod is ready after the first probe that succeeds, and not ready after ``failureThreshold`` probes that fail.
- ``nri status --check`` fails while a plugin cannot be loaded, or its last run has failed.
- A change of a ConfigMap in place reaches all nodes of a group within :data:`KUBELET`, whatever the probes say.

A wave is a group of nodes with a DaemonSet of its own. The next wave begins when all pods of the waves before it are
available, and still are after a pause; otherwise the rollout has stopped. Run with ``python -m bench.rollout``.
"""

from __future__ import annotations

import heapq
import math
import random
import statistics
import sys
from dataclasses import dataclass, replace

PERIOD, FAILURES = 10.0, 2
"""Seconds between two probes, and the failures after which a pod is not ready: deploy/kubernetes."""

KUBELET = 90.0
"""Seconds within which a kubelet notices a changed ConfigMap: its sync period of 60 s, and the age of its cache."""

SEEDS = range(25)

FLEET = 10_000
"""Nodes."""


@dataclass(frozen=True, kw_only=True)
class Wave:
    """A group of nodes, one after the other.

    :param max_unavailable: also the surge, of a wave with ``surge``.
    """

    nodes: int
    max_unavailable: int
    surge: bool = False
    in_place: bool = False


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A rollout; times in seconds.

    :param pause: between the end of a wave and the beginning of the next one.
    :param replacing: from the end of the old pod until the new bridge is connected.
    :param starts: containers that start on a node each day, with the plugin.
    :param bad: the share of nodes on which the plugin fails.
    :param fails_loading: it cannot be loaded there, instead of failing when it is run.
    :param reaction: until somebody has noticed that the rollout has stopped, and undone it.
    """

    waves: tuple[Wave, ...]
    pause: float = 3600.0
    min_ready: float = 30.0
    replacing: float = 15.0
    starts: float = 200.0
    bad: float = 1 / 50
    fails_loading: bool = False
    reaction: float = 1800.0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a rollout: nodes with the plugin, nodes where it fails, failed starts of containers, seconds."""

    nodes: int
    bad: int
    failed_starts: int
    seconds: float
    is_complete: bool


class Rollout:
    """One rollout; the same seed gives the same nodes and times."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self._plan = plan
        self._random = random.Random(seed)
        self._changes: list[tuple[float, int]] = []  # time, and by how much the number of unavailable pods changes
        self._unavailable = 0
        self._time = 0.0
        self._began_failing: list[float] = []
        self._nodes = 0

    def run(self) -> Outcome:
        """Run it to its end, or until it stops by itself."""
        is_complete = False
        for number, wave in enumerate(self._plan.waves, 1):
            self._run_wave(wave)
            is_last = number == len(self._plan.waves)
            if self._unavailable == 0 and not is_last:
                self._go_to(self._time + self._plan.pause)
            is_complete = is_last and self._nodes == sum(each.nodes for each in self._plan.waves)
            if self._unavailable:
                break
        end = self._time + self._plan.reaction
        days = sum(max(0.0, end - began) for began in self._began_failing) / 86400
        return Outcome(
            nodes=self._nodes,
            bad=len(self._began_failing),
            failed_starts=round(days * self._plan.starts),
            seconds=self._time,
            is_complete=is_complete,
        )

    def _run_wave(self, wave: Wave) -> None:
        """Update the nodes of a wave, until they are updated and available, or nothing goes on."""
        if wave.in_place:
            for _ in range(wave.nodes):
                self._update(self._time + self._random.uniform(0, KUBELET), wave)
            self._go_to(self._time + KUBELET)
            return
        left = wave.nodes
        surging: list[float] = []  # the times at which pods beside old ones are available
        while left:
            if (len(surging) if wave.surge else self._unavailable) < wave.max_unavailable:
                available = self._update(self._time, wave)
                if wave.surge:
                    heapq.heappush(surging, available)
                left -= 1
            elif wave.surge:
                self._go_to(heapq.heappop(surging))
            elif not self._changes:
                return
            else:
                self._go_to(self._changes[0][0])
        if surging:
            self._go_to(max(surging))
        while self._unavailable and any(by < 0 for _, by in self._changes):
            self._go_to(self._changes[0][0])

    def _go_to(self, time: float) -> None:
        self._time = max(self._time, time)
        while self._changes and self._changes[0][0] <= self._time:
            self._unavailable += heapq.heappop(self._changes)[1]

    def _update(self, begun: float, wave: Wave) -> float:
        """Update a node; return when its new pod is available, infinity if it never is."""
        plan = self._plan
        self._nodes += 1
        is_bad = self._random.random() < plan.bad
        up = begun if wave.in_place else begun + plan.replacing
        first = up + self._random.uniform(0, PERIOD)  # the first probe
        available = first + plan.min_ready
        if wave.surge:
            up = available  # the old bridge serves until then
        until_run = self._random.expovariate(plan.starts / 86400)
        noticed = float("inf")
        if is_bad:
            self._began_failing.append(up)
            fault = up if plan.fails_loading else up + until_run
            probe = first + max(0, math.ceil((fault - first) / PERIOD)) * PERIOD
            # A pod that has never been ready needs no failures to be not ready.
            noticed = probe if probe == first else probe + (FAILURES - 1) * PERIOD
        if wave.in_place or wave.surge:
            if is_bad:
                heapq.heappush(self._changes, (noticed, 1))
            return available
        self._unavailable += 1
        if noticed < available:
            return float("inf")
        heapq.heappush(self._changes, (available, -1))
        if is_bad:
            heapq.heappush(self._changes, (noticed, 1))
        return available


def waves(*, surge: bool = False, in_place: bool = False) -> tuple[Wave, ...]:
    """Return waves of 10, 100, 1000 and the other nodes of a fleet of ten thousand."""
    sizes = ((10, 1), (100, 2), (1000, 10), (FLEET - 1110, 90))
    return tuple(Wave(nodes=nodes, max_unavailable=limit, surge=surge, in_place=in_place) for nodes, limit in sizes)


PLANS = {
    "one DaemonSet, maxUnavailable: 1": Plan(waves=(Wave(nodes=FLEET, max_unavailable=1),)),
    "one DaemonSet, maxUnavailable: 10": Plan(waves=(Wave(nodes=FLEET, max_unavailable=10),)),
    "one DaemonSet, maxUnavailable: 1%": Plan(waves=(Wave(nodes=FLEET, max_unavailable=100),)),
    "one DaemonSet, maxSurge: 1%": Plan(waves=(Wave(nodes=FLEET, max_unavailable=100, surge=True),)),
    "one ConfigMap, in place": Plan(waves=(Wave(nodes=FLEET, max_unavailable=0, in_place=True),)),
    "four waves, maxUnavailable": Plan(waves=waves()),
    "four waves, maxSurge": Plan(waves=waves(surge=True)),
    "four waves, ConfigMaps in place": Plan(waves=waves(in_place=True)),
}
"""The rollouts that docs/fleet.md compares."""


def table(*, fails_loading: bool) -> str:
    """Return a table of all plans: medians of :data:`SEEDS`, and the worst case of the nodes."""
    lines = [
        "| rollout | nodes reached | at worst | where it fails | failed starts | stops after | if all is well |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, plan in PLANS.items():
        found = [Rollout(replace(plan, fails_loading=fails_loading), seed).run() for seed in SEEDS]
        well = Rollout(replace(plan, bad=0.0), 0).run()
        nodes, bad, failed = (
            round(statistics.median(each))
            for each in ([o.nodes for o in found], [o.bad for o in found], [o.failed_starts for o in found])
        )
        stops = _hours(statistics.median(each.seconds for each in found)) if nodes < FLEET else "never"
        worst = max(each.nodes for each in found)
        lines.append(f"| {name} | {nodes} | {worst} | {bad} | {failed} | {stops} | {_hours(well.seconds)} |")
    return "\n".join(lines) + "\n"


def _hours(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.1f} h"


def figures() -> dict[str, str]:
    """Return the tables of docs/fleet.md, by name."""
    return {"loading": table(fails_loading=True), "running": table(fails_loading=False)}


if __name__ == "__main__":
    sys.stdout.write("\n".join(f"{name}:\n\n{text}" for name, text in figures().items()))
