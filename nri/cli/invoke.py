"""``nri invoke``: runs the chain once, by hand."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import click

from nri.adjust import Abilities, Changes, OCIAbilities
from nri.adjust.fields import NEWEST_OCI, walk
from nri.cli import options, output
from nri.client import ChainError, Client, Invoker, Step, read_config, spec_from_oci
from nri.client.chain import as_shown
from nri.client.oci import oci_from_spec
from nri.config.entries import types_of
from nri.config.site import Site
from nri.errors import escape
from nri.process.conversation import readable
from nri.process.spawn import prepare_process
from nri.types.v1 import Request, Result, State


@click.command()
@click.argument("state", type=options.type_state)
@click.option(
    "--request", "request_file", metavar="FILE", help="JSON file with the request; - for stdin."
)
@click.option(
    "--spec", "spec_file", metavar="FILE", help="OCI config.json from which the request is made."
)
@click.option("--id", "container", metavar="ID", help="Id of the container, with --spec.")
@click.option(
    "--pid",
    default=0,
    type=click.IntRange(min=0),
    help="Pid of the container's init process, with --spec.",
)
@click.option(
    "--annotation",
    "annotations",
    multiple=True,
    metavar="KEY=VALUE",
    help="Add an annotation to the spec.",
)
@click.option(
    "--label", "labels", multiple=True, metavar="KEY=VALUE", help="Add a label of the pod sandbox."
)
@click.option("--dry-run", is_flag=True, help="Print the requests, and run no plugin.")
@click.option("--trace", is_flag=True, help="Print each plugin's request, result and time.")
@options.timeout
@options.host
@options.as_json
@options.plain_errors
def invoke(
    state: str,
    request_file: str | None,
    spec_file: str | None,
    container: str | None,
    pid: int,
    annotations: tuple[str, ...],
    labels: tuple[str, ...],
    dry_run: bool,
    trace: bool,
    timeout: float,
    host: Site,
    as_json: bool,
) -> None:
    """Run the chain once, by hand, and print the results.

    Reads the request from a file (--request), or makes it from a container's OCI configuration (--spec and --id). For
    setup it prints the changes that the plugins ask for. A line names each plugin that its entry's "when" keeps
    from running, and why.

    \b
    Examples:
      nri invoke create --request request.json --trace
      nri invoke create --spec config.json --id test --pid 1234 --annotation qos.class=ls
      nri invoke delete --request - --json < request.json
      nri invoke update --request request.json --dry-run
      nri invoke setup --spec config.json --id test
    """
    request, config = _subject(state, request_file, spec_file, container, pid)
    more = options.pairs("--annotation", annotations)
    if more:
        spec = request.shown
        request = request.replace(spec=spec.replace(annotations={**spec.annotations, **more}))
    request = request.replace(labels={**request.labels, **options.pairs("--label", labels)})
    # prepare_process() changes the directory.
    places = host.replace(bin_dirs=map(os.path.abspath, host.bin_dirs))
    invoker = _AsABridge(places.bin_dirs, check_owner=places.check_owner)
    client = Client(places.load(), invoker, timeout=timeout)
    changes = _changes(request, config)
    if not as_json:
        _print_left_out(client, request, state)
    if dry_run:
        _print_requests(client, as_shown(request, changes), state, as_json)
        return
    prepare_process()
    try:
        steps = client.invoke(
            request,
            state,
            log=lambda plugin, line: click.echo(escape(f"{plugin}: {line}"), err=True),
            on_step=_print_step if trace and not as_json else None,
            changes=changes,
        )
    except ChainError as error:
        _print(error.steps, changes, trace=trace, as_json=as_json)
        raise
    _print(steps, changes, trace=trace, as_json=as_json)


def _print(steps: Sequence[Step], changes: Changes, *, trace: bool, as_json: bool) -> None:
    """Print what the plugins have answered; with a trace for people they are printed already."""
    if as_json:
        value_of = _step_value if trace else _result_value
        output.print_json(list(map(value_of, steps)))
        return
    if not trace:
        output.print_table(("PLUGIN", "RESULT"), map(_row, steps))
    _print_changes(changes)


def _result_value(step: Step) -> dict[str, Any]:
    return _result_of(step).to_value()


def _changes(request: Request, config: dict[str, Any] | None) -> Changes:
    """Return what takes the changes that the plugins ask for.

    :param config: the container's OCI configuration; None to make it from the request, whose host may have shown
        less than an OCI runtime has.
    """
    spec = request.shown
    abilities = OCIAbilities("an OCI runtime", lambda: NEWEST_OCI)
    if config is None:
        abilities.extensions = Abilities.extensions | request.extensions
        return Changes(abilities, oci_from_spec(spec))
    return Changes(abilities, config | {"annotations": spec.annotations})


def _subject(
    state: str,
    request_file: str | None,
    spec_file: str | None,
    container: str | None,
    pid: int,
) -> tuple[Request, dict[str, Any] | None]:
    """Return the request of a file, or about a container's OCI configuration, with that.

    :raises UsageError: not one of them is given, or the container's id and pid are missing or too much.
    """
    if (request_file is None) == (spec_file is None):
        raise click.UsageError("expected one of --request and --spec")
    if spec_file is None:
        if container is not None or pid:
            raise click.UsageError("--id and --pid need --spec; a --request has its own id and pid")
        return options.read_request(str(request_file)).replace(state=State(state)), None
    if container is None:
        raise click.UsageError("--spec needs the container's --id")
    config = read_config(spec_file)
    spec = spec_from_oci(config)
    return Request(state=state, id=container, pid=pid, spec=spec), config


def _result_of(step: Step) -> Result:
    """Return the result of a plugin; for one that has failed or refused a result that says so."""
    if step.result is not None:
        return step.result
    result = Result(plugin=step.plugin.type)
    if step.error is not None:
        result = result.replace(error=step.error.reason, refused=step.error.refused)
    return result


def _row(step: Step) -> tuple[str, str]:
    if step.error is not None:
        return step.plugin.type, output.failure(step, step.error.reason)
    return step.plugin.type, output.assigned(_result_of(step).metadata) or "-"


def _print_left_out(client: Client, request: Request, state: str) -> None:
    listed = client.config.wanted_in(state)
    for plugin in listed:
        if not client.invoker.acts_on(plugin.type, state):
            click.echo(escape(f"# {plugin.type} does not run: it does not act on {state}"))
    types = types_of(client.config.plugins)
    for plugin, reason in client.skipped(state, request):
        entry = ""
        if types.count(plugin.type) > 1:
            entry = f" ({plugin.place})"
        click.echo(escape(f"# {plugin.type}{entry} does not run: {reason}"))
    if not listed:
        click.echo(f"no plugin is configured for {state}")


class _AsABridge(Invoker):
    """Runs no plugin in a state that it does not act on, as it says."""

    def acts_on(self, plugin: str, state: str) -> bool:
        return self.says_it_acts_on(plugin, state)


def _print_changes(changes: Changes) -> None:
    for field, value in walk(changes.adjust):
        click.echo(escape(f"adjust {field.name}: {json.dumps(value)}"))
    for update in changes.updates.values():
        click.echo(escape(f"update of {update['id']}: {json.dumps(update['resources'])}"))


def _print_requests(client: Client, request: Request, state: str, as_json: bool) -> None:
    asked = request.replace(version=client.config.version)
    judged = client.judged(state, asked)
    requests = []
    for plugin, undecided in judged:
        requests.append(asked.replace(conf=plugin.conf, undecided=undecided).to_value())

    if as_json:
        output.print_json(requests)
    else:
        for (plugin, _), value in zip(judged, requests, strict=True):
            click.echo(f"# to {plugin.type}, without the results of the plugins before it")
            output.print_json(value)


def _print_step(step: Step) -> None:
    binary = step.binary or "not run"
    click.secho(escape(f"{step.plugin.type}  {binary}  {step.seconds * 1000:.1f} ms"), bold=True)
    value = _step_value(step)
    for name in ("request", "result"):
        if value[name] is not None:
            click.echo(f"  {name}: " + json.dumps(value[name], indent=2).replace("\n", "\n  "))
    if step.error is not None:
        if step.stdout:
            click.echo(f"  stdout: {readable(step.stdout[:4096])}")
        click.echo(f"  {escape(output.failure(step, step.error.reason))}")


def _step_value(step: Step) -> dict[str, Any]:
    value: dict[str, Any] = {"plugin": step.plugin.type, "binary": step.binary or None}
    value |= {"request": None, "result": None, "error": None, "seconds": step.seconds}
    if step.request:
        value["request"] = json.loads(step.request)
    if step.result is not None:
        value["result"] = step.result.to_value()
    if step.error is not None:
        value["error"] = step.error.reason
    return value
