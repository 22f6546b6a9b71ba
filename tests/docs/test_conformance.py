"""docs/conformance.md has the checks as the code has them, and each names a section of the specification."""

import re
from pathlib import Path

import pytest

from nri.testing.conformance import CHECKS, Check
from tests.docs.test_architecture import anchors

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "conformance.md").read_text()


def row(check: Check) -> str:
    return f"| `{check.id}` | {check.level} | {check.title} | [{check.section}](spec.md#{check.section}) |"


def test_the_table_has_the_checks_in_their_order() -> None:
    (table,) = re.findall(r"^\| id \| level \| rule \| section \|\n\|[ |-]+\n((?:\|.*\n)*)", PAGE, re.MULTILINE)
    assert table.splitlines() == [row(check) for check in CHECKS]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_a_check_names_a_section_of_the_specification(check: Check) -> None:
    assert check.section in anchors(DOCS / "spec.md")
