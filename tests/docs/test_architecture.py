"""docs/architecture.md has the package's modules and contracts; every link between the pages leads somewhere."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs/architecture.md").read_text()
PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    ROOT / "deploy/README.md",
    ROOT / "deploy/monitoring/README.md",
]
DECISIONS = sorted(path for path in (ROOT / "docs/decisions").glob("*.md") if path.name != "README.md")


def table(header: str) -> Iterator[list[str]]:
    """The rows of the page's table with this header."""
    (body,) = re.findall(rf"^{re.escape(header)}\n\|[ |-]+\n((?:\|.*\n)*)", TEXT, re.MULTILINE)
    for row in body.splitlines():
        yield [cell.strip() for cell in row.strip("|").split("|")]


def modules(package: Path) -> set[str]:
    """The modules and packages directly below a package that have a name of their own."""
    found = {path.stem for path in package.glob("*.py") if not path.stem.endswith("_pb2")}
    found |= {path.parent.name for path in package.glob("*/__init__.py")}
    return found - {"__init__", "__main__", "errors"}


PACKAGES = {
    cells[0].strip("`"): set(re.findall(r"`(\w+)`", cells[2]))
    for cells in table("| package | what it is | modules |")
}


@pytest.mark.parametrize("name", PACKAGES)
def test_the_table_has_the_modules_of_a_package(name: str) -> None:
    place = ROOT.joinpath(*name.split("."))
    if place.is_dir():
        rows = {other.rpartition(".")[2] for other in PACKAGES if other.rpartition(".")[0] == name}
        assert PACKAGES[name] - {"errors"} == modules(place) - rows
    else:
        assert place.with_suffix(".py").exists()


def test_every_package_has_a_row() -> None:
    assert modules(ROOT / "nri") <= {name.removeprefix("nri.") for name in PACKAGES} - {"nri"}


def test_the_table_has_the_contracts_in_their_order() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert [cells[0] for cells in table("| contract | forbids |")] == [contract["name"] for contract in contracts]


def test_the_files_of_a_requests_way_are_there() -> None:
    assert len(re.findall(r"`(nri/[\w/]+\.py)`", TEXT)) >= 10
    beside = re.findall(r"`(\w+\.py)`", TEXT)
    assert [name for name in beside if not list((ROOT / "nri").rglob(name))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_of_the_repository_that_a_page_names_is_there(page: Path) -> None:
    paths = re.findall(r"`((?:nri|tests|harness|tools|fuzz|conf|deploy|docs)/[\w./-]+)(?:::\w+)?`", page.read_text())
    assert [path for path in paths if not (ROOT / path).exists() and "NAME" not in path] == []


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = [re.sub(r"[^\w\- ]", "", title.lower()) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {title.replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_heading_or_a_file(page: Path) -> None:
    lost = []
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text()):
        there = (page.parent / target).resolve() if target else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            lost.append(f"{target}#{anchor}")
    assert lost == []


def test_the_index_has_every_decision_with_its_title() -> None:
    rows = re.findall(
        r"^\| \[(\d{4})\]\((.*?)\) \| (.*) \|$", (ROOT / "docs/decisions/README.md").read_text(), re.MULTILINE
    )
    titles = [(path.name[:4], path.name, path.read_text().partition("\n")[0]) for path in DECISIONS]
    assert [(number, name, f"# {number}: {title}") for number, name, title in rows] == titles


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_has_three_parts_and_is_short(path: Path) -> None:
    text = path.read_text()
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequence"]
    assert 10 <= len(text.splitlines()) <= 25
