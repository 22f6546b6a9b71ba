"""The last lines of the bridge's log: from its file, else from the journal, else from syslog's file."""

from __future__ import annotations

import os

from nri.doctor.finding import Findings
from nri.doctor.node import LookError, Node
from nri.doctor.redaction import without_secrets
from nri.errors import escape
from nri.types.gojson import shorten
from nri.v1bridge.syslog import IDENTIFIER

SUBJECT = "log"

LINES = 20
"""Lines that are shown."""

MAX_LINE = 500
"""Characters of a line that is shown."""

MAX_END = 256 * 1024
"""Bytes at the end of a file that are looked at."""

SYSLOG = ("/var/log/syslog", "/var/log/messages")


def look(node: Node, log_file: str) -> tuple[list[str], Findings]:
    """Return the last lines of the log, fit for a terminal, and where they are from.

    :param log_file: the bridge's log file, "" if it has none.
    """
    found = Findings(SUBJECT)
    if log_file:
        try:
            lines = _lines(node.end_of(log_file, MAX_END))
        except LookError as error:
            found.unseen("file", escape(str(error)))
            return [], found
        return _shown(lines, log_file, found), found
    journal = node.find("journalctl") if node.runs else ""
    if journal:
        arguments = ("-t", IDENTIFIER, "-n", str(LINES), "--no-pager", "-q", "-o", "short-iso")
        try:
            output = node.run(journal, *arguments)
            if lines := _lines(output.stdout):
                return _shown(lines, "the journal", found), found
            if output.status:
                found.unseen("journal", f"{journal} exits with {output.status}")
        except LookError as error:
            found.unseen("journal", escape(str(error)))
    for path in SYSLOG:
        try:
            lines = [line for line in _lines(node.end_of(path, MAX_END)) if f" {IDENTIFIER}" in line]
        except LookError as error:
            if not error.is_absent:
                found.unseen("file", escape(str(error)))
            continue
        if lines:
            return _shown(lines, path, found), found
    text = f"no line of {IDENTIFIER} in the journal, {' or '.join(SYSLOG)}"
    if node.is_own and os.geteuid() != 0:
        found.unseen("no-lines", f"{text} that user {os.geteuid()} may read")
    else:
        found.note("no-lines", text)
    return [], found


def _lines(data: bytes) -> list[str]:
    return [line for line in data.decode("utf-8", "replace").splitlines() if line.strip()]


def _shown(lines: list[str], where: str, found: Findings) -> list[str]:
    last = lines[-LINES:]
    found.ok("lines", escape(f"the last {len(last)} lines of {where}") if last else f"{escape(where)} is empty")
    return [escape(shorten(without_secrets(line.replace("\t", " ")), MAX_LINE)) for line in last]


def file_in(to: object) -> str:
    """Return the log file that a bridge's status names, "" if it logs elsewhere."""
    return to if isinstance(to, str) and os.path.isabs(to) and to != "/dev/log" else ""
