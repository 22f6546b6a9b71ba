"""`make demo`: each chapter alone, in 80 columns, with what it promises to show."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from demo.chapters import CHAPTERS
from harness.node import BINARIES, ROOT
from tests.support.waiting import SOON

pytestmark = pytest.mark.skipif(
    not (BINARIES / "v1bridge").exists(), reason="needs dist/nri: make binaries"
)

SHOWN = {
    "events": ['    {"state": "setup", "id": "', "    setup   logger "],
    "hooks": [
        "hooks=10-trace.json",
        "what the hook got on stdin, once:",
        '    {"ociVersion": "1.0.2", ',
    ],
    "devices": ["ulimits=RLIMIT_NOFILE=77:99", "    inside: "],
    "resources": [" clearcfs ", " -> ", "skipped=class=batch, not in [ls]"],
    "policy": [
        "    0 system; 3,11 pool batch; 1-2,9-10 kube-system/db/app; 4-8,12-15 shared\n",
        "    0,8 system; 1-2,9-10 kube-system/db/app; 3-7,11-15 shared\n",
        "unknown key, did you mean\nsystemReserved?\nnothing has changed\n",
        "$ nri apply sets/1-",
        "$ nri apply none\n",
        "done for 6 pods and containers",
    ],
}


def demo(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "demo", *words]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=4 * SOON, check=False
    )


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_chapter_shows_what_it_promises_in_80_columns(chapter: str) -> None:
    ran = demo(chapter)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [line for line in ran.stdout.splitlines() if len(line) > 80] == []
    assert "\x1b" not in ran.stdout
    assert "error" not in ran.stdout
    for text in SHOWN[chapter]:
        assert text in ran.stdout
    if chapter == "devices" and os.geteuid() == 0 and "cannot be made here" not in ran.stdout:
        assert "inside: open files: 77" in ran.stdout


@pytest.mark.parametrize("full", [False, True])
def test_output_that_cannot_be_written_ends_it(full: bool) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with open("/dev/full" if full else writes, "wb") as out:
        command = [sys.executable, "-m", "demo", "events"]
        ran = subprocess.run(
            command, cwd=ROOT, stdout=out, stderr=subprocess.PIPE, timeout=SOON, check=False
        )
    if full:
        os.close(writes)
    assert (ran.returncode, ran.stderr) == (
        1,
        b"stdout: No space left on device\n" if full else b"",
    )


def test_unknown_chapter_is_named_with_those_that_there_are() -> None:
    ran = demo("device")
    assert (ran.returncode, ran.stderr) == (
        1,
        f"found the chapter 'device', expected one of {', '.join(CHAPTERS)}\n",
    )
