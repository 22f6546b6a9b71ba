"""The modules that a source names: everywhere in it, and nothing that never runs."""

from __future__ import annotations

import ast

import pytest

from nri.authoring.named_modules import NamedModules

NAMED = {
    "at the top": ("import a.b, c", {"a.b", "c"}),
    "from": ("from a import b", {"a"}),
    "late": ("def f():\n  if True:\n    import a", {"a"}),
    "in a method": ("class C:\n  async def f(self):\n    from a.b import c", {"a.b"}),
    "by importlib": ("import_module('a.b'); importlib.import_module('c'); __import__('d')", {"a.b", "c", "d"}),
    "by a plugin's uses": ("class C:\n  uses = ('a.b', 'c')\n  used: tuple = ('d',)", {"a.b", "c"}),
    "by a name that is computed": ("__import__('a' + x); import_module(name)", set()),
    "for types": ("if TYPE_CHECKING:\n  import a\nelse:\n  import b", {"b"}),
    "for types, qualified": ("if typing.TYPE_CHECKING:\n  import a", set()),
    "as a program": ("if __name__ == '__main__':\n  import a", set()),
    "in a lambda": ("f = lambda: __import__('a')", {"a"}),
    "in a decorator": ("@__import__('a').b\ndef f(): pass", {"a"}),
}


@pytest.mark.parametrize("case", NAMED)
def test_all_imports_that_can_run_are_found(case: str) -> None:
    text, expected = NAMED[case]
    assert {named.module for named in NamedModules(ast.parse(text), is_main=False).imports} == expected


def test_a_program_runs_what_another_module_does_not() -> None:
    tree = ast.parse("if __name__ == '__main__':\n  import a")
    assert [named.module for named in NamedModules(tree, is_main=True).imports] == ["a"]


CAUGHT = {
    "try:\n  import a\nexcept ImportError:\n  pass": True,
    "try:\n  import a\nexcept (OSError, ModuleNotFoundError):\n  pass": True,
    "try:\n  import a\nexcept:\n  pass": True,
    "try:\n  import a\nexcept OSError:\n  pass": False,
    "try:\n  pass\nexcept ImportError:\n  import a": False,
    "try:\n  try:\n    import a\n  finally:\n    pass\nexcept ImportError:\n  pass": True,
}


@pytest.mark.parametrize("text", CAUGHT)
def test_an_import_that_may_fail_is_known(text: str) -> None:
    (named,) = NamedModules(ast.parse(text), is_main=False).imports
    assert named.is_caught == CAUGHT[text]


def test_line_and_function_of_a_late_import_are_known() -> None:
    (named,) = NamedModules(ast.parse("def f():\n  def g():\n    import a"), is_main=False).imports
    assert (named.line, named.function) == (3, "f")


def test_texts_that_may_name_a_module_are_kept() -> None:
    found = NamedModules(ast.parse("x = 'ssl', 'a.b', 'no name', '-', '', 3"), is_main=False)
    assert found.texts == {"ssl", "a.b"}
