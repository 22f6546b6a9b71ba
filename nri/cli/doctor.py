"""``nri doctor``: prints the faults of this node, each with the command that fixes it."""

from __future__ import annotations

import time
from collections import Counter
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
        findings = []
        for finding in examined:
            findings.append(finding._asdict() | {"fix": finding.fix or None})
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
        if finding.fix:
            for line in output.wrapped(finding.fix, " " * 9 + "-> ", " " * 12):
                yield line, None
    yield "", None
    numbers = Counter([finding.level for finding in findings])
    unseen = numbers[UNSEEN]
    if numbers[FAULT]:
        yield output.counted(numbers[FAULT], "fault"), "red"
    else:
        yield "nothing is wrong", "green"
    if unseen:
        yield f"{output.counted(unseen, 'thing')} could not be looked at", "cyan"
