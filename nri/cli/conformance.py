"""``nri conformance``: checks that an executable in any language keeps the contract of docs/spec.md."""

from __future__ import annotations

import os
from typing import Any

import click

from nri.cli import options, output
from nri.config.entries import is_type_name
from nri.errors import escape
from nri.process.spawn import prepare_process
from nri.testing.conformance import FAILS, Outcome, check, report


@click.command()
@click.argument("binary", type=click.Path(exists=True, dir_okay=False, executable=True))
@options.conf(help="Plugin conf for the requests.")
@click.option(
    "--request",
    "request_file",
    metavar="FILE",
    help="JSON file with what the requests are made of; - for stdin.",
)
@click.option(
    "--annotation",
    "annotations",
    multiple=True,
    metavar="KEY=VALUE",
    help="Annotation of every request.",
)
@options.seconds("--timeout", default=10.0, help="Time for each run of the plugin.")
@options.as_json
@options.plain_errors
def conformance(
    binary: str,
    conf: Any,
    request_file: str | None,
    annotations: tuple[str, ...],
    timeout: float,
    as_json: bool,
) -> None:
    """Check that a plugin in any language keeps the contract of docs/spec.md.

    BINARY is an executable, whose name is the plugin's type. It is run some 50 times, as this user, with requests
    about a container that does not exist; with --request about that container, and the plugin acts on it. A result
    with an error is a valid answer to most of them. The exit status is 1 if a check fails.

    \b
    Examples:
      nri conformance ./web
      nri conformance /opt/nri/bin/clearcfs
      nri conformance ./web --conf '{"cpus": "2-3"}' --annotation class.example.com=batch
      nri conformance ./web --request request.json
      nri conformance ./web --json | jq '.checks[] | select(.verdict == "fails")'
    """
    path = os.path.abspath(binary)
    if not is_type_name(os.path.basename(path)):
        raise click.UsageError(
            f"{escape(binary)}: its name is no type of a plugin: letters, digits and . _ -"
        )
    if request_file is None:
        request = None
    else:
        request = options.read_request(request_file).to_value()
    more = options.pairs("--annotation", annotations)
    prepare_process()  # which changes the directory
    outcomes = check(path, conf=conf, request=request, annotations=more, timeout=timeout)
    conforms = not any(outcome.verdict == FAILS for outcome in outcomes)
    if as_json:
        values = [_value(outcome) for outcome in outcomes]
        output.print_json(
            {"conforms": conforms, "binary": path, "type": os.path.basename(path), "checks": values}
        )
    else:
        click.echo(report(outcomes))
    raise click.exceptions.Exit(0 if conforms else 1)


def _value(outcome: Outcome) -> dict[str, Any]:
    value = {
        "id": outcome.id,
        "title": outcome.title,
        "section": outcome.section,
        "verdict": outcome.verdict,
    }
    if outcome.verdict == FAILS:
        value["expected"] = outcome.expected
    if outcome.found:
        value["found"] = outcome.found
    return value
