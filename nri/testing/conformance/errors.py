"""The errors by which a check says that a rule is broken, or that it cannot be judged."""

from __future__ import annotations

from nri.errors import NRIError


class BrokenRuleError(NRIError):
    """A plugin does not keep a rule: what the contract expects, and what was found."""

    def __init__(self, expected: str, found: str) -> None:
        self.expected, self.found = expected, found
        super().__init__(f"found {found}, expected {expected}")


class NotJudgedError(NRIError):
    """A check does not apply to this plugin, or nothing can be said; the message is the reason."""
