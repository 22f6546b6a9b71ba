"""From the status document to samples: a function for each metric, which yields label values with a value.

The documents are described in docs/status.md. Labels are bounded: a plugin's type, the base name of the file that
configures it, a state, an outcome, an event, a version. A pod or a container is never one, as each pod would leave
series behind.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from nri.errors import escape
from nri.metrics import histograms
from nri.status.shape import ERROR, KILLED, OK, PASSED_OVER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Document = Mapping[str, Any]
    Labels = tuple[str, ...]
    Sample = tuple[Labels, Any]  # a number, or the Buckets of a histogram
    Reading = Callable[[Document], Iterator[Sample]]

OUTCOME_LABELS = {OK: "ok", ERROR: "error", KILLED: "killed", PASSED_OVER: "passed_over"}
"""The label's value for each outcome of a run."""

RESIDENT_STATES = ("ready", "starting", "off", "failed")
"""The states of a resident; one that a later bridge adds has no series."""

MAX_LABEL = 128
"""Characters of a label's value; versions are texts of other programs."""


def label(value: object) -> str:
    """Return a label's value: printable, bounded, "" for a value that is not known."""
    return "" if value is None else escape(str(value)[:MAX_LABEL])[:MAX_LABEL]


def number(*path: str) -> Reading:
    """Return the reading of one number or flag, which yields nothing while its value is null."""

    def read(document: Document) -> Iterator[Sample]:
        value: Any = document
        for key in path:
            value = value[key]
        if value is not None:
            yield (), float(value)

    return read


def build(document: Document) -> Iterator[Sample]:
    """The bridge's own version."""
    bridge = document["bridge"]
    yield tuple(label(bridge[key]) for key in ("version", "commit", "date")), 1


def runtime(document: Document) -> Iterator[Sample]:
    """The runtime's name and versions, once it is known."""
    found = document["runtime"]
    if found["name"] is not None:
        yield tuple(label(found[key]) for key in ("name", "version", "nri")), 1


def connected(document: Document) -> Iterator[Sample]:
    """Whether the bridge has its runtime."""
    yield (), float(document["bridge"]["state"] == "connected")


def faults(document: Document) -> Iterator[Sample]:
    """How many faults the files have."""
    yield (), len(document["configuration"]["faults"])


def _plugins(document: Document) -> dict[Labels, list[Document]]:
    """The entries by their labels. Entries of one type and file share counts, and their series."""
    found: dict[Labels, list[Document]] = {}
    for plugin in document["plugins"]:
        labels = (label(plugin["type"]), label(os.path.basename(plugin["source"])))
        found.setdefault(labels, []).append(plugin)
    return found


def _counted(entries: list[Document]) -> list[Document]:
    """The entries whose counts are not those of another one: one for each file of that name."""
    return list({entry["source"]: entry for entry in entries}.values())


def plugin_builds(document: Document) -> Iterator[Sample]:
    """The builds of the plugins; "" where none is known."""
    for labels, entries in _plugins(document).items():
        for build_of in sorted({label(entry["build"]) for entry in entries}):
            yield (*labels, build_of), 1


def plugin_usable(document: Document) -> Iterator[Sample]:
    """Whether each plugin has an executable."""
    for labels, entries in _plugins(document).items():
        yield labels, float(all(entry["problem"] is None for entry in entries))


def plugin_resident(document: Document) -> Iterator[Sample]:
    """A state set: 1 for the state of a plugin as a resident, 0 for the others."""
    for labels, entries in _plugins(document).items():
        states = {entry["resident"]["state"] for entry in entries}
        for state in RESIDENT_STATES:
            yield (*labels, state), float(state in states)


def plugin_runs(document: Document) -> Iterator[Sample]:
    """The runs by state and outcome. A state that has not come yet has 0, so that its first run is an increase."""
    for labels, entries in _plugins(document).items():
        runs: dict[Labels, float] = {}
        for entry in _counted(entries):
            for state in (*entry["states"], *entry["runs"]):
                for outcome in OUTCOME_LABELS.values():
                    runs.setdefault((label(state), outcome), 0)
            for state, counts in entry["runs"].items():
                for key, outcome in OUTCOME_LABELS.items():
                    runs[label(state), outcome] += counts[key]
        for labelled, count in runs.items():
            yield (*labels, *labelled), count


def plugin_seconds(document: Document) -> Iterator[Sample]:
    """How long the plugins ran."""
    for labels, entries in _plugins(document).items():
        yield labels, histograms.add(histograms.read(entry["seconds"]) for entry in _counted(entries))


def plugin_last(document: Document) -> Iterator[Sample]:
    """Whether each plugin's last run was well, once it has run."""
    for labels, entries in _plugins(document).items():
        if known := [entry["last"] for entry in entries if entry["last"] is not None]:
            yield labels, float(all(last == OK for last in known))


def plugin_last_error(document: Document) -> Iterator[Sample]:
    """When each plugin failed last, if it has."""
    for labels, entries in _plugins(document).items():
        if times := [entry["lastError"]["time"] for entry in entries if entry["lastError"] is not None]:
            yield labels, float(max(times))


def events(key: str) -> Reading:
    """Return the reading of a count of each event."""

    def read(document: Document) -> Iterator[Sample]:
        for event in document["events"]:
            yield (label(event["event"]),), float(event[key])

    return read


def event_seconds(document: Document) -> Iterator[Sample]:
    """How long the events took."""
    for event in document["events"]:
        yield (label(event["event"]),), histograms.read(event["seconds"])


def waiting_seconds(document: Document) -> Iterator[Sample]:
    """How long events waited for a handler: of all events together, as they wait for the same handlers."""
    waits = [histograms.read(event["waiting"]) for event in document["events"]]
    if waits:
        yield (), histograms.add(waits)


def late_creates(*keys: str) -> Reading:
    """Return the reading of late creates by those keys, with the key as the label."""

    def read(document: Document) -> Iterator[Sample]:
        for key in keys:
            yield (key,), float(document["lateCreates"][key])

    return read
