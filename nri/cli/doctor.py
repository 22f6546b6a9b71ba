"""``nri doctor``: what is wrong with this node, and the lines that mend it; one page for a bug report."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from nri.cli import options, output
from nri.cli.check import Checked
from nri.cli.progress import Progress
from nri.client import DirectInvoker
from nri.doctor import FAULT, NOTE, OK, UNSEEN, Examination, Node, examine
from nri.status import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nri.config.entries import PluginEntry
    from nri.v1bridge.options import BridgeOptions

_MARKS = {OK: ("ok", None), NOTE: ("note", "yellow"), FAULT: ("FAULT", "red"), UNSEEN: ("unseen", "cyan")}
_INDENT = 8


@click.command()
@click.option(
    "--root",
    default="/",
    show_default=True,
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="Directory that stands for /, such as the disk of another machine. Nothing in it is run.",
)
@options.as_json
@options.plain_errors
def doctor(root: str, as_json: bool) -> None:
    """Find what is wrong with this node, and print the lines that mend it.

    Looks at the runtimes with their NRI settings, the bridge, the configuration, cgroups, owners, and the log. It
    changes nothing. Not printed: values of configurations, the environment, and what looks like a secret in the log.

    \b
    Examples:
      nri doctor
      nri doctor --json | jq '.findings[] | select(.level == "fault")'
      nri doctor --root /mnt

    Exit status: 1 if something is wrong.
    """
    node = Node(root)
    with Progress(sys.stderr, is_quiet=as_json) as progress:
        found = examine(
            node, _checks if node.runs else None, on_subject=lambda name: progress.show(f"looking: {name}")
        )
    if as_json:
        output.print_json(_document(node, found))
    else:
        for line, color in _page(node, found):
            click.secho(line, fg=color)
    status = 0 if found.is_well else 1
    if found.hangs:  # a thread in a system call that does not end would keep the process
        sys.stdout.flush()
        os._exit(status)
    raise click.exceptions.Exit(status)


def _checks(settings: BridgeOptions) -> Callable[[PluginEntry], Checked]:
    invoker = DirectInvoker(settings.bin_dirs, check_owner=settings.check_owner)
    return lambda plugin: Checked(plugin, invoker, settings.conf_file)


def _document(node: Node, found: Examination) -> dict[str, Any]:
    """Return the value that ``--json`` prints."""
    return {
        "ok": found.is_well,
        "time": int(time.time()),
        "root": node.root,
        "findings": [finding._asdict() | {"mend": finding.mend or None} for finding in found.findings],
        "log": found.log,
    }


def _page(node: Node, found: Examination) -> Iterator[tuple[str, str | None]]:
    """Yield the lines of the page, each with its color."""
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    yield from ((line, None) for line in layout.wrapped(f"nri doctor, {when}, of {node.root}", "", ""))
    subject = ""
    for finding in sorted(found.findings, key=lambda each: _first(found, each.subject)):
        if finding.subject != subject:
            subject = finding.subject
            yield "", None
            yield subject, None
        mark, color = _MARKS[finding.level]
        for line in layout.wrapped(finding.text, f"  {mark}".ljust(_INDENT + 1), " " * (_INDENT + 1)):
            yield line, color
        for line in layout.wrapped(finding.mend, " " * _INDENT + " -> ", " " * (_INDENT + 4)) if finding.mend else ():
            yield line, None
    for entry in found.log:
        for line in layout.wrapped(entry, " " * (_INDENT + 1), " " * (_INDENT + 3)):
            yield line, None
    yield "", None
    faults = sum(finding.level == FAULT for finding in found.findings)
    if faults:
        yield f"{faults} thing{'s are' if faults > 1 else ' is'} wrong", "red"
    else:
        yield "nothing is wrong", "green"
    unseen = sum(finding.level == UNSEEN for finding in found.findings)
    if unseen:
        yield f"{unseen} thing{'s' if unseen > 1 else ''} could not be looked at", "cyan"


def _first(found: Examination, subject: str) -> int:
    """Return the position of a subject's first finding: two runtimes of one name stand under one heading."""
    return next(number for number, finding in enumerate(found.findings) if finding.subject == subject)
