"""``nri simulate``: runs plugins of any kind through the lives of made-up pods, without a container runtime."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import click
from google.protobuf.message import Message

from nri.adaptation import EventError, Exchange, Outcome, Runtime
from nri.adaptation.fields import changed_fields, of_resources
from nri.adaptation.lifecycle import LifecycleEvent, Replayer, lives
from nri.authoring.simulated import Asked, Cgroups, FileCgroups, Installed, NodeCgroups
from nri.cgroups.paths import expand
from nri.cli import options, output
from nri.config.plugin_conf import unlisted_states
from nri.errors import escape
from nri.places import DEFAULT_BIN_DIRS
from nri.skel.scopes import container_name
from nri.types.v1 import Request, Result
from nri.v2 import api
from nri.v2.api import events
from nri.v2.api.runtimes import SENDS_ALONE, UNKNOWN, listed
from nri.v2.ttrpc import StatusError

PAUSE = 0.3
"""Seconds between two looks at the files of --watch."""

_NUMBER = click.IntRange(0, 10000)
_CGROUPS = click.Choice(["v1", "v2", "node"])
_shown = functools.partial(click.option, show_default=True)


@click.command()
@click.argument("plugins", nargs=-1, required=True, metavar="PLUGIN...")
@options.conf(
    help="Conf of a v0.1 plugin; by default its entry in a *.conf beside the source counts."
)
@_shown("--pods", default=1, type=_NUMBER, help="Number of pods.")
@_shown("--containers", default=1, type=_NUMBER, help="Number of containers in each pod.")
@click.option(
    "--annotation",
    "annotations",
    multiple=True,
    metavar="KEY=VALUE",
    help="Annotation of every pod.",
)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label of every pod.")
@_shown("--namespace", default="default", help="Namespace of every pod.")
@_shown(
    "--cpus",
    default=0.5,
    type=options.Number(0, 10000),
    help="CPU limit of every container; 0 for none.",
)
@_shown(
    "--memory",
    default=256,
    type=click.IntRange(0, 1 << 30),
    metavar="MIB",
    help="Memory limit; 0 for none.",
)
@_shown(
    "--cgroups",
    default="v2",
    type=_CGROUPS,
    help="Plain files for source files, or the node's own cgroups.",
)
@_shown(
    "--nodes",
    default=1,
    type=click.Choice(("1", "2", "4", "8")),
    help="NUMA nodes of the plain files' machine, which has the CPUs 0-7.",
)
@_shown(
    "--runtime",
    default="containerd:2.1",
    metavar="NAME:VERSION",
    help="The runtime's name and version.",
)
@options.path(
    "--bin-dir",
    "bin_dirs",
    multiple=True,
    default=DEFAULT_BIN_DIRS,
    metavar="DIR",
    help="For *.conf.",
)
@click.option(
    "--config-dir",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="Configuration of v2 plugins: NN-name.conf in DIR, else name.conf.",
)
@click.option(
    "--v2", "is_v2", is_flag=True, help="Executables that are not called NN-name are v2 plugins."
)
@options.seconds(
    "--timeout", default=2.0, help="Time that a v2 plugin, or a whole chain, has to answer."
)
@click.option("--watch", is_flag=True, help="Repeat at every save.")
@click.option(
    "-v", "--verbose", is_flag=True, help="Print each request, and why a plugin did nothing."
)
@options.as_json
@options.plain_errors
def simulate(
    plugins: tuple[str, ...],
    conf: Any,
    pods: int,
    containers: int,
    annotations: tuple[str, ...],
    labels: tuple[str, ...],
    namespace: str,
    cpus: float,
    memory: int,
    cgroups: str,
    nodes: str,
    runtime: str,
    bin_dirs: tuple[str, ...],
    config_dir: str | None,
    is_v2: bool,
    timeout: float,
    watch: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Try plugins on made-up pods, without a container runtime.

    PLUGIN is a plugin's source file or executable, a folder of *.conf with a host configuration, or a folder of v2
    plugins (NN-name). v0.1 plugins are run by the real bridge, with conditions, states and deadlines of their
    entries; v2 plugins are launched as a runtime does. All get the events of some pods' lives from an embedded
    runtime; answers are merged, and conflicts refused, as by NRI 0.12. Printed are requests, answers, what a source
    file writes to its cgroups, and all that the plugins print. Nothing of the node is changed, unless --cgroups node
    makes cgroups there, which are removed again.

    \b
    Examples:
      nri simulate --watch pinner.py
      nri simulate pinner.py --annotation class.example.com=batch --containers 2
      nri simulate ./resource.d --bin-dir ./dist/nri --cgroups node
      nri simulate ./10-logger

    Exit status: 1 also when a plugin did not start, or answered with an error.
    """
    if watch:
        _repeat(plugins)
        return
    options.end_cleanly()
    from nri.authoring import simulated

    "".join([namespace, *annotations, *labels]).encode()  # UnicodeEncodeError: one was not UTF-8
    name, _, version = runtime.partition(":")
    nri = _nri_of(runtime)
    about = {
        "annotations": options.pairs("--annotation", annotations),
        "labels": options.pairs("--label", labels),
        "namespace": namespace,
        "runtime": _requests_of(name, version),
    }
    given = simulated.sort(plugins, is_v2=is_v2)
    rows = _Document() if as_json else _Table()
    timeline = Timeline(rows, verbose=verbose, has_v2=bool(given.v2))
    with (
        tempfile.TemporaryDirectory(prefix="nri-simulate-") as place,
        _cgroups(cgroups, place, int(nodes)) as made,
    ):
        shown = []
        for number in range(pods):
            shown.append(made.pod(f"web-{number}", containers, cpus, memory << 20, **about))
        launched = []
        for index, kind, path in given.v2:
            file = simulated.launchable(path, f"{index}-{kind}", place)
            launched.append((index, kind, file))

        embedded = Runtime(
            name,
            version,
            plugins=launched,
            config_dir=config_dir,
            nri_version=nri,
            request_timeout=timeout,
            on_exchange=timeline.exchange,
            on_output=timeline.line,
        )
        with (
            timeline,
            embedded,
            simulated.bridged(embedded, given, conf, bin_dirs, made, place, timeline) as installed,
        ):

            def ended(
                item: LifecycleEvent, outcome: Outcome | None, error: EventError | None
            ) -> None:
                if outcome is not None:
                    made.follow(embedded.store, item, outcome)
                timeline.event(item, outcome, error)

            replayer = Replayer(embedded, ended)
            replayer.replay(_sent_by(name, lives(made.add(shown))))
    timeline.end(installed)
    if timeline.failed or replayer.failed:
        raise click.exceptions.Exit(1)


def _cgroups(kind: str, place: str, nodes: int) -> Cgroups:
    """Return the cgroups that are asked for."""
    if kind == "node":
        return NodeCgroups()
    return FileCgroups(kind, place, nodes)


def _nri_of(runtime: str) -> tuple[int, ...]:
    """Return the version of NRI in a runtime, given as NAME:VERSION.

    :raises BadParameter: it is not one that is known.
    """
    name, _, version = runtime.partition(":")
    if name in SENDS_ALONE:
        return UNKNOWN
    nri = listed(name, version)
    if nri is None:
        expected = "expected containerd:1.7 or later, cri-o:1.26 or later, or docker:29"
        raise click.BadParameter(f"found {runtime!r}, {expected}")
    return nri


def _requests_of(name: str, version: str) -> str:
    """Return the runtime whose requests a pod is made up with."""
    if name == "cri-o":
        return "cri-o-1.36"
    if version.startswith("1."):
        return "containerd-1.7"
    return "containerd-2.1"


def _sent_by(name: str, lifecycle: Iterator[LifecycleEvent]) -> Iterator[LifecycleEvent]:
    """Return the events that a runtime sends; docker sends setup alone."""
    for item in lifecycle:
        if name not in SENDS_ALONE or item.event == api.Event.CREATE_CONTAINER:
            yield item


def _repeat(paths: Sequence[str]) -> None:
    """Run the command in a process of its own, now and after each change of one of these files and of those beside
    it, or in the folder, until interrupted.
    """
    command = [sys.executable]
    if not getattr(sys, "frozen", False):
        command += ["-m", "nri.cli.entry"]
    words = sys.argv[1:]
    words.remove("--watch")
    command += words
    try:
        while True:
            seen = _times(paths)
            done = subprocess.run(command, check=False)
            click.echo(f"-- exit status {done.returncode}; waiting for a change")
            while _times(paths) == seen:
                time.sleep(PAUSE)
    except KeyboardInterrupt:
        return


def _times(paths: Sequence[str]) -> dict[str, int]:
    times = {}
    for path in paths:
        folder = path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path))
        # It may have been removed, and come again; or a file was just replaced.
        with contextlib.suppress(OSError):
            times[path] = os.stat(path).st_mtime_ns
            for name in os.listdir(folder):
                if name.endswith((".py", ".conf", ".json")):
                    file = os.path.join(folder, name)
                    times[file] = os.stat(file).st_mtime_ns
    return times


BRIDGE = "10-v1bridge"
"""The plugin that runs the v0.1 plugins."""

WIDTHS = {"EVENT": 20, "POD": 11, "PLUGIN": 12, "RESULT": 20, "TIME": 9}
"""The columns with their widths: 80 with the blanks between them."""

INDENT = " " * 2
OUTPUT_INDENT = " " * 4
"""Before a result that has lines of its own, and before a line that a plugin has printed."""


class Row(NamedTuple):
    """A line of the timeline."""

    event: str
    pod: str = ""
    container: str = ""
    plugin: str = ""
    result: str = ""
    error: str = ""
    seconds: float | None = None
    output: Sequence[str] = ()
    refused: bool = False


class _Table:
    """Prints each row at once, as a line of 80 columns.

    The columns have fixed widths. A name that is too long is cut in its middle, and a result that is too long has
    lines of its own.
    """

    def __init__(self) -> None:
        click.secho(_columns(*WIDTHS), bold=True)

    def add(self, row: Row) -> None:
        """Take a row."""
        pod = "/".join(filter(None, [row.pod, row.container]))
        result = escape(row.result)
        lines: list[str] = []
        if len(result) > WIDTHS["RESULT"]:
            lines += output.wrapped(result, INDENT)
            result = ""
        cells = _columns(row.event, pod or "-", row.plugin or "-", result, _time(row.seconds))
        color = "red" if row.error else None
        for line in (cells, *lines):
            click.secho(line, fg=color, dim=not row.plugin and not row.error)
        for printed in row.output:
            self._add_output(printed)

    def end(self) -> None:
        """Print what is left."""

    def _add_output(self, printed: str) -> None:
        is_json = printed.partition(": ")[2][:1] == "{"
        if is_json and not sys.stdout.isatty():  # for jq, and to be copied
            lines = [OUTPUT_INDENT + escape(printed)]
        else:
            lines = output.wrapped(printed, OUTPUT_INDENT)
        for line in lines:
            click.secho(line, dim=True)


class _Document(_Table):
    """Prints the rows as JSON at the end, with whole names."""

    def __init__(self) -> None:
        self._values: list[dict[str, Any]] = []

    def add(self, row: Row) -> None:
        """As for the base class: null where the row has no name, and no error."""
        value = row._asdict()
        for name in ("pod", "container", "plugin", "error"):
            value[name] = value[name] or None
        self._values.append(value)

    def end(self) -> None:
        """As for the base class."""
        output.print_json(self._values)


class Timeline:
    """Makes a row of each call of a plugin as it ends.

    :param rows: takes them.
    :param verbose: print requests, the bridge's own calls, and why plugins are skipped.
    :param has_v2: there are v2 plugins: an event that none of them wants is shown.
    :ivar failed: True when a call of a plugin has failed.
    """

    def __init__(self, rows: _Table, *, verbose: bool, has_v2: bool) -> None:
        self.failed = False
        self._verbose = verbose
        self._has_v2 = has_v2
        self._ran: set[str] = set()  # the types of the plugins that have run
        self._reasons: dict[str, str] = {}  # why a plugin was skipped, by its type
        self._warnings = _Warnings()
        self._rows = rows
        self._calls = 0
        self._lines: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        logging.getLogger("nri").addHandler(self._warnings)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("nri").removeHandler(self._warnings)

    def line(self, plugin: str, line: str) -> None:
        """Keep a line that a plugin has printed."""
        with self._lock:
            self._lines.setdefault(plugin, []).append(line)

    def exchange(self, exchange: Exchange) -> None:
        """Print a call of a plugin, with the lines that the plugin has printed."""
        failure = exchange.error
        self.failed |= failure is not None
        is_reported = failure is None or exchange.event in events.BY_RPC
        if exchange.plugin == BRIDGE and is_reported and not self._verbose:
            return  # its plugins have rows of their own
        error = ""
        if failure is not None:
            reason = failure.message if isinstance(failure, StatusError) else str(failure)
            error = f"cut off: {reason}" if exchange.cut_off else f"error: {reason}"
        with self._lock:
            lines = self._lines.pop(exchange.plugin, [])
            self._calls += exchange.event in events.BY_RPC  # not a plugin that connects
            self._rows.add(
                Row(
                    exchange.event,
                    _name_in(exchange.request, "pod"),
                    _name_in(exchange.request, "container"),
                    exchange.plugin,
                    error or _result(exchange.request, exchange.response),
                    error,
                    exchange.seconds,
                    lines,
                )
            )

    def asked(self, asked: Asked) -> None:
        """Print a run of a v0.1 plugin."""
        step = asked.step
        request = Request.from_json(step.request)
        result = step.result or Result(plugin=step.plugin.type)
        error = ""
        shown = output.assigned(result.metadata) or "ok"
        if step.error is not None:
            error = step.error.reason.partition("; the end of its stderr: ")[0]
            shown = output.failure(step, error)
        lines = []
        if self._verbose:
            lines.append(f"request: {json.dumps(json.loads(step.request))}")
        lines += _asked_for(result)
        for file, text in asked.writes:
            lines.append(f"wrote {_knob(file, request)}: {text}")
        lines += asked.stderr
        self.failed |= bool(error)
        with self._lock:
            self._calls += 1
            self._ran.add(step.plugin.type)
            self._rows.add(
                Row(
                    request.state,
                    *_names(request),
                    step.plugin.type,
                    shown,
                    error,
                    step.seconds,
                    lines,
                    step.outcome == "refused",
                )
            )

    def skipped(self, plugin: str, reason: str) -> None:
        """Note why a plugin does not run."""
        with self._lock:
            self._reasons[plugin] = reason
            if self._verbose:
                self._rows.add(Row("(skipped)", plugin=plugin, result=reason))

    def event(
        self, item: LifecycleEvent, outcome: Outcome | None, error: EventError | None
    ) -> None:
        """Print the end of an event, if it failed or no plugin was called."""
        event = events.BY_EVENT[item.event].rpc
        container = _name_in(item, "container")
        is_shown = self._has_v2 or self._verbose
        with self._lock:
            if error is not None:
                result = f"{event} fails: {error.message}"
                self._rows.add(Row(event, item.pod.name, container, result=result, error=result))
            elif self._calls == 0 and is_shown:
                self._rows.add(Row(event, item.pod.name, container, result="no plugin wants it"))
            self._calls = 0

    def end(self, installed: Sequence[Installed]) -> None:
        """Print the remaining lines, and the JSON; on stderr what did not run, and why.

        :param installed: the v0.1 plugins.
        """
        for plugin, lines in self._lines.items():
            self._rows.add(Row("(closed)", plugin=plugin, output=lines))
        self._rows.end()
        for line in self._warnings.lines:
            click.echo(f"note: {line}", err=True)
        for plugin_ in installed:
            for line in self._notes_on(plugin_):
                click.echo(f"note: {line}", err=True)

    def _notes_on(self, plugin: Installed) -> list[str]:
        type_ = plugin.entry.type
        notes = []
        if plugin.note:
            notes.append(f"{type_}: {plugin.note}")
        notes += filter(None, [unlisted_states(plugin.entry, plugin.states)])
        if type_ not in self._ran:
            reason = self._reasons.get(type_, "none of its states came")
            notes.append(f"{type_} did not run: {reason}")
        return notes


class _Warnings(logging.Handler):
    """Keeps warnings about residents, and drops what else is logged: rows say it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "nri.client":
            self.lines.append(record.getMessage())


def _names(request: Request) -> tuple[str, str]:
    """Return the pod's name and the container's, "" for the sandbox."""
    pod = request.labels.get("io.kubernetes.pod.name", "")
    if request.is_sandbox:
        return pod, ""
    return pod, container_name(request) or request.id[:12]


def _name_in(request: object, part: str) -> str:
    """Return the name of the pod or container that a request is about; "" for none."""
    return getattr(getattr(request, part, None), "name", "")


def _knob(file: str, request: Request) -> str:
    """Return the name of a cgroup's file, without the path of the container's own cgroup."""
    directory, _, knob = file.rpartition("/")
    if request.cgroups_path and directory == expand(request.cgroups_path):
        return knob
    return file


def _asked_for(result: Result) -> list[str]:
    """Return what a result asks for, a line for each key."""
    value = result.to_value()
    lines = []
    for key in ("cgroupsPath", "adjust", "updates"):
        if value.get(key):
            lines.append(f"{key}: {json.dumps(value[key])}")
    return lines


def _columns(*cells: str) -> str:
    widths = [*WIDTHS.values()]
    shown = list(map(_cut, map(escape, cells), widths))
    named = map(str.ljust, shown[:-1], widths)
    return "  ".join([*named, shown[-1].rjust(WIDTHS["TIME"])]).rstrip()


def _cut(text: str, width: int) -> str:
    """Return a name in at most ``width`` characters; its end often tells it from others."""
    end = width // 2
    if len(text) <= width:
        return text
    return f"{text[: width - end - 1]}…{text[-end:]}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 9:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds:.1f} s"


def _result(request: Message, response: Message | None) -> str:
    """Return the result of a plugin's call in words."""
    words: list[str] = []
    if isinstance(response, api.ConfigureResponse):
        wanted = events.names(response.events)
        words.append(f"wants {', '.join(wanted) or 'everything'}")
    if isinstance(request, api.SynchronizeRequest):
        words.append(f"{len(request.pods)} pods, {len(request.containers)} containers")
    if isinstance(response, api.CreateContainerResponse):
        names = changed_fields(response.adjust)
        if names:
            words.append(f"sets {', '.join(names)}")
    if isinstance(response, api.ValidateContainerAdjustmentResponse) and response.reject:
        words.append(f"rejects: {response.reason}")
    for update in getattr(response, "update", ()):
        changed = changed_fields(of_resources(update.linux.resources))
        words.append(f"updates {update.container_id[:12]}: {', '.join(changed)}")
    for eviction in getattr(response, "evict", ()):
        words.append(f"evicts {eviction.container_id[:12]}: {eviction.reason}")
    return "; ".join(words) or "ok"
