"""The verdict on a status: what is wrong now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nri.client import chain
from nri.status.judging import DEGRADED, MAX_LINE, NO_BRIDGE, OUTCOMES, WELL, Verdict, judge
from tests.support import status_documents as documents

if TYPE_CHECKING:
    from collections.abc import Callable

FAILED = {"time": documents.NOW, "state": "create", "pod": "default/web", "container": "app", "error": "no quota"}


def with_plugin(**changes: Any) -> Callable[[], dict[str, Any]]:
    return lambda: documents.healthy(plugins=[documents.plugin(**changes)])


def with_event(**changes: Any) -> Callable[[], dict[str, Any]]:
    return lambda: documents.healthy(events=[documents.event(**changes)])


def with_configuration(**changes: Any) -> Callable[[], dict[str, Any]]:
    def make() -> dict[str, Any]:
        value = documents.healthy()
        value["configuration"] |= changes
        return value

    return make


def test_outcomes_are_those_of_the_bridge() -> None:
    assert OUTCOMES == chain.OUTCOMES


def reconnecting() -> dict[str, Any]:
    value = documents.healthy()
    value["bridge"]["state"] = "connecting"
    return value


def in_progress(seconds: float, allowed: float | None) -> Callable[[], dict[str, Any]]:
    now = {"event": "StartContainer", "name": "default/web/app", "seconds": seconds, "allowed": allowed}
    return lambda: documents.healthy(inProgress=now)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (in_progress(11.9, 2.0), "well: connected to containerd v2.1.9, 2 plugins"),
        (in_progress(60.0, None), "well: connected to containerd v2.1.9, 2 plugins"),
        (in_progress(12.1, 2.0), "degraded: the bridge hangs: StartContainer of default/web/app has taken 12 s"),
        (documents.healthy, "well: connected to containerd v2.1.9, 2 plugins"),
        (lambda: documents.healthy(plugins=[]), "well: connected to containerd v2.1.9, no plugins"),
        (with_plugin(last={}), "well: connected to containerd v2.1.9, 1 plugin"),
        (with_plugin(lastError=FAILED), "well: connected to containerd v2.1.9, 1 plugin"),
        (with_plugin(resident={"state": "off", "reason": None}), "well: connected to containerd v2.1.9, 1 plugin"),
        (with_event(errors=50, late=50, nearDeadline=50), "well: connected to containerd v2.1.9, 2 plugins"),
        (documents.connecting, "degraded: the bridge looks for its runtime"),
        (reconnecting, "degraded: the bridge looks for its runtime"),
        (
            with_configuration(valid=False, faults=["a.conf:1:1: x", "b"]),
            "degraded: the configuration is not valid, the last valid one is in use: a.conf:1:1: x (and 1 more)",
        ),
        (
            with_configuration(valid=False, since=None),
            "degraded: the configuration is not valid, no plugin can run",
        ),
        (with_plugin(problem="not found in /opt"), "degraded: clearcfs: not found in /opt"),
        (
            with_plugin(resident={"state": "failed", "reason": "a thread"}),
            "degraded: clearcfs: started for each request: a thread",
        ),
        (
            with_plugin(resident={"state": "failed", "reason": None}),
            "degraded: clearcfs: started for each request: no reason is known",
        ),
        (
            with_plugin(last={"create": "error"}, lastError=FAILED),
            "degraded: clearcfs: its last create failed: no quota",
        ),
        (
            with_plugin(last={"setup": "ignored", "create": "error", "delete": "ok"}),
            "degraded: clearcfs: its last setup and create failed",
        ),
        (with_plugin(last={"create": "killed", "delete": "ok"}), "degraded: clearcfs: its last create failed"),
        (
            with_plugin(problem="a", last={"setup": "ignored", "create": "error"}),
            "degraded: clearcfs: a",
        ),
    ],
    ids=range(20),
)
def test_a_status_is_judged_by_what_is_now(make: Callable[[], dict[str, Any]], line: str) -> None:
    document = make()
    verdict = judge(document)
    assert verdict.line == line
    assert verdict.code == (WELL if line.startswith("well") else DEGRADED)
    assert verdict.faults == ([] if verdict.code == WELL else verdict.reasons)


def test_all_that_is_wrong_is_a_reason() -> None:
    verdict = judge(documents.degraded())
    assert [reason.partition(":")[0] for reason in verdict.reasons] == [
        "the configuration is not valid, the last valid one is in use",
        "clearcfs",
        "konfine",
        "absent",
    ]


def test_a_line_is_one_line_and_short_with_any_reasons() -> None:
    line = Verdict(NO_BRIDGE, ["a\nb\x1b[2J\udcff", "ü" * 5000]).line
    assert line.startswith("no bridge: a\\nb\\x1b[2J\\udcff; ü")
    assert line.isprintable()
    assert len(line.encode()) <= MAX_LINE
