"""``nri run``: try a plugin while writing it."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from nri.cli import options
from nri.errors import NRIError, escape
from nri.types.v1 import STATES

if TYPE_CHECKING:
    from nri.adaptation import EventError, Outcome
    from nri.adaptation.lifecycle import LifecycleEvent
    from nri.authoring.in_process import Asked
    from nri.skel import Plugin


@click.command()
@click.argument("path", metavar="PLUGIN.py")
@click.option(
    "--request", "request_file", metavar="FILE", help="Send this request instead of a pod's life; - for stdin."
)
@click.option("--runtime", metavar="NAME", help="Send a request as this runtime does: containerd-2.1, podman, …")
@click.option("--state", type=options.type_state, help="The state of that request.  [default: create]")
@options.conf(help="The plugin's conf; by default that of a *.conf beside it.")
@click.option("--annotation", "annotations", multiple=True, metavar="KEY=VALUE", help="Annotation of every pod.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label of every pod.")
@click.option("--pods", default=1, type=click.IntRange(1, 100), show_default=True, help="Number of pods.")
@click.option("--containers", default=1, type=click.IntRange(0, 100), show_default=True, help="Containers in each.")
@click.option(
    "--cgroups",
    default="v2",
    type=click.Choice(["v1", "v2", "hybrid", "real"]),
    show_default=True,
    help="Plain files that answer as the kernel does, or the node's own.",
)
@click.option("--watch", is_flag=True, help="Again at every save, with what has changed since.")
@options.plain_errors
def run(
    path: str,
    request_file: str | None,
    runtime: str | None,
    state: str | None,
    conf: Any,
    annotations: tuple[str, ...],
    labels: tuple[str, ...],
    pods: int,
    containers: int,
    cgroups: str,
    watch: bool,
) -> None:
    """Try a plugin while writing it.

    Sends it the requests of a pod's life, from an embedded runtime through the bridge, and prints its results, what
    it has written to cgroups, and all that it prints, tracebacks in full. Nothing of the node is changed, unless
    --cgroups real makes cgroups there, which are removed again.

    \b
    Examples:
      nri run --watch pinner.py
      nri run pinner.py --annotation class.example.com=batch --containers 2
      nri run pinner.py --runtime podman --state delete
      nri run pinner.py --request request.json --cgroups v1

    Exit status: 1 also when the plugin answered with an error.
    """
    if getattr(sys, "frozen", False):
        raise NRIError(
            "this nri is a compiled executable, which can't load PLUGIN.py: use the nri of `pip install nri`"
        )
    if request_file is not None and runtime is not None:
        raise click.UsageError("expected one of --request and --runtime")
    if state is not None and runtime is None:
        raise click.UsageError("--state goes with --runtime: a pod's life has all states, and --request has its own")
    if watch:
        from nri.authoring.watching import Watcher

        if not os.path.exists(path):
            raise NRIError(f"{escape(path)}: found nothing there; expected a plugin's source file or its folder")
        words = [word for word in sys.argv[2:] if word != "--watch"]
        folder = path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path))
        Watcher(folder, click.echo).run(["run", *words])
        return
    import logging

    from nri.authoring import in_process

    logging.getLogger("nri").addHandler(logging.NullHandler())  # the output has the same
    given = options.pairs("--annotation", annotations), options.pairs("--label", labels)
    source = in_process.find_plugin(path)
    plugin = in_process.load(source)
    request = None if request_file is None else options.read_request(request_file)
    if request is not None and conf is None:
        conf = request.conf
    conf = _conf(conf, source, plugin)
    show = _Show()
    with in_process.cgroups(cgroups) as (tree, top):
        if request is not None:
            show.asked(in_process.ask(plugin, in_process.below(request.replace(conf=conf), top), tree))
        elif runtime is not None:
            made = in_process.request_of(runtime, state or "create", conf, *given, tree=tree, top=top)
            show.asked(in_process.ask(plugin, made, tree))
        else:
            from nri.authoring import pod_lives

            states = [str(each) for each in plugin.acts_on or STATES]
            with pod_lives.bridged(plugin, conf, states, tree, show.asked) as embedded:
                pod_lives.live(embedded, pod_lives.lives(pods, containers, *given, top=top), tree, show.event)
    if show.failed:
        raise click.exceptions.Exit(1)


class _Show:
    """Prints what a plugin was asked and has answered, without times: two runs of the same plugin print the same."""

    def __init__(self) -> None:
        self.failed = False

    def asked(self, asked: Asked) -> None:
        request, result = asked.request, asked.result
        path = (request.get("spec") or {}).get("cgroupsPath", "")
        who = f"{request.get('state')} {_name(request)}"
        error = result.get("error") or ""
        self.failed |= bool(error)
        metadata = " ".join([f"{key}={value}" for key, value in (result.get("metadata") or {}).items()])
        click.secho(escape(f"{who}: {f'error: {error}' if error else metadata or 'ok'}"), fg="red" if error else None)
        for key in ("cgroupsPath", "adjust", "updates"):
            if result.get(key):
                click.echo(escape(f"  {key}: {json.dumps(result[key])}"))
        for file, text in asked.writes:
            click.echo(escape(f"  wrote {_short(file, path)}: {text}"))
        for line in asked.stderr.splitlines():
            click.secho(f"  {escape(line)}", dim=True)

    def event(self, item: LifecycleEvent, outcome: Outcome | None, error: EventError | None) -> None:
        found = error or (outcome.error if outcome is not None else None)
        if found is not None:
            from nri.v2.api import events

            self.failed = True
            click.secho(escape(f"  {events.BY_EVENT[item.event].rpc} fails: {found.message}"), fg="red")


def _name(request: dict[str, Any]) -> str:
    """Return ``POD/CONTAINER`` or ``POD`` as far as the request has the names; else the beginning of the id."""
    from nri.skel.scopes import CONTAINER_NAME_KEYS

    annotations = (request.get("spec") or {}).get("annotations") or {}
    pod = (request.get("labels") or {}).get("io.kubernetes.pod.name", "")
    container = next((annotations[key] for key in CONTAINER_NAME_KEYS if key in annotations), "")
    if request.get("id") == request.get("sandboxID"):
        return pod or "sandbox"
    return "/".join([name for name in (pod, container or str(request.get("id"))[:12]) if name])


def _short(file: str, path: str) -> str:
    """Return a cgroup file's name without the path of the container's own cgroup."""
    from nri.cgroups.paths import expand

    own = expand(path) if path else ""
    directory, _, knob = file.rpartition("/")
    return knob if directory in (own, "app") else file


def _conf(given: Any, source: str, plugin: Plugin) -> Any:
    from nri.authoring.sample_conf import conf_beside

    if given is not None:
        return given
    conf, file = conf_beside(source, plugin.type)
    if file:
        click.secho(f"the conf is that of {escape(os.path.basename(file))}", dim=True)
    return conf
