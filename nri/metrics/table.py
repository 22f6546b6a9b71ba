"""The table of all metrics. docs/monitoring.md shows it; the text format and the number of series follow from it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from nri.metrics import readings

if TYPE_CHECKING:
    from nri.metrics.readings import Reading

PREFIX = "nri_v1bridge_"

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"
"""The kinds of metrics."""

PLUGIN = ("plugin", "source")
"""The labels of a plugin: its type, and the base name of the file with its entry."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetricRow:
    """A metric.

    :ivar name: the name in full, as in the text format.
    :ivar kind: GAUGE, COUNTER or HISTOGRAM.
    :ivar labels: the names of its labels.
    :ivar help: the help text, one sentence, with the unit if it has one.
    :ivar reading: the function from the status document to samples.
    :ivar per: what has one series (or one histogram) each, the name of a dimension of :mod:`nri.metrics.series`.
    :ivar times: how many series of each.
    """

    name: str
    kind: str
    labels: tuple[str, ...] = ()
    help: str
    reading: Reading
    per: str = "node"
    times: int = 1


def _row(
    name: str,
    kind: str,
    help: str,
    reading: Reading,
    labels: tuple[str, ...] = (),
    *,
    per: str = "node",
    times: int = 1,
) -> MetricRow:
    return MetricRow(name=PREFIX + name, kind=kind, labels=labels, help=help, reading=reading, per=per, times=times)


UP = PREFIX + "up"
"""1 if the bridge answers. It has no row below, since it is known without a document."""

UP_HELP = "1 if the bridge has answered on its status socket, else 0; then this is its only series."

TABLE = (
    _row(
        "build_info", GAUGE, "1; its labels are the bridge's version.", readings.build, ("version", "commit", "date")
    ),
    _row(
        "start_time_seconds",
        GAUGE,
        "When the bridge's process started, in seconds since 1970.",
        readings.number("bridge", "started"),
    ),
    _row("connected", GAUGE, "1 if a runtime is connected, 0 if the bridge looks for one.", readings.connected),
    _row(
        "runtime_info",
        GAUGE,
        "1; its labels are the runtime's name, its version, and its version of NRI.",
        readings.runtime,
        ("name", "version", "nri"),
    ),
    _row(
        "runtime_connected_timestamp_seconds",
        GAUGE,
        "When the runtime connected last, in seconds since 1970.",
        readings.number("runtime", "since"),
    ),
    _row(
        "runtime_connections_total",
        COUNTER,
        "How often a runtime has configured this bridge: one more than the reconnects.",
        readings.number("runtime", "connections"),
    ),
    _row(
        "configuration_valid",
        GAUGE,
        "1 if the files of the host configuration are valid, 0 if the last valid configuration is used, or none.",
        readings.number("configuration", "valid"),
    ),
    _row("configuration_faults", GAUGE, "Faults in the files of the host configuration.", readings.faults),
    _row(
        "configuration_last_valid_timestamp_seconds",
        GAUGE,
        "Since when the configuration in use counts, in seconds since 1970; absent if there has been no valid one.",
        readings.number("configuration", "since"),
    ),
    _row(
        "configuration_rejected_timestamp_seconds",
        GAUGE,
        "Since when the files have been invalid, in seconds since 1970; absent while they are valid.",
        readings.number("configuration", "rejectedSince"),
    ),
    _row(
        "plugin_info",
        GAUGE,
        "1 for each plugin; its label is the build that the executable answered, empty if it was not asked.",
        readings.plugin_builds,
        (*PLUGIN, "build"),
        per="plugin",
    ),
    _row(
        "plugin_usable",
        GAUGE,
        "1 if the plugin has an executable that can be run, else 0.",
        readings.plugin_usable,
        PLUGIN,
        per="plugin",
    ),
    _row(
        "plugin_resident_state",
        GAUGE,
        "1 for the plugin's state as a resident, 0 for the other states: ready, starting, off, failed.",
        readings.plugin_resident,
        (*PLUGIN, "resident"),
        per="plugin",
        times=len(readings.RESIDENT_STATES),
    ),
    _row(
        "plugin_runs_total",
        COUNTER,
        "Runs of the plugin by state of the request and outcome: ok, error, killed, passed_over.",
        readings.plugin_runs,
        (*PLUGIN, "state", "outcome"),
        per="state",
        times=len(readings.OUTCOME_LABELS),
    ),
    _row(
        "plugin_duration_seconds",
        HISTOGRAM,
        "Seconds that a run of the plugin took.",
        readings.plugin_seconds,
        PLUGIN,
        per="plugin",
    ),
    _row(
        "plugin_last_run_ok",
        GAUGE,
        "1 if the plugin's last run was ok, else 0; absent before its first run.",
        readings.plugin_last,
        PLUGIN,
        per="plugin",
    ),
    _row(
        "plugin_last_error_timestamp_seconds",
        GAUGE,
        "When the plugin failed last, in seconds since 1970; absent if it has not.",
        readings.plugin_last_error,
        PLUGIN,
        per="plugin",
    ),
    _row(
        "events_total",
        COUNTER,
        "Events of the runtime that were answered, also with an error.",
        readings.events("answered"),
        ("event",),
        per="event",
    ),
    _row(
        "events_failed_total",
        COUNTER,
        "Events that were answered with an error.",
        readings.events("errors"),
        ("event",),
        per="event",
    ),
    _row(
        "events_late_total",
        COUNTER,
        "Events that were not answered before their deadline.",
        readings.events("late"),
        ("event",),
        per="event",
    ),
    _row(
        "events_near_deadline_total",
        COUNTER,
        "Events that took more than half of the time that the runtime gives.",
        readings.events("nearDeadline"),
        ("event",),
        per="event",
    ),
    _row(
        "event_duration_seconds",
        HISTOGRAM,
        "Seconds from the arrival of an event to its answer.",
        readings.event_seconds,
        ("event",),
        per="event",
    ),
    _row(
        "event_waiting_seconds",
        HISTOGRAM,
        "Seconds from the arrival of an event until a handler takes it, of all events.",
        readings.waiting_seconds,
    ),
    _row(
        "late_creates_pending",
        GAUGE,
        "Late creates that are waiting or running.",
        readings.late_creates("waiting", "running"),
        ("state",),
        times=2,
    ),
    _row(
        "late_creates_total",
        COUNTER,
        "Late creates that have ended, by outcome: succeeded, failed.",
        readings.late_creates("succeeded", "failed"),
        ("outcome",),
        times=2,
    ),
    _row(
        "log_lines_lost_total",
        COUNTER,
        "Lines that the log could not take.",
        readings.number("log", "lost"),
    ),
)
"""All metrics of a bridge that answers, in the order of the text format."""
