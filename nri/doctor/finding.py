"""A finding: one sentence about the node, how serious it is, and the line that mends it."""

from __future__ import annotations

from typing import NamedTuple

from nri.errors import escape
from nri.types.gojson import shorten

OK, NOTE, FAULT, UNSEEN = "ok", "note", "fault", "unseen"
"""The levels: as it should be; worth knowing; wrong; it could not be looked at."""

MAX_TEXT = 2000
"""Characters of a text: paths and names in it come from files."""

MAX_FINDINGS = 100
"""Findings of one subject and level."""


class NodeFinding(NamedTuple):
    """A finding.

    :ivar subject: the heading that it stands under, such as ``containerd``.
    :ivar level: one of the constants above.
    :ivar code: names the kind of finding, for programs. It stays when the text changes.
    :ivar text: what was found.
    :ivar mend: what a person does about it; "" if nothing needs to be done.
    """

    subject: str
    level: str
    code: str
    text: str
    mend: str = ""


class Findings(list[NodeFinding]):
    """The findings of one subject, in the order in which they were added. Their texts are fit for a terminal."""

    def __init__(self, subject: str) -> None:
        super().__init__()
        self.subject = subject

    def ok(self, code: str, text: str) -> None:
        """Add what is as it should be."""
        self._add(OK, code, text)

    def note(self, code: str, text: str, mend: str = "") -> None:
        """Add what is worth knowing."""
        self._add(NOTE, code, text, mend)

    def fault(self, code: str, text: str, mend: str) -> None:
        """Add what is wrong."""
        self._add(FAULT, code, text, mend)

    def unseen(self, code: str, text: str, mend: str = "") -> None:
        """Add what could not be looked at."""
        self._add(UNSEEN, code, text, mend)

    def _add(self, level: str, code: str, text: str, mend: str = "") -> None:
        same = sum(finding.level == level for finding in self)
        if same < MAX_FINDINGS:
            texts = [escape(shorten(each, MAX_TEXT)) for each in (text, mend)]
            self.append(NodeFinding(self.subject, level, code, *texts))
        elif same == MAX_FINDINGS:
            self.append(NodeFinding(self.subject, level, "more", f"there are more; {MAX_FINDINGS} are listed"))
