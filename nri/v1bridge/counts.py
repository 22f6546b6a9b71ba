"""Counts of events and of runs, for the status of the bridge."""

from __future__ import annotations

import operator
import threading
import time
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

from nri.client import Step
from nri.client.chain import OUTCOMES, WORKS
from nri.config.entries import PluginEntry
from nri.errors import bounded, escape
from nri.files import identity
from nri.v1bridge.runs import Run
from nri.v2.ttrpc import Call

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of the histograms, in seconds: from a resident plugin to more than a runtime's timeout."""

MAX_PLUGINS = 256
"""Plugins, by type and file, whose runs are counted; the counts of the one that ran longest ago are dropped."""

MAX_ERROR = 1024
MAX_NAME = 1024
"""Bytes of a plugin's last error, and of the name of a pod and container."""

MAX_REFUSALS = 64
"""Pods and containers that plugins have refused, which are kept; the oldest are dropped."""


class Counts:
    """Counts events and runs, as docs/status.md has them.

    Any thread may note; readers hold ``lock``.

    :param events: the names of the events to come, which are counted from 0.
    """

    def __init__(self, events: Iterable[str] = ()) -> None:
        self.lock = threading.Lock()
        self._events = {event: _event(event) for event in events}
        # By type and file, the latest last.
        self._plugins: dict[tuple[str, str], dict[str, Any]] = {}
        # The entry and executable that have run last.
        self._tried: dict[tuple[str, str], tuple[PluginEntry, tuple[int, ...]]] = {}
        # The latest last.
        self._refusals: dict[tuple[str, str, str, str | None], dict[str, Any]] = {}

    def answered(self, call: Call) -> None:
        """Count an event that has been answered."""
        seconds = call.answered - call.received
        with self.lock:
            counts = self._events.setdefault(call.event, _event(call.event))
            counts["answered"] += 1
            counts["errors"] += call.has_failed
            counts["late"] += call.is_late
            counts["nearDeadline"] += seconds > (call.deadline - call.received) / 2
            _add(counts["seconds"], seconds)
            _add(counts["waiting"], call.begun - call.received)

    def events(self) -> list[dict[str, Any]]:
        """Return the events as the status has them, by name."""
        return sorted(self._events.values(), key=operator.itemgetter("event"))

    def runs(self, plugin: PluginEntry, binary: str) -> dict[str, Any]:
        """Return what is counted for a plugin, as the status has it.

        :param binary: its executable; the last outcomes are those of this one and this entry.
        """
        key = plugin.type, plugin.source
        runs = self._plugins.get(key, _runs())
        if self._tried.get(key) == (plugin, identity(binary)):
            return runs
        return runs | {"last": {}}

    def refusals(self) -> list[dict[str, Any]]:
        """Return what plugins have refused and not admitted since, as the status has it, the latest last."""
        return [*self._refusals.values()]

    def ran(self, run: Run) -> None:
        """Count the runs of a chain."""
        pod, container = split_name(bounded(run.name, MAX_NAME))
        about = {"time": round(time.time(), 3), "state": str(run.request.state)}
        about |= {"pod": pod, "container": container}
        with self.lock:
            for step in run.steps:
                self._count(step, about)

    def _count(self, step: Step, about: dict[str, Any]) -> None:
        """Count a run.

        :param about: its time and state, and the pod and container.
        """
        plugin = step.plugin.type
        state = about["state"]
        outcome = step.outcome
        key = plugin, step.plugin.source
        runs = self._plugins[key] = self._plugins.pop(key, _runs())
        tried = step.plugin, step.identity
        if self._tried.get(key) != tried:
            self._tried[key] = tried
            runs["last"] = {}
        runs["runs"].setdefault(state, dict.fromkeys(OUTCOMES, 0))[outcome] += 1
        _add(runs["seconds"], step.seconds)
        error = None
        if step.error is not None:
            error = bounded(escape(step.error.reason), MAX_ERROR)
        run = {"outcome": outcome, "since": about["time"], **about, "error": error}
        before = runs["last"].get(state, run)
        if outcome not in WORKS and before["outcome"] not in WORKS:
            run["since"] = before["since"]
        if step.error is None or not step.error.abandoned:
            runs["last"][state] = run
        subject = plugin, state, about["pod"], about["container"]
        refusal = self._refusals.pop(subject, {"since": about["time"], "count": 0})
        if outcome == "refused":
            self._refusals[subject] = {"plugin": plugin, **refusal, **about, "error": error}
            self._refusals[subject]["count"] += 1
            if len(self._refusals) > MAX_REFUSALS:
                del self._refusals[next(iter(self._refusals))]
        elif step.error is not None:
            runs["lastError"] = about | {"error": error}
        if len(self._plugins) > MAX_PLUGINS:
            oldest = next(iter(self._plugins))
            del self._plugins[oldest], self._tried[oldest]


def split_name(name: str) -> tuple[str, str | None]:
    """Return ``NAMESPACE/POD`` and the container, None for the sandbox, of ``NAMESPACE/POD[/CONTAINER]``."""
    namespace, _, rest = name.partition("/")
    pod, _, container = rest.partition("/")
    return f"{namespace}/{pod}", container or None


def _histogram() -> dict[str, Any]:
    return {"bounds": BOUNDS, "counts": [0] * (len(BOUNDS) + 1), "sum": 0.0}


def _add(histogram: dict[str, Any], seconds: float) -> None:
    histogram["counts"][bisect_left(BOUNDS, seconds)] += 1
    histogram["sum"] += seconds


def _event(name: str) -> dict[str, Any]:
    counts = dict.fromkeys(("answered", "errors", "late", "nearDeadline"), 0)
    return {"event": name, **counts, "seconds": _histogram(), "waiting": _histogram()}


def _runs() -> dict[str, Any]:
    return {"runs": {}, "seconds": _histogram(), "last": {}, "lastError": None}
