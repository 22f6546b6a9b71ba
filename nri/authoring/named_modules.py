"""The modules that a piece of Python source names: in import statements, and in texts.

The source is only parsed. Imports within functions count as all others, so that a late import is found. What stands
under ``if TYPE_CHECKING:`` does not: it never runs.
"""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_TEXT = re.compile(r"[A-Za-z_][\w.-]*")  # encodings have hyphens
_MAX_NAME = 100  # characters of a text that may be a name
_USES = "uses"  # of nri.skel.Plugin
_IMPORTERS = ("__import__", "import_module")
_CAUGHT = ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")


class Named(NamedTuple):
    """One import of a source."""

    module: str  # as it is written, without the dots of a relative import
    line: int
    level: int = 0  # dots of a relative import
    children: tuple[str, ...] = ()  # names of `from module import …`, which may be modules
    is_caught: bool = False  # True if the source catches that the module is missing
    function: str = ""  # the function that imports late, the outermost
    is_text: bool = False  # True for importlib.import_module("module")


class NamedModules(ast.NodeVisitor):
    """What a source names.

    :param is_main: whether ``if __name__ == "__main__":`` runs.
    """

    def __init__(self, tree: ast.AST, *, is_main: bool) -> None:
        self.imports: list[Named] = []
        self.texts: set[str] = set()  # texts that may be the name of a module or an encoding
        self.words: set[str] = set()  # names and attributes
        self._is_main = is_main
        self._caught, self._function = False, ""
        self.visit(tree)

    def visit_Import(self, node: ast.Import) -> None:
        """Add the modules of ``import a, b``."""
        for alias in node.names:
            self._add(alias.name, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Add the module of ``from a import b``."""
        children = tuple(alias.name for alias in node.names)
        self._add(node.module or "", node.lineno, level=node.level, children=children)

    def visit_Assign(self, node: ast.Assign | ast.AnnAssign) -> None:
        """Add the modules that a plugin's ``uses`` names, and visit the value."""
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(getattr(target, "id", "") == _USES for target in targets) and node.value is not None:
            texts = [each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant)]
            for text in texts:
                if isinstance(text, str) and _DOTTED.fullmatch(text):
                    self._add(text, node.lineno, is_text=True)
        self.generic_visit(node)

    visit_AnnAssign = visit_Assign  # noqa: N815

    def visit_Call(self, node: ast.Call) -> None:
        """Add the module of ``import_module("a")``, and visit what it contains."""
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if called in _IMPORTERS and node.args and isinstance(node.args[0], ast.Constant):
            name = node.args[0].value
            if isinstance(name, str) and _DOTTED.fullmatch(name):
                self._add(name, node.lineno, is_text=True)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Keep a text that may be a name."""
        if isinstance(node.value, str) and len(node.value) <= _MAX_NAME and _TEXT.fullmatch(node.value):
            self.texts.add(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        """Keep the word."""
        self.words.add(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Keep the word, and visit the object."""
        self.words.add(node.attr)
        self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        """Leave out a branch that never runs."""
        never = _is_type_checking(node.test) or (_is_main_test(node.test) and not self._is_main)
        for part in [node.test, *([] if never else node.body), *node.orelse]:
            self.visit(part)

    def visit_Try(self, node: ast.Try) -> None:
        """Note which imports may fail."""
        before = self._caught
        self._caught = before or any(_catches_import(handler.type) for handler in node.handlers)
        for part in node.body:
            self.visit(part)
        self._caught = before
        for rest in [*node.handlers, *node.orelse, *node.finalbody]:
            self.visit(rest)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Note which imports come late."""
        before, self._function = self._function, self._function or node.name
        self.generic_visit(node)
        self._function = before

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def _add(
        self, module: str, line: int, *, level: int = 0, children: tuple[str, ...] = (), is_text: bool = False
    ) -> None:
        self.imports.append(Named(module, line, level, children, self._caught, self._function, is_text))


def _is_type_checking(test: ast.expr) -> bool:
    return getattr(test, "attr", getattr(test, "id", "")) == "TYPE_CHECKING"


def _is_main_test(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and getattr(test.left, "id", "") == "__name__"


def _catches_import(kind: ast.expr | None) -> bool:
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(each is None or getattr(each, "attr", getattr(each, "id", "")) in _CAUGHT for each in kinds)
