"""``nri simulate``: the lives of pods, as v2 plugins see them, without a container runtime."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from nri import api
from nri.adaptation import AdaptationError, EventError, Exchange, Outcome, Runtime, merge
from nri.adaptation.discover import parse_name
from nri.adaptation.lifecycle import PodTemplate, Step
from nri.adaptation.recording import read, write
from nri.adaptation.replay import Replayer
from nri.adaptation.runtime import STYLES
from nri.api import events
from nri.cli import options, output
from nri.config.entries import MAX_TIMEOUT
from nri.errors import escape
from nri.ttrpc import StatusError

if TYPE_CHECKING:
    from google.protobuf.message import Message

WAIT_TIMEOUT = 60.0
"""Seconds that plugins from outside have to connect."""


@click.command()
@click.option("--plugin", "plugins", multiple=True, metavar="PATH", help="An executable to launch; repeat for more.")
@click.option("--plugin-dir", metavar="DIR", help="Launch every executable NN-name in it, as a runtime does.")
@click.option("--config-dir", metavar="DIR", help="Where plugins' configuration is: NN-name.conf, else name.conf.")
@click.option("--socket", "socket_path", metavar="PATH", help="Listen there for plugins from outside.")
@click.option(
    "--wait", default=None, type=click.IntRange(0, 100), metavar="N", help="Begin once N of those are there."
)
@click.option("--pods", default=1, show_default=True, type=click.IntRange(0, 10000), help="How many live.")
@click.option("--containers", default=1, show_default=True, type=click.IntRange(0, 10000), help="In each pod.")
@click.option("--events", "events_file", metavar="FILE", help="Replay a recorded file instead.")
@click.option("--record", "record_file", metavar="FILE", help="Write the events to a file that --events replays.")
@click.option("--annotation", "annotations", multiple=True, metavar="KEY=VALUE", help="Of every pod.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Of every pod.")
@click.option(
    "--cgroup-parent", default=PodTemplate.cgroup_parent, show_default=True, help="Of every pod: path or slice."
)
@click.option("--pid", default=0, type=click.IntRange(0, 2**31), help="Of every process; made up where not given.")
@click.option(
    "--style", type=click.Choice(list(STYLES)), default="rpc", show_default=True, help="NRI 0.12, or before."
)
@click.option(
    "--timeout",
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    type=options.Seconds(0, MAX_TIMEOUT, min_open=True),
    help="That a plugin has for an answer.",
)
@options.as_json
@options.plain_errors
def simulate(
    plugins: tuple[str, ...],
    plugin_dir: str | None,
    config_dir: str | None,
    socket_path: str | None,
    wait: int | None,
    pods: int,
    containers: int,
    events_file: str | None,
    record_file: str | None,
    annotations: tuple[str, ...],
    labels: tuple[str, ...],
    cgroup_parent: str,
    pid: int,
    style: Any,
    timeout: float,
    as_json: bool,
) -> None:
    """Try v2 plugins on the lives of made-up pods, without a container runtime.

    Launches the plugins as a runtime does, sends them the events of some pods' lives, and prints what they do with
    each. Lines that a plugin prints stand below the event at which it did. The pods are the same each time.

    \b
    Examples:
      nri simulate --plugin ./10-logger
      nri simulate --plugin-dir /opt/nri/plugins --config-dir /etc/nri/conf.d --pods 3 --containers 2
      nri simulate --socket /tmp/nri/nri.sock --wait 1
      nri simulate --record life.jsonl
      nri simulate --plugin ./10-logger --events life.jsonl --style state-change

    Exit status: 1 also when a plugin did not start, was cut off or answered with an error.
    """
    if not plugins and plugin_dir is None and socket_path is None and record_file is None:
        raise click.UsageError("expected one of --plugin, --plugin-dir, --socket and --record")
    if wait is not None and socket_path is None:
        raise click.UsageError("--wait goes with --socket")
    shape = PodTemplate(
        annotations=options.pairs("--annotation", annotations),
        labels=options.pairs("--label", labels),
        cgroup_parent=cgroup_parent,
        pid=pid,
    )
    steps = read(events_file) if events_file is not None else list(shape.lives(pods, containers))
    if record_file is not None:
        _record(steps, record_file)
        if not plugins and plugin_dir is None and socket_path is None:
            return
    logging.getLogger("nri").addHandler(logging.NullHandler())  # the timeline says it all
    executables = [_executable(path, number) for number, path in enumerate(plugins)]
    timeline = Timeline(as_json=as_json)
    runtime = Runtime(
        plugin_dir=plugin_dir,
        plugins=executables,
        config_dir=config_dir,
        socket_path=socket_path,
        style=style,
        request_timeout=timeout,
        on_exchange=timeline.exchange,
        on_output=timeline.line,
    )
    with runtime:
        outside = (1 if socket_path is not None else 0) if wait is None else wait
        if not runtime.wait_for(outside, WAIT_TIMEOUT, outside=True):
            raise AdaptationError(f"{socket_path}: {outside} plugins did not come within {WAIT_TIMEOUT:g} s")
        player = Replayer(runtime, timeline.step)
        player.play(steps)
    timeline.end()
    if timeline.failed or player.failed:
        raise click.exceptions.Exit(1)


class Row(NamedTuple):
    """A line of the timeline."""

    event: str
    pod: str
    container: str
    plugin: str
    result: str
    error: str
    seconds: float | None
    lines: list[str]


class Timeline:
    """Prints what happens, as it does; as JSON at the end.

    :ivar failed: whether any call of a plugin has.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.failed = False
        self._as_json = as_json
        self._rows: list[Row] = []
        self._lines: dict[str, list[str]] = {}
        self._asked = 0
        self._lock = threading.Lock()
        if not as_json:
            click.secho(_columns("EVENT", "POD", "PLUGIN", "RESULT", "TIME"), bold=True)

    def line(self, plugin: str, line: str) -> None:
        """A plugin has printed a line."""
        with self._lock:
            self._lines.setdefault(plugin, []).append(line)

    def exchange(self, exchange: Exchange) -> None:
        """A plugin was called."""
        error = ""
        if exchange.error is not None:
            reason = exchange.error.message if isinstance(exchange.error, StatusError) else str(exchange.error)
            error = ("cut off: " if exchange.cut_off else "error: ") + reason
            self.failed = True
        pod, container = _subject(exchange.request)
        with self._lock:
            lines = self._lines.pop(exchange.plugin, [])
            result = error or _result(exchange.request, exchange.response)
            self._asked += 1
            self._add(Row(exchange.event, pod, container, exchange.plugin, result, error, exchange.seconds, lines))

    def step(self, step: Step, outcome: Outcome | None, error: EventError | None) -> None:
        """An event is over."""
        event, container = events.BY_EVENT[step.event].rpc, step.container.name if step.container is not None else ""
        with self._lock:
            if error is not None:
                result = f"{event} fails: {error.message}"
                self._add(Row(event, step.pod.name, container, "", result, result, None, []))
            elif self._asked == 0:
                self._add(Row(event, step.pod.name, container, "", "no plugin wants it", "", None, []))
            self._asked = 0

    def end(self) -> None:
        """Print what is left to be printed."""
        for plugin, lines in self._lines.items():
            if lines:
                self._add(Row("(closed)", "", "", plugin, "", "", None, lines))
        if self._as_json:
            output.print_json([_value(row) for row in self._rows])

    def _add(self, row: Row) -> None:
        if self._as_json:
            self._rows.append(row)
            return
        pod = f"{row.pod}/{row.container}" if row.container else row.pod
        milliseconds = f"{row.seconds * 1000:.1f} ms" if row.seconds is not None else ""
        text = _columns(row.event, pod or "-", row.plugin or "-", row.result, milliseconds)
        click.secho(text, fg="red" if row.error else None, dim=not row.plugin and not row.error)
        for line in row.lines:
            click.secho(f"    {escape(line)}", dim=True)


def _columns(*cells: str) -> str:
    widths = (20, 16, 16, 32, 0)
    return "  ".join([escape(cell).ljust(width) for cell, width in zip(cells, widths, strict=True)]).rstrip()


def _subject(request: Message) -> tuple[str, str]:
    known = request.DESCRIPTOR.fields_by_name
    pod = request.pod.name if "pod" in known else ""  # type: ignore[attr-defined]
    container = request.container.name if "container" in known else ""  # type: ignore[attr-defined]
    return pod, container


def _result(request: Message, response: Message | None) -> str:
    """What a plugin made of a request."""
    words: list[str] = []
    if isinstance(response, api.ConfigureResponse):
        wanted = [events.BY_EVENT[event].rpc for event in events.events(response.events & events.VALID)]
        words.append(f"wants {', '.join(wanted) or 'everything'}")
    if isinstance(request, api.SynchronizeRequest):
        words.append(f"{len(request.pods)} pods, {len(request.containers)} containers")
    if isinstance(response, api.CreateContainerResponse) and (names := merge.fields(response.adjust)):
        words.append(f"sets {', '.join(names)}")
    if isinstance(response, api.ValidateContainerAdjustmentResponse) and response.reject:
        words.append(f"rejects: {response.reason}")
    updates, evictions = getattr(response, "update", ()), getattr(response, "evict", ())
    words += [f"updates {update.container_id[:12]}: {', '.join(merge.fields(update))}" for update in updates]
    words += [f"evicts {eviction.container_id[:12]}: {eviction.reason}" for eviction in evictions]
    return "; ".join(words) or "ok"


def _value(row: Row) -> dict[str, Any]:
    return {
        "event": row.event,
        "pod": row.pod or None,
        "container": row.container or None,
        "plugin": row.plugin or None,
        "result": row.result,
        "error": row.error or None,
        "seconds": row.seconds,
        "output": row.lines,
    }


def _executable(path: str, number: int) -> tuple[str, str, str]:
    """Index, name and path of a plugin; one whose file is not called NN-name gets its place as index."""
    file = os.path.basename(path)
    try:
        index, name = parse_name(file)
    except AdaptationError:
        index, name = parse_name(f"{number:02d}-{file}")
    return index, name, os.path.abspath(path)


def _record(steps: list[Step], path: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            write(steps, file)
    except OSError as error:
        raise AdaptationError(f"{escape(path)}: can't be written: {error.strerror}") from error
