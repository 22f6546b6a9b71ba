"""docs/doctor.md has each code of a fault, and each heading, of nri.doctor."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/doctor.md").read_text()
SOURCES = [path.read_text() for path in sorted((ROOT / "nri/doctor").glob("*.py"))]


def column(header: str) -> list[str]:
    """The first cells of the page's table with this header."""
    (body,) = re.findall(rf"^{re.escape(header)}\n\|[ |-]+\n((?:\|.*\n)*)", PAGE, re.MULTILINE)
    return [row.strip("|").partition(" | ")[0].strip() for row in body.splitlines()]


def test_each_code_of_a_fault_is_explained() -> None:
    used = {code for text in SOURCES for code in re.findall(r'\.fault\(\s*"([\w-]+)"', text)}
    listed = [code for cell in column("| code | what is wrong |") for code in re.findall(r"`([\w-]+)`", cell)]
    assert len(used) > 20
    assert sorted(listed) == sorted(used)


def test_each_heading_is_explained() -> None:
    used = {subject for text in SOURCES for subject in re.findall(r'^SUBJECT = "(.*)"', text, re.MULTILINE)}
    assert set(column("| heading | what |")) == used
