"""``nri simulate``: send v2 plugins the events of pods' lives, without a container runtime."""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import click

from nri.adaptation import AdaptationError, Runtime
from nri.adaptation.launched import parse_name
from nri.adaptation.lifecycle import LifecycleEvent, PodTemplate
from nri.adaptation.recording import Replayer, read, write
from nri.adaptation.runtime import STYLES
from nri.cli import options
from nri.cli.progress import Progress
from nri.cli.timeline import Timeline
from nri.errors import escape

WAIT_TIMEOUT = 60.0
"""Seconds that plugins from outside have to connect."""

_NUMBER, _STYLE = click.IntRange(0, 10000), click.Choice(list(STYLES))
_shown = functools.partial(click.option, show_default=True)


@click.command()
@click.option("--plugin", "plugins", multiple=True, metavar="PATH", help="Launch this executable. May be repeated.")
@click.option("--plugin-dir", metavar="DIR", help="Launch every executable NN-name in DIR, as a runtime does.")
@click.option(
    "--config-dir", metavar="DIR", help="Read plugins' configuration from DIR: NN-name.conf, else name.conf."
)
@click.option("--socket", "socket_path", metavar="PATH", help="Listen at PATH for plugins from outside.")
@click.option("--wait", type=click.IntRange(0, 100), metavar="N", help="Start when N plugins have connected there.")
@_shown("--pods", default=1, type=_NUMBER, help="Number of pods.")
@_shown("--containers", default=1, type=_NUMBER, help="Number of containers in each pod.")
@click.option("--events", "events_file", metavar="FILE", help="Replay the events of a recorded file instead.")
@click.option("--record", "record_file", metavar="FILE", help="Write the events to FILE, for --events.")
@click.option("--annotation", "annotations", multiple=True, metavar="KEY=VALUE", help="Annotation of every pod.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label of every pod.")
@_shown("--cgroup-parent", default=PodTemplate.cgroup_parent, help="Parent cgroup of the pods: path or slice.")
@click.option(
    "--pid", default=0, type=click.IntRange(0, 2**31), help="PID of every process, instead of made-up ones."
)
@_shown("--style", type=_STYLE, default="rpc", help="rpc: as NRI 0.12; state-change: as older ones.")
@options.seconds("--timeout", default=2.0, help="Time that a plugin has to answer.")
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
    """Try v2 plugins on made-up pods, without a container runtime.

    Launches the plugins as a runtime does, sends them the events of some pods' lives, and prints their answers.
    Lines that a plugin prints during an event follow it. The pods are the same each time. Answers are merged, and
    conflicts refused, as by NRI 0.12. A refused pod or container is stopped and removed at once, as by containerd.

    \b
    Examples:
      nri simulate --plugin ./10-logger
      nri simulate --plugin-dir /opt/nri/plugins --config-dir /etc/nri/conf.d --pods 3 --containers 2
      nri simulate --socket /tmp/nri/nri.sock --wait 1
      nri simulate --record life.jsonl
      nri simulate --plugin ./10-logger --events life.jsonl --style state-change

    Exit status: 1 also when a plugin did not start, was cut off or answered with an error.
    """
    has_plugins = bool(plugins) or plugin_dir is not None or socket_path is not None
    if not has_plugins and record_file is None:
        raise click.UsageError("expected one of --plugin, --plugin-dir, --socket and --record")
    if wait is not None and socket_path is None:
        raise click.UsageError("--wait goes with --socket")
    template = PodTemplate(
        annotations=options.pairs("--annotation", annotations),
        labels=options.pairs("--label", labels),
        cgroup_parent=cgroup_parent,
        pid=pid,
    )
    lifecycle = read(events_file) if events_file is not None else list(template.lives(pods, containers))
    if record_file is not None:
        try:
            with open(record_file, "w", encoding="utf-8") as file:
                write(lifecycle, file)
        except OSError as error:
            raise AdaptationError(f"{escape(record_file)}: can't be written: {error.strerror}") from error
        if not has_plugins:
            return
    logging.getLogger("nri").addHandler(logging.NullHandler())  # the timeline shows the same
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
    # Lines on a terminal are progress enough, and JSON for a program comes without any.
    with Progress(sys.stderr, is_quiet=_is_terminal(sys.stdout) != as_json) as progress:
        progress.show("starting plugins")
        with runtime:
            _await_plugins(runtime, socket_path, int(socket_path is not None) if wait is None else wait, progress)
            replayer = Replayer(runtime, timeline.event)
            replayer.replay(_counted(lifecycle, progress))
    timeline.end()
    if timeline.failed or replayer.failed:
        raise click.exceptions.Exit(1)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _await_plugins(runtime: Runtime, socket_path: str | None, count: int, progress: Progress) -> None:
    """Wait until so many plugins have connected from outside."""
    progress.show(f"waiting for {count} plugin{'s' if count != 1 else ''} at {socket_path}")
    if not runtime.wait_for(count, WAIT_TIMEOUT, outside=True):
        raise AdaptationError(f"{socket_path}: {count} plugins did not come within {WAIT_TIMEOUT:g} s")


def _counted(lifecycle: Sequence[LifecycleEvent], progress: Progress) -> Iterator[LifecycleEvent]:
    """Yield the events, and show how many were sent."""
    for number, item in enumerate(lifecycle):
        progress.show(f"{number} of {len(lifecycle)} events")
        yield item


def _executable(path: str, number: int) -> tuple[str, str, str]:
    """Return index, name and path of a plugin. A file that is not called NN-name gets its position as index."""
    file = os.path.basename(path)
    try:
        index, name = parse_name(file)
    except AdaptationError:
        index, name = parse_name(f"{number:02d}-{file}")
    return index, name, os.path.abspath(path)
