"""The outcomes of a fuzzing session: a failure, or a target that did not run, is never reported as success."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.session import outcome_of, table

ROOT = Path(__file__).parent.parent.parent
QUIET = """INFO: seed corpus: files: 9
#10\tINITED cov: 3 ft: 4 corp: 2/9b exec/s: 0 rss: 48Mb
#2048\tpulse  cov: 91 ft: 180 corp: 25/1Kb lim: 17 exec/s: 682 rss: 60Mb
#4096\tDONE   cov: 99 ft: 214 corp: 31/2Kb lim: 21 exec/s: 1365 rss: 61Mb
Done 4096 runs in 3 second(s)
"""
BROKEN = """#10\tINITED cov: 3 ft: 4 corp: 2/9b exec/s: 0 rss: 48Mb
AssertionError: an error carries the list
artifact_prefix='found/'; Test unit written to found/crash-0df4
"""


def test_the_last_line_of_a_target_counts() -> None:
    outcome = outcome_of("json_text", QUIET, 0)
    assert (outcome.runs, outcome.coverage, outcome.corpus) == (4096, 99, 31)
    assert (outcome.found, outcome.trouble) == ((), "")


@pytest.mark.parametrize(
    ("output", "status", "found", "trouble"),
    [
        (BROKEN, 77, ("found/crash-0df4",), "an error carries the list"),
        (BROKEN, 0, ("found/crash-0df4",), "an error carries the list"),
        (QUIET, 1, (), "DONE"),
        ("ImportError: no module named atheris", 1, (), "ImportError"),
        ("", 0, (), "it ran on nothing"),
        ("Traceback", 0, (), "Traceback"),
    ],
)
def test_a_failure_is_trouble(output: str, status: int, found: tuple[str, ...], trouble: str) -> None:
    outcome = outcome_of("json_text", output, status)
    assert outcome.found == found
    assert trouble in outcome.trouble


def test_the_table_has_a_line_for_each_target() -> None:
    rows = [("a", QUIET, 0), ("longer_name", BROKEN, 77), ("c", "", 1)]
    lines = table([outcome_of(*row) for row in rows]).split("\n")
    assert [line.split() for line in lines] == [
        ["TARGET", "RUNS", "COVERAGE", "CORPUS", "FOUND"],
        ["a", "4096", "99", "31", "0"],
        ["longer_name", "10", "3", "2", "1"],
        ["c", "0", "0", "0", "failed"],
    ]
    assert len({len(line) for line in lines}) == 1


def again(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fuzz", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def test_an_input_runs_again_without_atheris(tmp_path: Path) -> None:
    good = tmp_path / "good"
    good.write_bytes(b"0-3")
    ran = again("cpu_lists", str(good))
    assert (ran.returncode, ran.stdout) == (0, f"{good}: holds\n")
    assert again("cpu_lists").stdout.startswith("seed 0: holds\nseed 1: holds\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [(["nope"], "found 'nope', expected one of "), (["cpu_lists", "/nonexistent"], "/nonexistent")],
)
def test_a_missing_target_or_file_is_named(words: list[str], message: str) -> None:
    ran = again(*words)
    assert ran.returncode == 2
    assert message in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("seconds", ["0", "1.5", "ten", "-1"])
def test_an_invalid_time_is_refused_first(seconds: str) -> None:
    ran = subprocess.run(
        [ROOT / "tools" / "fuzz"],
        env={**os.environ, "FUZZ_SECONDS": seconds},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 2
    assert ran.stderr == (
        f"tools/fuzz: FUZZ_SECONDS: found '{seconds}', expected a whole number of seconds above 0\n"
    )
