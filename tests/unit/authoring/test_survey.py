"""The modules that a plugin's own code names and reaches, and which ones its executable can go without."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

import pytest

import nri
from nri.authoring.build_errors import BuildError
from nri.authoring.named_modules import NamedModules
from nri.authoring.packing import NOT_IN_PLUGINS
from nri.authoring.survey import Survey

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = nri.__file__.removesuffix("/nri/__init__.py")
STANDARD = [path for path in sys.path if path.startswith(sys.base_prefix)]

# One source


def named(text: str, *, is_main: bool = False) -> NamedModules:
    return NamedModules(ast.parse(text), is_main=is_main)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import a.b, c", {"a.b", "c"}),
        ("from a import b", {"a"}),
        ("def f():\n  if True:\n    import a", {"a"}),
        ("class C:\n  async def f(self):\n    from a.b import c", {"a.b"}),
        ("import_module('a.b'); importlib.import_module('c'); __import__('d')", {"a.b", "c", "d"}),
        ("class C:\n  uses = ('a.b', 'c')\n  used: tuple = ('d',)", {"a.b", "c"}),
        ("__import__('a' + x); import_module(name)", set()),
        ("if TYPE_CHECKING:\n  import a\nelse:\n  import b", {"b"}),
        ("if typing.TYPE_CHECKING:\n  import a", set()),
        ("if __name__ == '__main__':\n  import a", set()),
        ("f = lambda: __import__('a')", {"a"}),
        ("@__import__('a').b\ndef f(): pass", {"a"}),
    ],
)
def test_all_imports_that_can_run_are_found(text: str, expected: set[str]) -> None:
    assert {each.module for each in named(text).imports} == expected


def test_a_program_runs_what_another_module_does_not() -> None:
    text = "if __name__ == '__main__':\n  import a"
    assert [each.module for each in named(text, is_main=True).imports] == ["a"]


@pytest.mark.parametrize(
    ("text", "is_caught"),
    [
        ("try:\n  import a\nexcept ImportError:\n  pass", True),
        ("try:\n  import a\nexcept (OSError, ModuleNotFoundError):\n  pass", True),
        ("try:\n  import a\nexcept:\n  pass", True),
        ("try:\n  import a\nexcept OSError:\n  pass", False),
        ("try:\n  pass\nexcept ImportError:\n  import a", False),
        ("try:\n  try:\n    import a\n  finally:\n    pass\nexcept ImportError:\n  pass", True),
    ],
)
def test_an_import_that_may_fail_is_known(text: str, is_caught: bool) -> None:
    assert [each.is_caught for each in named(text).imports] == [is_caught]


def test_line_function_and_texts_are_known() -> None:
    (late,) = named("def f():\n  def g():\n    import a").imports
    assert (late.line, late.function) == (3, "f")
    assert named("x = 'ssl', 'a.b', 'no name', '-', '', 3").texts == {"ssl", "a.b"}


# A plugin with what it imports


def survey(folder: Path, text: str, **modules: str) -> Survey:
    """Survey a plugin with this text, and modules beside it; a module of a package is PACKAGE__MODULE."""
    (folder / "home").mkdir(exist_ok=True)
    (folder / "packages").mkdir(exist_ok=True)
    for name, content in modules.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(content)
    script = folder / "home/plugin.py"
    script.write_text(text)
    return Survey(str(script), [str(folder / "home"), str(folder / "packages"), SOURCE, *STANDARD])


WITH_TRACEBACKS = {"dataclasses", "inspect"} if sys.version_info >= (3, 14) else set()
"""What ``traceback``, which every plugin needs, imports with this Python."""

NEEDS = {
    "nothing": ("from nri import cgroups, skel\nfrom nri.types import v1", set()),
    "late, in another module of the package": ("import zoneinfo", {"pathlib", "tempfile"}),
    "in turn": (
        "def f():\n  from urllib.request import urlopen",
        {"urllib", "http", "email", "ssl", "_ssl", "socket"},
    ),
    "os without popen": ("import os", set()),
    "os with popen": ("import os\ndef f(): os.popen('x')", {"subprocess", "threading"}),
    "a text": ("NAMES = ['tempfile']", {"tempfile"}),
    "an encoding": ("def f(x): return x.decode('shift-jis')", {"_codecs_jp", "_multibytecodec"}),
}


@pytest.mark.parametrize("case", NEEDS)
def test_what_the_plugin_names_is_needed_with_what_that_imports(tmp_path: Path, case: str) -> None:
    text, expected = NEEDS[case]
    found = survey(tmp_path, text)
    needed = {name for name in NOT_IN_PLUGINS if found.needs(name)}
    assert expected <= needed
    assert expected or needed <= WITH_TRACEBACKS
    assert found.missing == []


def test_local_modules_and_packages_are_followed(tmp_path: Path) -> None:
    found = survey(
        tmp_path,
        "import local, pickle",
        home__local="def f():\n  from third import deep",
        home__pickle="import statistics",  # it goes before the one of the standard library
        packages__third____init__="",
        packages__third__deep="from .deeper import x",
        packages__third__deeper="def f():\n  import zipfile",
    )
    assert found.needs("zipfile")
    assert {"local", "third", "third.deep"} <= found.own
    assert "third.deeper" not in found.own
    assert found.needs("statistics")
    assert not found.needs("_pickle")


def test_an_own_import_that_finds_nothing_is_missing_unless_it_is_caught(tmp_path: Path) -> None:
    caught = "try:\n  import nowhere\nexcept ImportError:\n  pass\n"
    found = survey(tmp_path, f"{caught}import third\ndef f():\n  import missing", packages__third="import absent")
    assert [(each.module, each.line) for each in found.missing] == [("missing", 7)]


def test_wrong_source_is_named_if_it_is_local_and_left_to_the_run_in_a_package(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"local\.py:1: SyntaxError: "):
        survey(tmp_path, "import local", home__local="x = (")
    assert survey(tmp_path, "import third", packages__third="x = (").missing == []


def test_a_module_without_source_is_noted(tmp_path: Path) -> None:
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages/compiled.abi3.so").write_bytes(b"\x7fELF")
    assert survey(tmp_path, "import compiled").unreadable == {"compiled"}


def test_a_module_that_a_text_imports_is_hidden_from_pyinstaller(tmp_path: Path) -> None:
    found = survey(tmp_path, "import importlib\nimportlib.import_module('local')", home__local="import heapq")
    assert found.hidden == {"local"}
    assert found.known({"local", "sys", "heapq", "os.path", "nowhere"}) == {"local", "heapq"}
