"""The contract of docs/spec.md as checks that run an executable in any language.

    from nri.testing.conformance import assert_conforms

    assert_conforms("dist/web/web", conf={"cpus": "2-3"})

:func:`check` returns the outcome of each check, ``nri conformance`` prints them. What can be seen from outside is
checked; without a request of one's own the requests are harmless to the node.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from nri.errors import escape
from nri.testing.conformance.rules import CHECKS, MUST, SHOULD, Check
from nri.testing.conformance.trial import BrokenRuleError, NotJudgedError, Trial

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "CHECKS",
    "FAILS",
    "HOLDS",
    "MUST",
    "NOT_JUDGED",
    "SHOULD",
    "Check",
    "CheckOutcome",
    "assert_conforms",
    "check",
    "report",
]

HOLDS, FAILS, NOT_JUDGED = "holds", "fails", "not judged"

TIMEOUT = 10.0
"""Seconds for each run of the plugin: the default deadline of a host."""

TOTAL = 120.0
"""Seconds for all checks. A check that does not begin in time has failed."""

_AT_ONCE = 4
_WORDS = {HOLDS: "ok", FAILS: "FAIL", NOT_JUDGED: "-"}
_WIDTH = max(len(check.id) for check in CHECKS)


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


def check(
    binary: str | os.PathLike[str],
    *,
    conf: Any = None,
    plugin_type: str = "",
    request: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    total: float = TOTAL,
    checks: Sequence[Check] = CHECKS,
) -> list[CheckOutcome]:
    """Check that an executable keeps the contract; return the outcome of each check, in order.

    Runs the executable some 60 times: see docs/conformance.md. When it returns, none of these processes runs.

    :param conf: the plugin conf of the requests, a JSON value; None for none.
    :param plugin_type: the plugin's type; by default the name of the file.
    :param request: what the requests are made of, a JSON object such as ``nri invoke`` takes; by default one about a
        container that does not exist. The plugin acts on the container of this one.
    :param annotations: in addition to those of the request.
    :param timeout: seconds for each run.
    :param total: seconds for all of them.
    :param checks: some of :data:`CHECKS`.
    """
    path = os.path.abspath(binary)
    trial = Trial(
        path,
        plugin_type or os.path.basename(path),
        {} if conf is None else {"conf": conf},
        request,
        annotations or {},
        timeout,
        time.monotonic() + total,
    )
    try:
        trial.prepare()
        with ThreadPoolExecutor(_AT_ONCE if trial.at_once is None else 1) as pool:
            return list(pool.map(lambda each: _judge(each, trial), checks))
    finally:
        trial.end()


def _judge(check: Check, trial: Trial) -> CheckOutcome:
    try:
        check.judge(trial)
    except BrokenRuleError as error:
        return CheckOutcome(check, FAILS, error.expected, error.found)
    except NotJudgedError as reason:
        return CheckOutcome(check, NOT_JUDGED, found=str(reason))
    return CheckOutcome(check)


def assert_conforms(binary: str | os.PathLike[str], **options: Any) -> None:
    """Assert that an executable keeps every MUST of the contract; the options are those of :func:`check`.

    :raises AssertionError: with the report of the checks that fail.
    """
    outcomes = check(binary, **options)
    if any(outcome.is_broken for outcome in outcomes):
        failed = report([outcome for outcome in outcomes if outcome.verdict == FAILS])
        raise AssertionError(f"{binary} does not conform:\n{failed}")


def report(outcomes: Sequence[CheckOutcome]) -> str:
    """Return one line for each check, with what was expected and found where it fails, and a summary."""
    lines: list[str] = []
    for outcome in outcomes:
        each = outcome.check
        text = f"not judged: {escape(outcome.found)}" if outcome.verdict == NOT_JUDGED else each.title
        lines.append(f"{_WORDS[outcome.verdict]:4}  {each.level:{len(SHOULD)}}  {each.id:{_WIDTH}}  {text}")
        if outcome.verdict == FAILS:
            lines.append(f"      expected {escape(outcome.expected)}")
            lines.append(f"      found    {escape(outcome.found)}")
            lines.append(f"      docs/spec.md#{each.section}")
    verdicts = [outcome.verdict for outcome in outcomes]
    must = sum(outcome.is_broken for outcome in outcomes)
    counts = {
        "hold": verdicts.count(HOLDS),
        "MUST fail": must,
        "SHOULD fail": verdicts.count(FAILS) - must,
        "not judged": verdicts.count(NOT_JUDGED),
    }
    said = ", ".join(f"{count} {what}" for what, count in counts.items() if count or what == "hold")
    plural = "s" if len(outcomes) > 1 else ""
    conforms = "it does not conform" if must else "it conforms"
    return "\n".join([*lines, "", f"{len(outcomes)} check{plural}: {said}: {conforms}"])
