"""The report of the checks on one plugin, as text; and the assertion for a plugin's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nri.errors import escape
from nri.testing.conformance.contract import FAILS, HOLDS, NOT_JUDGED, SHOULD
from nri.testing.conformance.judging import CHECKS, TIMEOUT, check

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from nri.testing.conformance.contract import CheckOutcome

_WORDS = {HOLDS: "ok", FAILS: "FAIL", NOT_JUDGED: "-"}

_WIDTH = max(len(check.id) for check in CHECKS)


def report(outcomes: Sequence[CheckOutcome]) -> str:
    """Return one line for each check, with what was expected and found where it fails, and a summary."""
    lines: list[str] = []
    group = ""
    for outcome in outcomes:
        if outcome.check.group != group:
            group = outcome.check.group
            lines += [*([""] if lines else []), group]
        lines += _lines(outcome)
    return "\n".join([*lines, "", summary(outcomes)])


def summary(outcomes: Sequence[CheckOutcome]) -> str:
    """Return the number of checks by their outcome, in one line."""
    hold, fail, unknown = (
        [each.verdict for each in outcomes].count(verdict) for verdict in (HOLDS, FAILS, NOT_JUDGED)
    )
    must = sum(outcome.is_broken for outcome in outcomes)
    should = fail - must
    parts = [f"{len(outcomes)} check{'s' if len(outcomes) > 1 else ''}: {hold} hold"]
    parts += [f"{must} MUST fail"] if must else []
    parts += [f"{should} SHOULD fail"] if should else []
    parts += [f"{unknown} not judged"] if unknown else []
    return ", ".join(parts) + (": it does not conform" if must else ": it conforms")


def assert_conforms(
    binary: str | os.PathLike[str], *, conf: Any = None, plugin_type: str = "", timeout: float = TIMEOUT
) -> None:
    """Assert that an executable keeps every MUST of the contract, as :func:`check` does.

    :raises AssertionError: with the report of the checks that fail.
    """
    outcomes = check(binary, conf=conf, plugin_type=plugin_type, timeout=timeout)
    if any(outcome.is_broken for outcome in outcomes):
        failed = [line for outcome in outcomes if outcome.verdict == FAILS for line in _lines(outcome)]
        raise AssertionError("\n".join([f"{binary} does not conform:", *failed, summary(outcomes)]))


def _lines(outcome: CheckOutcome) -> list[str]:
    check = outcome.check
    text = f"not judged: {escape(outcome.found)}" if outcome.verdict == NOT_JUDGED else check.title
    lines = [f"  {_WORDS[outcome.verdict]:4}  {check.level:{len(SHOULD)}}  {check.id:{_WIDTH}}  {text}"]
    if outcome.verdict == FAILS:
        lines.append(f"        expected {escape(outcome.expected)}")
        lines.append(f"        found    {escape(outcome.found)}")
        lines.append(f"        docs/spec.md#{check.section}")
    return lines
