"""``nri status``: asks the bridge of this node how it is."""

from __future__ import annotations

import sys

import click

from nri.cli import options, output
from nri.cli.status_page import page, pod_page
from nri.status import client
from nri.status.judging import judge
from nri.status.probe import probe

MAX_NAME = 253
"""Characters of a namespace and of a pod's name: the limit of Kubernetes."""


def _pod(context: click.Context, option: click.Parameter, value: str | None) -> tuple[str, str] | None:
    if value is None:
        return None
    namespace, _, name = value.partition("/")
    if not (0 < len(namespace) <= MAX_NAME and 0 < len(name) <= MAX_NAME) or "/" in name:
        raise click.BadParameter(f"found {value[:MAX_NAME]!r}, expected NAMESPACE/NAME", context, option)
    return namespace, name


@click.command()
@options.as_json
@click.option("--check", is_flag=True, help="Print one line, and exit with 0 (well), 1 (degraded) or 2 (no bridge).")
@click.option("--alive", is_flag=True, help="The same for liveness: 1 or 2 if a bridge hangs, 0 also without one.")
@click.option(
    "--pod", metavar="NAMESPACE/NAME", callback=_pod, help="Print the last exchanges with this pod instead."
)
@options.path("--socket", default=client.DEFAULT_STATUS_SOCKET, metavar="PATH", help="The bridge's status socket.")
@options.plain_errors
def status(as_json: bool, check: bool, alive: bool, pod: tuple[str, str] | None, socket: str) -> None:
    """Print how the bridge of this node is, and its plugins.

    Where no bridge runs, `nri check` says whether the configuration is valid and each plugin can run.

    \b
    Examples:
      nri status
      nri status --check
      nri status --pod default/web
      nri status --json | jq '.plugins[].last'
    """
    given = {"--check": check, "--alive": alive, "--pod": pod, "--json": as_json}
    chosen = [name for name, value in given.items() if value]
    if len(chosen) > 1 and chosen != ["--pod", "--json"]:
        raise click.UsageError(f"{chosen[0]} and {chosen[1]} exclude each other")
    if check or alive:
        verdict = probe(socket, is_alive=alive)
        _echo(verdict.line)
        raise click.exceptions.Exit(verdict.code)
    try:
        document = client.status(socket) if pod is None else client.exchanges(*pod, socket)
        if as_json:
            output.print_json(document)
        else:
            _echo("\n".join(page(document, judge(document)) if pod is None else pod_page(document)))
    except client.NoBridgeError as error:
        raise client.NoBridgeError(f"no bridge: {error}; without one, `nri check` looks at the plugins") from None
    except client.UNUSABLE as error:
        raise client.unusable(socket, error) from None


def _echo(text: str) -> None:
    """Print a text also where stdout's encoding lacks some of its characters."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    click.echo(text.encode(encoding, "backslashreplace").decode(encoding))
