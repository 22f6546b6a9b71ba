"""``nri simulate``: runs plugins of any kind through the lives of made-up pods, without a container runtime."""

from __future__ import annotations

import functools
import logging
import os
import sys
import tempfile
from typing import Any

import click

from nri.adaptation import EventError, Outcome, Runtime
from nri.adaptation.lifecycle import LifecycleEvent, PodTemplate, Replayer
from nri.cli import options
from nri.cli.timeline import Timeline
from nri.errors import NRIError
from nri.places import DEFAULT_BIN_DIRS
from nri.v2.api.runtimes import nri_version

_NUMBER = click.IntRange(0, 10000)
_CGROUPS = click.Choice(["v1", "v2", "hybrid", "node"])
_shown = functools.partial(click.option, show_default=True)


@click.command()
@click.argument("plugins", nargs=-1, required=True, metavar="PLUGIN...")
@options.conf(help="Conf of a v0.1 plugin; by default its entry in a *.conf beside the source counts.")
@_shown("--pods", default=1, type=_NUMBER, help="Number of pods.")
@_shown("--containers", default=1, type=_NUMBER, help="Number of containers in each pod.")
@click.option("--annotation", "annotations", multiple=True, metavar="KEY=VALUE", help="Annotation of every pod.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label of every pod.")
@_shown("--namespace", default="default", help="Namespace of every pod.")
@_shown("--cpus", default=0.5, type=click.FloatRange(0), help="CPU limit of every container; 0 for none.")
@_shown("--memory", default=256, type=click.IntRange(0), metavar="MIB", help="Memory limit; 0 for none.")
@_shown("--cgroups", default="v2", type=_CGROUPS, help="Plain files for source files, or the node's own cgroups.")
@_shown("--cgroup-parent", default=PodTemplate.cgroup_parent, help="Parent cgroup of the pods: path or slice.")
@click.option(
    "--pid", default=0, type=click.IntRange(0, 2**31), help="PID of every process, instead of made-up ones."
)
@_shown("--runtime", default="containerd:2.1", metavar="NAME:VERSION", help="The runtime's name and version.")
@options.path("--bin-dir", "bin_dirs", multiple=True, default=DEFAULT_BIN_DIRS, metavar="DIR", help="For *.conf.")
@click.option("--config-dir", metavar="DIR", help="Configuration of v2 plugins: NN-name.conf in DIR, else name.conf.")
@click.option("--v2", "is_v2", is_flag=True, help="Executables that are not called NN-name are v2 plugins.")
@options.seconds("--timeout", default=2.0, help="Time that a v2 plugin, or a whole chain, has to answer.")
@click.option("--watch", is_flag=True, help="Again at every save, with what has changed since.")
@click.option("-v", "--verbose", is_flag=True, help="Print each request, and why a plugin did nothing.")
@click.option("--untimed", is_flag=True, hidden=True)  # of --watch, so that a run is like the one before
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
    cgroup_parent: str,
    pid: int,
    runtime: str,
    bin_dirs: tuple[str, ...],
    config_dir: str | None,
    is_v2: bool,
    timeout: float,
    watch: bool,
    verbose: bool,
    untimed: bool,
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
        from nri.authoring.watching import Watcher

        for path in plugins:
            if not os.path.exists(path):
                raise NRIError(f"{path}: found nothing there; expected a plugin's source file or its folder")
        folder = plugins[0] if os.path.isdir(plugins[0]) else os.path.dirname(os.path.abspath(plugins[0]))
        words = [word for word in sys.argv[2:] if word != "--watch"]
        Watcher(folder, click.echo).run(["simulate", "--untimed", *words])
        return
    from nri.authoring import simulated

    name, _, version = runtime.partition(":")
    template = PodTemplate(
        annotations=options.pairs("--annotation", annotations),
        labels=options.pairs("--label", labels),
        namespace=namespace,
        cpus=cpus,
        memory=memory << 20,
        pid=pid,
        cgroup_parent=cgroup_parent if cgroups != "node" else f"/nri-simulate-{os.getpid()}",
    )
    logging.getLogger("nri").addHandler(logging.NullHandler())  # the timeline shows the same
    given = simulated.sort(plugins, is_v2=is_v2)
    files = [*given.sources, *[path for _, _, path in given.v2]]
    if getattr(sys, "frozen", False) and any(path.endswith(".py") for path in files):
        why = "this nri is a compiled executable, which can't load PLUGIN.py: use the nri of its wheel"
        raise NRIError(why)
    timeline = Timeline(as_json=as_json, verbose=verbose, has_v2=bool(given.v2), timed=not untimed)
    with tempfile.TemporaryDirectory(prefix="nri-simulate-") as place:
        embedded = Runtime(
            name,
            version or "0",
            plugins=[
                (index, each, simulated.launchable(path, f"{index}-{each}", place)) for index, each, path in given.v2
            ],
            config_dir=config_dir,
            nri_version=nri_version(name, version),
            request_timeout=timeout,
            on_exchange=timeline.exchange,
            on_output=timeline.line,
        )
        with embedded, simulated.bridged(embedded, given, conf, bin_dirs, cgroups, place, timeline.asked) as follow:

            def ended(item: LifecycleEvent, outcome: Outcome | None, error: EventError | None) -> None:
                if outcome is not None:
                    follow(item, outcome)
                timeline.event(item, outcome, error)

            replayer = Replayer(embedded, ended, before=lambda item: follow(item, None))
            replayer.replay(template.lives(pods, containers))
    timeline.end()
    if timeline.failed or replayer.failed:
        raise click.exceptions.Exit(1)
