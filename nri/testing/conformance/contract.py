"""A check of the contract, and its outcome.

The level is that of the specification: a host relies on MUST; SHOULD is what other tools and people expect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.testing.conformance.trial import Trial

    Judge = Callable[[Trial], None]

MUST, SHOULD = "MUST", "SHOULD"
HOLDS, FAILS, NOT_JUDGED = "holds", "fails", "not judged"


class Check:
    """One rule of the contract.

    :ivar id: a short name, unique among all checks.
    :ivar title: the rule, as a sentence without its full stop.
    :ivar section: the anchor of the section in docs/spec.md.
    :ivar level: :data:`MUST` or :data:`SHOULD`.
    :ivar group: the title of the group that it is in.
    """

    __slots__ = ("group", "id", "judge", "level", "section", "title")

    def __init__(self, group: str, id: str, section: str, title: str, level: str, judge: Judge) -> None:
        self.group, self.id, self.section, self.title, self.level = group, id, section, title, level
        self.judge = judge


class CheckGroup:
    """The checks about one subject, in the order of their definition."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.checks: list[Check] = []

    def must(self, id: str, section: str, title: str) -> Callable[[Judge], Judge]:
        """Add the decorated function as a check of a rule that a host relies on.

        The function returns if the rule is kept, else it raises one of :mod:`nri.testing.conformance.errors`.
        """
        return self._added(id, section, title, MUST)

    def should(self, id: str, section: str, title: str) -> Callable[[Judge], Judge]:
        """As :meth:`must`, for a recommendation."""
        return self._added(id, section, title, SHOULD)

    def _added(self, id: str, section: str, title: str, level: str) -> Callable[[Judge], Judge]:
        def add(judge: Judge) -> Judge:
            self.checks.append(Check(self.title, id, section, title, level, judge))
            return judge

        return add


class CheckOutcome:
    """What a check has found about one plugin.

    :ivar check: the :class:`Check`.
    :ivar verdict: :data:`HOLDS`, :data:`FAILS` or :data:`NOT_JUDGED`.
    :ivar expected: for :data:`FAILS`, what the contract expects.
    :ivar found: for :data:`FAILS`, what was found; for :data:`NOT_JUDGED`, the reason.
    """

    __slots__ = ("check", "expected", "found", "verdict")

    def __init__(self, check: Check, verdict: str = HOLDS, expected: str = "", found: str = "") -> None:
        self.check, self.verdict, self.expected, self.found = check, verdict, expected, found

    @property
    def is_broken(self) -> bool:
        """Whether the plugin does not conform because of it: a MUST that fails."""
        return self.verdict == FAILS and self.check.level == MUST
