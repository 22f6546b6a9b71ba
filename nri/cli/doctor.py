"""``nri doctor``: prints the faults of this node, each with the command that fixes it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import click

from nri.cli import options, output
from nri.doctor import FAULT, NOTE, OK, UNSEEN, Finding, Node, examine

_MARKS = {
    OK: ("ok", None),
    NOTE: ("note", "yellow"),
    FAULT: ("FAULT", "red"),
    UNSEEN: ("unseen", "cyan"),
}


@click.command()
@options.as_json
@options.plain_errors
def doctor(as_json: bool) -> None:
    """Find what is wrong with this node, and print the commands that fix it.

    Looks at the engines with their NRI settings, the bridge, the configuration, and owners. It changes nothing, and
    prints no value of a configuration and nothing of the environment.

    \b
    Examples:
      nri doctor
      nri doctor --json | jq '.findings[] | select(.level == "fault")'

    Exit status: 1 if something is wrong.
    """
    examined = examine(Node())
    if as_json:
        findings = [finding._asdict() | {"fix": finding.fix or None} for finding in examined]
        output.print_json({"ok": examined.is_well, "time": int(time.time()), "findings": findings})
    else:
        for line, color in _page(examined):
            click.secho(line, fg=color)
    raise click.exceptions.Exit(0 if examined.is_well else 1)


def _page(findings: list[Finding]) -> Iterator[tuple[str, str | None]]:
    """Yield the lines of the page, each with its color."""
    yield f"nri doctor, {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}", None
    subject = ""
    for finding in findings:
        if finding.subject != subject:
            subject = finding.subject
            yield "", None
            yield subject, None
        mark, color = _MARKS[finding.level]
        for line in output.wrapped(finding.text, f"  {mark}".ljust(9), " " * 9):
            yield line, color
        for line in output.wrapped(finding.fix, " " * 9 + "-> ", " " * 12) if finding.fix else ():
            yield line, None
    yield "", None
    faults, unseen = (
        sum(finding.level == level for finding in findings) for level in (FAULT, UNSEEN)
    )
    if faults:
        yield f"{faults} thing{'s are' if faults > 1 else ' is'} wrong", "red"
    else:
        yield "nothing is wrong", "green"
    if unseen:
        yield f"{unseen} thing{'s' if unseen > 1 else ''} could not be looked at", "cyan"
