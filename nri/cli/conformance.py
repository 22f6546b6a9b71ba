"""``nri conformance``: checks that an executable in any language keeps the contract of docs/spec.md."""

from __future__ import annotations

import os
from typing import Any

import click

from nri.cli import options, output
from nri.client import Invoker
from nri.config.entries import is_type_name
from nri.errors import NRIError, escape
from nri.places import DEFAULT_BIN_DIRS
from nri.process.spawn import prepare_process
from nri.testing.conformance import CHECKS, FAILS, CheckOutcome, check, report


def _find(binary: str, bin_dirs: tuple[str, ...]) -> str:
    """Return the absolute path of the executable: a path, or a type in one of the directories."""
    if is_type_name(binary) and not os.path.isfile(binary):
        try:
            return os.path.abspath(Invoker(bin_dirs, check_owner=False).find(binary))
        except NRIError as error:
            raise click.UsageError(str(error)) from None
    if not os.path.isfile(binary):
        raise click.UsageError(f"found no file {escape(binary)}, expected an executable or the type of a plugin")
    if not os.access(binary, os.X_OK):
        raise click.UsageError(f"{escape(binary)} is not executable: chmod +x")
    return os.path.abspath(binary)


@click.command()
@click.argument("binary")
@options.conf(help="Plugin conf for the requests.")
@click.option("--type", "plugin_type", metavar="TYPE", default="", help="The plugin's type; default: the file name.")
@click.option("-k", "word", metavar="WORD", default="", help="Only the checks whose id or title contains this.")
@click.option(
    "--request", "request_file", metavar="FILE", help="JSON file with what the requests are made of; - for stdin."
)
@click.option("--annotation", "annotations", multiple=True, metavar="KEY=VALUE", help="Annotation of every request.")
@options.seconds("--timeout", default=10.0, help="Time for each run of the plugin.")
@options.path(
    "--bin-dir", "bin_dirs", multiple=True, default=DEFAULT_BIN_DIRS, metavar="DIR", help="Directory of plugins."
)
@options.as_json
@options.plain_errors
def conformance(
    binary: str,
    conf: Any,
    plugin_type: str,
    word: str,
    request_file: str | None,
    annotations: tuple[str, ...],
    timeout: float,
    bin_dirs: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check that a plugin in any language keeps the contract of docs/spec.md.

    BINARY is an executable, or the type of a plugin in --bin-dir. It is run some 50 times, as this user, with
    requests about a container that does not exist; with --request about that container, and the plugin acts on it. A
    result with an error is a valid answer to most of them. The exit status is 1 if a check fails.

    \b
    Examples:
      nri conformance ./web
      nri conformance clearcfs --bin-dir ./dist/nri
      nri conformance ./web --conf '{"cpus": "2-3"}' --annotation class.example.com=batch
      nri conformance ./web --request request.json
      nri conformance ./web --json | jq '.checks[] | select(.verdict == "fails")'
    """
    path = _find(binary, bin_dirs)
    name = plugin_type or os.path.basename(path)
    if not is_type_name(name):
        raise click.UsageError(f"{name!r} is no type of a plugin; give its type with --type")
    checks = [check for check in CHECKS if word.lower() in f"{check.id} {check.title}".lower()]
    if not checks:
        raise click.UsageError(f"no check has {word!r} in its id or title")
    request = None if request_file is None else options.read_request(request_file).to_value()
    more = options.pairs("--annotation", annotations)
    prepare_process()  # which changes the directory
    outcomes = check(
        path, conf=conf, plugin_type=name, request=request, annotations=more, timeout=timeout, checks=checks
    )
    conforms = not any(outcome.verdict == FAILS for outcome in outcomes)
    if as_json:
        values = [_value(outcome) for outcome in outcomes]
        output.print_json({"conforms": conforms, "binary": path, "type": name, "checks": values})
    else:
        click.echo(report(outcomes))
    raise click.exceptions.Exit(0 if conforms else 1)


def _value(outcome: CheckOutcome) -> dict[str, Any]:
    check = outcome.check
    value = {name: getattr(check, name) for name in ("id", "title", "section")} | {"verdict": outcome.verdict}
    value |= {"expected": outcome.expected} if outcome.verdict == FAILS else {}
    return value | ({"found": outcome.found} if outcome.found else {})
