"""The probe's command line, which is parsed without click, and what it loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import nri
from nri.cli.status import status
from nri.status.judging import DEGRADED, NO_BRIDGE, WELL
from nri.status.probe import probe, run
from tests.support import status_documents as documents
from tests.support.status_server import serving

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
def test_a_probe_says_what_click_would_say(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    code = run(words)
    done = CliRunner().invoke(status, words)
    assert (code, capfd.readouterr().out) == (done.exit_code, done.output)


def test_other_command_lines_are_left_to_click() -> None:
    assert [words for words in LEFT_TO_CLICK if run(words) is not None] == []


SLOW_TO_LOAD = {
    *("asyncio", "click", "dataclasses", "logging", "selectors", "socket", "subprocess", "textwrap", "typing"),
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
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    line, code, modules = ran.stdout.splitlines()
    assert (line, code) == ("no bridge: /no/sock does not exist", "2")
    assert SLOW_TO_LOAD & set(modules.split()) == set()


def test_liveness_asks_only_that_no_bridge_hangs(tmp_path: Path) -> None:
    path = tmp_path / "run/v1bridge.sock"
    assert probe(str(path), is_alive=True).line == f"well: no bridge, so none hangs: {path} does not exist"
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
