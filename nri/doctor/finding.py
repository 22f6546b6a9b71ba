"""A finding: one sentence about the node, how serious it is, and the line that mends it."""

from __future__ import annotations

from typing import NamedTuple

OK, NOTE, FAULT, UNSEEN = "ok", "note", "fault", "unseen"
"""The levels: as it should be; worth knowing; wrong; it could not be looked at."""


class Finding(NamedTuple):
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


class Findings(list[Finding]):
    """The findings of one subject, in the order in which they were added."""

    def __init__(self, subject: str) -> None:
        super().__init__()
        self.subject = subject

    def ok(self, code: str, text: str) -> None:
        """Add what is as it should be."""
        self.append(Finding(self.subject, OK, code, text))

    def note(self, code: str, text: str, mend: str = "") -> None:
        """Add what is worth knowing."""
        self.append(Finding(self.subject, NOTE, code, text, mend))

    def fault(self, code: str, text: str, mend: str) -> None:
        """Add what is wrong."""
        self.append(Finding(self.subject, FAULT, code, text, mend))

    def unseen(self, code: str, text: str, mend: str = "") -> None:
        """Add what could not be looked at."""
        self.append(Finding(self.subject, UNSEEN, code, text, mend))
