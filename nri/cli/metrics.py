"""``nri metrics``: the bridge of this node for Prometheus, as a text, a file, or over HTTP.

This is a process of its own, so a scrape is never in the way of an event: each one asks the bridge at its status
socket. docs/status.md describes that document, docs/monitoring.md the metrics. Labels are bounded: a plugin's type,
the base name of the file that configures it, a state, an outcome, an event, a version. A pod or a container is never
one, as each would leave series behind.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from wsgiref.simple_server import WSGIServer

import click
from prometheus_client import (
    CollectorRegistry,
    generate_latest,
    start_http_server,
    write_to_textfile,
)
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from nri.cli import options
from nri.errors import NRIError, escape, reason_of
from nri.status.client import DEFAULT_STATUS_SOCKET, AskError, Reading, status
from nri.status.judging import CONNECTED, OUTCOMES, WORKS

LOOPBACK = "127.0.0.1"
ENDING = (signal.SIGTERM, signal.SIGINT)
"""The signals that end the command, with status 0."""

PREFIX = "nri_v1bridge_"

RESIDENT_STATES = ("ready", "starting", "waiting", "off", "failed")
"""The states of a plugin as a resident; one that a later bridge adds has no series."""

MAX_LABEL = 128
"""Characters of a label's value; versions are texts of other programs."""

_PLUGIN = ("plugin", "source")

Document = dict[str, Any]
Sample = tuple[tuple[object, ...], Any]
Samples = Iterable[Sample]


@click.command()
@click.option(
    "--listen",
    metavar="ADDRESS",
    help="Serve at HOST:PORT, path /metrics. Without HOST: loopback only.",
)
@options.path(
    "--textfile",
    metavar="PATH",
    help="Write to a *.prom file of node_exporter's textfile collector.",
)
@options.path(
    "--socket", default=DEFAULT_STATUS_SOCKET, metavar="PATH", help="The bridge's status socket."
)
@options.plain_errors
def metrics(listen: str | None, textfile: str | None, socket: str) -> None:
    """Print this node's bridge as series for Prometheus.

    If the bridge does not answer, the only series is `nri_v1bridge_up 0`, the reason is on stderr, and the exit
    status is 0. --listen runs until SIGTERM or SIGINT.

    \b
    Examples:
      nri metrics
      nri metrics --listen :10753
      nri metrics --textfile /var/lib/prometheus/node-exporter/nri.prom
    """
    if listen is not None and textfile is not None:
        raise click.UsageError("found --listen and --textfile, expected one of them")
    registry = CollectorRegistry()
    registry.register(BridgeCollector(socket, _report))
    if textfile is not None:
        try:
            write_to_textfile(textfile, registry)
        except OSError as error:
            raise NRIError(f"{textfile} cannot be written: {error.strerror}") from error
        return
    if listen is None:
        click.echo(generate_latest(registry), nl=False)
        return
    # Also in the threads to come; a signal before sigwait is kept for it.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    serve(listen, registry, _report)
    signal.sigwait(ENDING)


def serve(address: str, registry: CollectorRegistry, report: Callable[[str], None]) -> WSGIServer:
    """Serve the series at ``HOST:PORT`` in threads of their own; return the server.

    :raises click.BadParameter: it is no address.
    :raises NRIError: it cannot be listened on.
    """
    host, port = _address(address)
    try:
        server, _ = start_http_server(port, host, registry)
    except (OSError, UnicodeError) as error:  # the latter for a host that no name can be
        reason = f"{reason_of(error)}; expected an address of this machine and a free port"
        raise NRIError(f"cannot listen on {host} port {port}: {reason}") from None
    setattr(server, "handle_error", lambda *_: None)  # noqa: B010 - a peer that has gone would be a traceback
    name = f"[{host}]" if ":" in host else host
    report(f"serving http://{name}:{server.server_port}/metrics")
    return server


def _report(line: str) -> None:
    click.echo(escape(f"nri metrics: {line}"), err=True)


def _address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``, ``[IPv6]:PORT``, or ``:PORT``, which is loopback."""
    host, _, port = text.rpartition(":")
    is_port = re.fullmatch("[0-9]{1,5}", port) is not None
    if host == "*" or not is_port or int(port) > 65535:
        expected = "HOST:PORT, [IPv6]:PORT or :PORT up to 65535"
        raise click.BadParameter(
            f"found {text[:MAX_LABEL]!r}, expected {expected}", param_hint="'--listen'"
        )
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)


class BridgeCollector(Collector):
    """Asks the bridge at a socket for each scrape. One that does not answer is ``nri_v1bridge_up 0``.

    :param path: the bridge's status socket.
    :param report: takes a line for people: the reason for no answer, once for as long as it lasts, and its end.
    """

    def __init__(self, path: str, report: Callable[[str], None]) -> None:
        self._path = path
        self._report = report
        self._reason = ""

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; some may have no sample."""
        scraped: list[Metric] = []
        reason = ""
        try:
            with Reading(self._path):
                scraped = [*families(status(self._path))]
        except AskError as error:
            reason = str(error)
        if reason != self._reason:
            self._reason = reason
            self._report(reason or "the bridge answers again")
        help_text = (
            "1 if the bridge has answered on its status socket, else 0; then this is its only "
            "series."
        )
        yield GaugeMetricFamily(PREFIX + "up", help_text, float(not reason))
        yield from scraped


_BUILD = ("version", "commit", "date")


def families(document: Document) -> Iterator[Metric]:
    """Yield the metrics of a status, in the order of docs/monitoring.md."""
    bridge = document["bridge"]
    runtime = document["runtime"]
    configuration = document["configuration"]
    yield _info("build_info", "1; its labels are the bridge's version.", bridge, _BUILD)
    text = "1; its labels are the runtime's name, its version, and its version of NRI."
    yield _info("runtime_info", text, runtime, ("name", "version", "nri"))
    text = (
        "1; its label is the hash of the content of the configuration in use, as `nri check "
        "--hash` prints it."
    )
    yield _info("configuration_info", text, configuration, ("hash",))
    is_usable = document["record"]["fault"] is None
    is_refused = configuration["refused"] is not None
    for name, value, text in (
        (
            "start_time_seconds",
            bridge["started"],
            "When the bridge's process started, in seconds since 1970.",
        ),
        (
            "connected",
            bridge["state"] == CONNECTED,
            "1 if a runtime is connected, 0 if the bridge looks for one.",
        ),
        (
            "runtime_connected_timestamp_seconds",
            runtime["since"],
            "When the runtime connected, in seconds since 1970.",
        ),
        (
            "configuration_valid",
            configuration["valid"],
            "1 if the files of the host configuration are valid, else 0.",
        ),
        (
            "configuration_faults",
            len(configuration["faults"]),
            "Faults in the files of the host configuration.",
        ),
        (
            "configuration_last_valid_timestamp_seconds",
            configuration["since"],
            "When the configuration in use took effect.",
        ),
        (
            "configuration_rejected_timestamp_seconds",
            configuration["rejectedSince"],
            "Since when the files are invalid.",
        ),
        (
            "configuration_refused",
            is_refused,
            "1 if the last configuration that was applied was refused, else 0.",
        ),
        (
            "record_usable",
            is_usable,
            "1 if the record can be written, else 0: then a restart runs create again.",
        ),
    ):
        yield _gauge(name, text, _one(value))
    text = "How often a runtime has configured this bridge: one more than the reconnects."
    yield _counter("runtime_connections_total", text, _one(runtime["connections"]))
    text = "Lines that the log could not take."
    yield _counter("log_lines_lost_total", text, _one(document["log"]["lost"]))
    yield from _of_plugins(document["plugins"])
    yield from _of_events(document["events"])
    late = document["lateCreates"]
    pending = _samples(late, ("waiting", "running"))
    yield _gauge(
        "late_creates_pending", "Late creates that are waiting or running.", pending, ("state",)
    )
    ended = _samples(late, ("succeeded", "failed", "refused"))
    yield _counter("late_creates_total", "Late creates that have ended.", ended, ("outcome",))
    text = (
        "Pods and containers that run without their plugins, or without one of them, by cause: "
        "docs/status.md."
    )
    causes = document["without"]["causes"]
    yield _gauge("without_plugins", text, _samples(causes, causes), ("cause",))
    yield _outdated(document)


def _outdated(document: Document) -> Metric:
    counts: dict[str, Any] = {}
    for plugin in document["plugins"]:
        counts[plugin["type"]] = {"reapply": 0, "release": 0}
    for entry in document["outdated"]:
        counts[entry["plugin"]] = entry
    outdated = []
    for type_, count in counts.items():
        outdated.append(((type_, "reapply"), count["reapply"]))
        outdated.append(((type_, "release"), count["release"]))

    text = (
        "Pods and containers that run under an older configuration of a plugin, by what `nri "
        "reapply` would do."
    )
    return _gauge("outdated", text, outdated, ("plugin", "due"))


def _of_plugins(plugins: list[Document]) -> Iterator[Metric]:
    """Yield the metrics of the plugins. Entries of one type and file share counts, and their series."""
    shared: dict[tuple[str, str], list[Document]] = {}
    for plugin in plugins:
        key = plugin["type"], os.path.basename(plugin["source"])
        shared.setdefault(key, []).append(plugin)
    builds: list[Sample] = []
    usable: list[Sample] = []
    states: list[Sample] = []
    runs: list[Sample] = []
    well: list[Sample] = []
    times: list[Sample] = []
    seconds = []
    for key, entries in shared.items():
        first = entries[0]
        names = {}
        problems = set()
        outcomes = set()
        for entry in entries:
            names[entry["build"]] = 1
            problems.add(entry["problem"])
            for run in entry["last"].values():
                outcomes.add(run["outcome"])

        for build in names:
            builds.append(((*key, build), 1))
        usable.append((key, problems == {None}))
        for state in RESIDENT_STATES:
            states.append(((*key, state), first["resident"]["state"] == state))
        runs += _runs(key, entries)
        seconds.append((key, [first["seconds"]]))
        if outcomes:
            well.append((key, outcomes <= {*WORKS}))
        if first["lastError"]:
            times.append((key, first["lastError"]["time"]))
    text = (
        "1 for each plugin; its label is the build that the executable answered, empty if it was "
        "not asked."
    )
    yield _gauge("plugin_info", text, builds, (*_PLUGIN, "build"))
    text = "1 if the plugin has an executable that can be run, else 0."
    yield _gauge("plugin_usable", text, usable, _PLUGIN)
    text = (
        "1 for the plugin's state as a resident, 0 for the other states: ready, starting, "
        "waiting, off, failed."
    )
    yield _gauge("plugin_resident_state", text, states, (*_PLUGIN, "resident"))
    text = (
        "Runs of the plugin by state of the request and outcome: ok, error, killed, ignored, "
        "refused."
    )
    yield _counter("plugin_runs_total", text, runs, (*_PLUGIN, "state", "outcome"))
    text = "Seconds that a run of the plugin took."
    yield _histogram("plugin_duration_seconds", text, seconds, _PLUGIN)
    text = (
        "1 if the plugin's last run for each state was ok or refused, else 0; absent before its "
        "first run."
    )
    yield _gauge("plugin_last_run_ok", text, well, _PLUGIN)
    text = "When the plugin failed last, in seconds since 1970; absent if it has not."
    yield _gauge("plugin_last_error_timestamp_seconds", text, times, _PLUGIN)


def _runs(key: tuple[str, str], entries: list[Document]) -> list[Sample]:
    """Return the runs of a plugin. A state that has not come yet has 0, so that its first run is an increase."""
    counts = entries[0]["runs"]
    states = [*counts]
    for entry in entries:
        states += entry["states"]
    runs: list[Sample] = []
    for state in dict.fromkeys(states):
        for outcome in OUTCOMES:
            count = counts.get(state, {}).get(outcome, 0)
            runs.append(((*key, state, outcome), count))
    return runs


def _of_events(events: list[Document]) -> Iterator[Metric]:
    for name, key, text in (
        (
            "events_total",
            "answered",
            "Events of the runtime that were answered, also with an error.",
        ),
        ("events_failed_total", "errors", "Events that were answered with an error."),
        ("events_late_total", "late", "Events that were not answered before their deadline."),
        (
            "events_near_deadline_total",
            "nearDeadline",
            "Events that took more than half of their time.",
        ),
    ):
        samples = [((event["event"],), event[key]) for event in events]
        yield _counter(name, text, samples, ("event",))
    took = [((event["event"],), [event["seconds"]]) for event in events]
    yield _histogram(
        "event_duration_seconds",
        "Seconds from the arrival of an event to its answer.",
        took,
        ("event",),
    )
    if events:
        waits = [((), [event["waiting"] for event in events])]
    else:
        waits = []
    yield _histogram(
        "event_waiting_seconds",
        "Seconds from the arrival of an event until a handler takes it.",
        waits,
    )


def _one(value: Any) -> Samples:
    """Return the sample of a value without labels; none for None."""
    return [] if value is None else [((), value)]


def _samples(values: Document, keys: Iterable[str]) -> Samples:
    """Return a sample for each of some keys, which is its label."""
    return [((key,), values[key]) for key in keys]


def _info(name: str, help: str, values: Document, keys: tuple[str, ...]) -> Metric:
    """Return a gauge of 1 whose labels are some values; without a sample if the first one is not known."""
    labels = tuple([values[key] for key in keys])
    samples = [(labels, 1)] if labels[0] else []
    return _gauge(name, help, samples, keys)


def _gauge(name: str, help: str, samples: Samples, labels: tuple[str, ...] = ()) -> Metric:
    return _filled(GaugeMetricFamily(PREFIX + name, help, labels=labels), samples)


def _counter(name: str, help: str, samples: Samples, labels: tuple[str, ...] = ()) -> Metric:
    return _filled(CounterMetricFamily(PREFIX + name, help, labels=labels), samples)


def _filled(family: Any, samples: Samples) -> Metric:
    for labels, value in samples:
        family.add_metric(list(map(_label, labels)), float(value))
    return family  # type: ignore[no-any-return]


def _histogram(name: str, help: str, samples: Samples, labels: tuple[str, ...] = ()) -> Metric:
    """Return the histogram of values that the status counts once each, and Prometheus cumulatively.

    :param samples: each with the histograms that are added up; all histograms of a bridge have the same bounds.
    """
    family = HistogramMetricFamily(PREFIX + name, help, labels=labels)
    for labelled, parts in samples:
        counts = itertools.accumulate(map(sum, zip(*map(_counts, parts), strict=True)))
        bounds = [*map(str, map(float, parts[0]["bounds"])), "+Inf"]
        total = sum([part["sum"] for part in parts])
        buckets = list(zip(bounds, counts, strict=True))
        family.add_metric(list(map(_label, labelled)), buckets, total)
    return family


def _counts(histogram: Document) -> list[int]:
    counts: list[int] = histogram["counts"]
    return counts


def _label(value: object) -> str:
    """Return a label's value: printable, bounded, "" for a value that is not known."""
    if value is None:
        return ""
    return escape(str(value)[:MAX_LABEL])[:MAX_LABEL]
