"""``nri reapply``: has the bridge of this node bring running containers up to the configuration in use."""

from __future__ import annotations

import json
import sys
import time

import click

from nri.cli import options, output
from nri.errors import NRIError
from nri.status import client
from nri.status.judging import CONNECTED

EVERY = 0.5
"""Seconds between two looks at the progress."""


@click.command()
@click.option("--plugin", default="", metavar="TYPE", help="Only this plugin.")
@click.option("--namespace", default="", metavar="NS", help="Only pods of this namespace.")
@options.pod(help="Only this pod.")
@click.option("--dry-run", is_flag=True, help="Print what is due; do nothing.")
@options.as_json
@options.path(
    "--socket",
    default=client.DEFAULT_STATUS_SOCKET,
    metavar="PATH",
    help="The bridge's status socket.",
)
@options.plain_errors
def reapply(
    plugin: str, namespace: str, pod: str | None, dry_run: bool, as_json: bool, socket: str
) -> None:
    """Bring running containers up to the configuration in use.

    A plugin whose conf has changed gets a late create for them. One that is not configured for them any more gets a
    delete with "release", to give back what it has done: docs/changing-a-policy.md. `nri status` counts them.

    \b
    Examples:
      nri reapply --dry-run
      nri reapply --plugin konfine --namespace shop
    """
    if "/" in namespace:
        raise click.UsageError(f"--namespace {namespace}: expected a name")
    asked = {"plugin": plugin, "namespace": namespace, "pod": pod or "", "dryRun": dry_run}
    with client.Reading(socket):
        due = _ask(socket, asked)
        if due and not dry_run:
            _await(socket, asked, due)
        if as_json:
            output.print_json({"due": due})
        elif not due:
            click.echo("nothing to reapply or release")
        elif dry_run:
            rows = [[one["plugin"], one["what"], one["name"], one["id"][:12]] for one in due]
            output.print_table(("PLUGIN", "DUE", "CONTAINER", "ID"), rows)
        else:
            click.echo(f"done for {_count(due)} pods and containers")


def _await(socket: str, asked: dict[str, object], due: list[dict[str, str]]) -> None:
    """Wait until what is due has been done.

    :raises NRIError: some of it has failed.
    """
    _wait(socket, _count(due))
    left = [one for one in _ask(socket, asked | {"dryRun": True}) if one in due]
    if left:
        failed = f"{_count(left)} of {_count(due)} pods and containers have failed"
        raise NRIError(f"{failed}: nri status lists them")


def _count(due: list[dict[str, str]]) -> int:
    """Return the number of pods and containers."""
    return len({one["id"] for one in due})


def _ask(socket: str, asked: dict[str, object]) -> list[dict[str, str]]:
    """Return what is due.

    :raises NRIError: the bridge cannot do it.
    """
    answer = client.ask(socket, json.dumps({"reapply": asked}))
    if "error" in answer:
        raise NRIError(str(answer["error"]))
    due: list[dict[str, str]] = answer["reapply"]
    return due


def _wait(socket: str, count: int) -> None:
    """Show the progress until nothing waits.

    :raises NRIError: the bridge is disconnected.
    """
    while True:
        document = client.status(socket)
        late = document["lateCreates"]
        if document["bridge"]["state"] != CONNECTED:
            raise NRIError(
                "the runtime has disconnected the bridge; try again when it is connected"
            )
        left = late["waiting"] + late["running"]
        if sys.stdout.isatty():
            click.echo(f"\r{max(0, count - left)} of {count} pods and containers", nl=not left)
        if not left:
            break
        time.sleep(EVERY)
