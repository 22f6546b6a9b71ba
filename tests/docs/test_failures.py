"""docs/failures.md: every test that it names is there, and every case of a table of tests is on the page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.v1bridge.test_misbehaving_plugins import CASES

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/failures.md").read_text()
TEST = re.compile(r"`(tests/[\w/]+\.py::test_\w+)`")


@pytest.fixture(scope="module")
def collected() -> list[str]:
    """The ids of all tests in the files that the page names."""
    files = sorted({name.partition("::")[0] for name in TEST.findall(PAGE)})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def rows() -> list[tuple[str, str]]:
    """Each row of the tables that are about failures, and the test that it names: an id, or how one begins."""
    found, of_section = [], ""
    for line in PAGE.splitlines():
        if line.startswith("Test: "):
            of_section = TEST.findall(line)[0]
        elif line.startswith("| ") and not line.startswith("| --- "):
            last = line.rstrip(" |").rpartition("| ")[2]
            if last == "case" or last == "test" or "failurePolicy` | the container" in line:
                of_section = of_section if last == "case" else ""
            elif TEST.fullmatch(last):
                found.append((line, last.strip("`")))
            elif of_section:
                found.append((line, f"{of_section}[{last.strip('`')}"))
    return found


def test_every_row_names_a_test_that_there_is(collected: list[str]) -> None:
    assert len(rows()) >= 60
    missing = [
        name
        for _, name in rows()
        if not any(each == name or each.startswith((f"{name}[", f"{name}-", f"{name}]")) for each in collected)
    ]
    assert missing == []


def test_every_test_that_the_text_names_is_there(collected: list[str]) -> None:
    names = TEST.findall(PAGE)
    assert [name for name in names if not any(each.partition("[")[0] == name for each in collected)] == []


def test_every_way_to_misbehave_is_a_row() -> None:
    assert {name.rpartition("[")[2] for _, name in rows()} >= set(CASES)
