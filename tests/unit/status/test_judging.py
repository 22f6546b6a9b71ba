"""The verdict on a status: what is wrong now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import nri
from nri.cli.status import status
from nri.client import chain
from nri.status.judging import (
    DEGRADED,
    MAX_LINE,
    NO_BRIDGE,
    OUTCOMES,
    WELL,
    WORKS,
    Verdict,
    judge,
    probe,
    run,
)
from tests.support import status_documents as documents
from tests.support.status_server import serving

FAILED = {
    "time": documents.NOW,
    "state": "create",
    "pod": "default/web",
    "container": "app",
    "error": "no quota",
}

SINCE = "2025-11-22 08:55:00 UTC"


def with_plugin(**changes: Any) -> dict[str, Any]:
    return documents.healthy(plugins=[documents.plugin(**changes)])


def with_part(part: str, **changes: Any) -> dict[str, Any]:
    return documents.healthy(**{part: documents.healthy()[part] | changes})


def in_progress(seconds: float, allowed: float | None) -> dict[str, Any]:
    now = {
        "event": "StartContainer",
        "name": "default/web/app",
        "seconds": seconds,
        "allowed": allowed,
    }
    return documents.healthy(inProgress=now)


def test_outcomes_are_those_of_the_bridge() -> None:
    assert OUTCOMES == chain.OUTCOMES
    assert WORKS == chain.WORKS


@pytest.mark.parametrize(
    ("document", "line"),
    [
        (in_progress(11.9, 2.0), "well: connected to containerd v2.1.9, 2 plugins"),
        (in_progress(60.0, None), "well: connected to containerd v2.1.9, 2 plugins"),
        (
            in_progress(12.1, 2.0),
            "degraded: the bridge hangs: StartContainer of default/web/app has taken 12 s",
        ),
        (documents.healthy(plugins=[]), "well: connected to containerd v2.1.9, no plugins"),
        (with_plugin(lastError=FAILED), "well: connected to containerd v2.1.9, 1 plugin"),
        (
            with_plugin(resident={"state": "off", "reason": None}),
            "well: connected to containerd v2.1.9, 1 plugin",
        ),
        (
            documents.healthy(events=[documents.event(errors=50, late=50, nearDeadline=50)]),
            "well: connected to containerd v2.1.9, 2 plugins",
        ),
        (documents.connecting(), "degraded: the bridge looks for its runtime"),
        (with_part("bridge", state="connecting"), "degraded: the bridge looks for its runtime"),
        (
            with_part("configuration", valid=False, faults=["a.conf:1:1: x", "b"]),
            "degraded: the configuration is not valid, the last valid one is in use: a.conf:1:1: x (and 1 more)",
        ),
        (
            with_part("configuration", valid=False, since=None),
            "degraded: the configuration is not valid, no plugin can run",
        ),
        (
            with_part("record", fault="the record /a cannot be written: b"),
            "degraded: the record /a cannot be written: b",
        ),
        (
            with_part("log", to="/a", fault="Is a directory"),
            "degraded: the log cannot be written to /a: Is a directory",
        ),
        (
            with_plugin(resident={"state": "failed", "reason": "a thread"}),
            "well: connected to containerd v2.1.9, 1 plugin",
        ),
        (
            with_plugin(last={"create": documents.last("killed", "no quota")}),
            f"degraded: clearcfs: create has failed since {SINCE}, last of default/web/app: no quota",
        ),
        (
            with_plugin(
                last={
                    "setup": documents.last("ignored", container=None),
                    "create": documents.last("refused", "no quota"),
                    "delete": documents.last(),
                }
            ),
            f"degraded: clearcfs: setup has failed since {SINCE}, last of default/web: no reason is known",
        ),
        (
            with_plugin(last={"create": documents.last("refused", "no quota")}),
            "well: connected to containerd v2.1.9, 1 plugin",
        ),
        (
            with_plugin(problem="a", last={"create": documents.last("error")}),
            "degraded: clearcfs: a",
        ),
        (
            documents.healthy(
                without=documents.without(
                    ("a", "create", "refused", 2), (None, "setup", "missed", 3)
                ),
                refusals=[documents.refusal()],
            ),
            "well: connected to containerd v2.1.9, 2 plugins",
        ),
        (
            documents.healthy(
                without=documents.without(
                    ("a", "create", "refused", 2), ("a", "create", "failed", 1)
                )
            ),
            "degraded: pods and containers without a: 1",
        ),
        (
            with_part("configuration", refused={"since": 0, "source": "/a", "faults": ["x"]}),
            "well: connected to containerd v2.1.9, 2 plugins",
        ),
        (
            documents.healthy(watchdog="its watchdog, process 7, is stopped"),
            "degraded: plugins would outlive the bridge: its watchdog, process 7, is stopped",
        ),
    ],
    ids=range(22),
)
def test_a_status_is_judged_by_what_is_now(document: dict[str, Any], line: str) -> None:
    verdict = judge(document)
    assert verdict.line == line
    assert verdict.code == (WELL if line.startswith("well") else DEGRADED)
    if verdict.code == WELL:
        assert not verdict.causes
        return
    assert all(
        reason.startswith(cause)
        for reason, cause in zip(verdict.reasons, verdict.causes, strict=True)
    )
    assert "no quota" not in repr(verdict.causes)  # what a plugin has said


def test_a_line_is_one_line_and_short_with_any_reasons() -> None:
    line = Verdict(NO_BRIDGE, ["a\nb\x1b[2J\udcff", "ü" * 5000]).line
    assert line.startswith("no bridge: a\\nb\\x1b[2J\\udcff; ü")
    assert line.isprintable()
    assert len(line.encode()) <= MAX_LINE


# The probe's command line, which is parsed without click, and what it loads

ROOT = Path(nri.__file__).parent.parent

WORDS = [
    ["--check"],
    ["--check", "--socket", "/no/a.sock"],
    ["--socket", "/no/a.sock", "--alive"],
    ["--check", "--socket", "--check"],
]
LEFT_TO_CLICK = [
    [],
    ["--json"],
    ["--alive", "--check"],
    ["--check", "--help"],
    ["--check", "x"],
    ["--check", "--socket"],
    ["--check", "--socket", ""],
    ["--socket=/no/a.sock", "--check"],
]


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_a_probe_says_what_click_would_say(
    words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    code = run(words)
    done = CliRunner().invoke(status, words)
    assert (code, capfd.readouterr().out) == (done.exit_code, done.output)


def test_other_command_lines_are_left_to_click() -> None:
    assert [words for words in LEFT_TO_CLICK if run(words) is not None] == []


SLOW_TO_LOAD = {
    *(
        "asyncio",
        "click",
        "dataclasses",
        "enum",
        "json",
        "logging",
        "re",
        "selectors",
        "socket",
        "subprocess",
    ),
    *("textwrap", "typing"),
}


def test_probe_loads_nothing_slow() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "sys.argv[1:] = ['status', '--check', '--socket', '/no/sock']\n"
        "from nri.cli.entry import main\n"
        "try:\n    main()\n"
        "except SystemExit as ended:\n    print(ended.code)\n"
        "print(*sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    line, code, modules = ran.stdout.splitlines()
    assert (line, code) == ("no bridge: /no/sock does not exist", "2")
    assert SLOW_TO_LOAD & set(modules.split()) == set()


def test_liveness_asks_only_that_no_bridge_hangs(tmp_path: Path) -> None:
    path = tmp_path / "run/v1bridge.sock"
    assert (
        probe(str(path), is_alive=True).line
        == f"well: no bridge, so none hangs: {path} does not exist"
    )
    hanging = {"event": "StartContainer", "name": "default/web", "seconds": 13.0, "allowed": 2.0}
    for answer, code in (
        (documents.degraded(), WELL),
        (documents.connecting(), WELL),
        (documents.healthy(inProgress={**hanging, "seconds": 11.0}), WELL),
        (documents.healthy(inProgress=hanging), DEGRADED),
        ({"protocol": 1}, NO_BRIDGE),
        (b"", NO_BRIDGE),
    ):
        with serving(path, answer):
            assert probe(str(path), is_alive=True).code == code, answer
