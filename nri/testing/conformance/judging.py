"""Runs the checks on one executable: the table of all, and the outcome of each."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from nri.testing.conformance import (
    of_changes,
    of_documents,
    of_processes,
    of_requests,
    of_residents,
    of_results,
    of_states,
    of_verbs,
)
from nri.testing.conformance.contract import FAILS, NOT_JUDGED, Check, CheckOutcome
from nri.testing.conformance.errors import BrokenRuleError, NotJudgedError
from nri.testing.conformance.running import PluginRunner
from nri.testing.conformance.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Sequence

GROUPS = (
    of_results.GROUP,
    of_states.GROUP,
    of_requests.GROUP,
    of_documents.GROUP,
    of_processes.GROUP,
    of_changes.GROUP,
    of_verbs.GROUP,
    of_residents.GROUP,
)

CHECKS: tuple[Check, ...] = tuple(check for group in GROUPS for check in group.checks)
"""All checks, in the order of a report."""

TIMEOUT = 10.0
"""Seconds for each run of the plugin: the default deadline of a host."""

TOTAL = 120.0
"""Seconds for all checks. A check that does not begin in time has failed."""

_AT_ONCE = 4


def check(
    binary: str | os.PathLike[str],
    *,
    conf: Any = None,
    plugin_type: str = "",
    timeout: float = TIMEOUT,
    total: float = TOTAL,
    checks: Sequence[Check] = CHECKS,
) -> list[CheckOutcome]:
    """Check that an executable keeps the contract; return the outcome of each check, in order.

    Runs the executable about 100 times, with requests that are harmless to the node: see docs/conformance.md. When it
    returns, none of these processes runs.

    :param conf: the plugin conf of the requests, a JSON value; None for none.
    :param plugin_type: the plugin's type; by default the name of the file.
    :param timeout: seconds for each run.
    :param total: seconds for all of them.
    :param checks: some of :data:`CHECKS`.
    """
    path = os.path.abspath(binary)
    plugin_type = plugin_type or os.path.basename(path)
    runner = PluginRunner(path, plugin_type, timeout, time.monotonic() + total)
    trial = Trial(runner, plugin_type, conf)
    try:
        trial.prepare()
        with ThreadPoolExecutor(_AT_ONCE if trial.at_once is None else 1) as pool:
            return list(pool.map(lambda each: _judge(each, trial), checks))
    finally:
        runner.end()


def _judge(check: Check, trial: Trial) -> CheckOutcome:
    try:
        check.judge(trial)
    except BrokenRuleError as error:
        return CheckOutcome(check, FAILS, error.expected, error.found)
    except NotJudgedError as reason:
        return CheckOutcome(check, NOT_JUDGED, found=str(reason))
    return CheckOutcome(check)
