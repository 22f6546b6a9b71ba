"""The names of the package: each means one thing, and docs/api.md lists the public ones."""

import ast
import importlib
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import nri

PACKAGE = Path(nri.__file__).parent
SOURCES = [path for path in sorted(PACKAGE.rglob("*.py")) if not path.stem.endswith("_pb2")]
MAX_LINES = 300

API = (PACKAGE.parent / "docs/api.md").read_text() if (PACKAGE.parent / "docs/api.md").exists() else ""
DOCUMENTED = [
    "nri.adaptation",
    "nri.api",
    "nri.cgroups",
    "nri.client",
    "nri.config",
    "nri.skel",
    "nri.status",
    "nri.stub",
    "nri.testing",
    "nri.types",
]


def sections() -> dict[str, set[str]]:
    """The modules of docs/api.md, and the names in the first column of each one's table."""
    found: dict[str, set[str]] = {}
    for heading, body in re.findall(r"^## (nri[\w.]*)\n(.*?)(?=^## |\Z)", API, re.MULTILINE | re.DOTALL):
        rows = re.findall(r"^\|(.*?)\|", body, re.MULTILINE)
        found[heading] = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    return found


def classes(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            yield node.name


def test_a_class_name_means_one_thing() -> None:
    homes = defaultdict(list)
    for path in SOURCES:
        for name in classes(path):
            homes[name].append(str(path.relative_to(PACKAGE)))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def exported(init: Path, package: str) -> set[str]:
    """The names that a package's ``__init__`` imports from its modules, and those that it defines."""
    found = set()
    for node in ast.walk(ast.parse(init.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.level or node.module != package):
            found |= {alias.asname or alias.name for alias in node.names if node.module is not None}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
    return found


@pytest.mark.parametrize("init", sorted(PACKAGE.rglob("__init__.py")), ids=lambda path: path.parent.name)
def test_nothing_that_a_package_exports_hides_a_module_of_it(init: Path) -> None:
    package = ".".join(init.parent.relative_to(PACKAGE.parent).parts)
    modules = {info.name for info in pkgutil.iter_modules([str(init.parent)])}
    assert modules & exported(init, package) == set()


def test_a_module_is_short() -> None:
    lengths = {str(path.relative_to(PACKAGE)): len(path.read_text().splitlines()) for path in SOURCES}
    assert {path: lines for path, lines in lengths.items() if lines > MAX_LINES} == {}


def test_each_public_package_has_a_section_in_the_api_page() -> None:
    assert set(DOCUMENTED) - set(sections()) == set()


@pytest.mark.parametrize("name", sorted({*DOCUMENTED, *sections()}))
def test_the_api_page_has_the_public_names_and_no_others(name: str) -> None:
    module = importlib.import_module(name)
    messages = {each for each in module.__all__ if hasattr(getattr(module, each), "DESCRIPTOR")}  # of .proto files
    assert sections().get(name, set()) == set(module.__all__) - messages
