"""The layers of the package, and the modules that a plugin may load at its start."""

import ast
import os
import subprocess
import sys
import tomllib
from typing import Any

import pytest

import nri

ROOT = os.path.dirname(os.path.dirname(nri.__file__))


def contracts() -> list[dict[str, Any]]:
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        found: list[dict[str, Any]] = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return found


def not_there(contract: dict[str, Any]) -> list[str]:
    keys = ("layers", "modules", "source_modules", "forbidden_modules")
    named = [name for key in keys for layer in contract.get(key, []) for name in layer.split(" | ")]
    paths = {name: os.path.join(ROOT, *name.split(".")) for name in named}
    return [
        name
        for name, path in paths.items()
        if not os.path.exists(f"{path}/__init__.py") and not os.path.exists(f"{path}.py")
    ]


def test_nothing_imports_upwards_and_siblings_do_not_know_each_other() -> None:
    assert [name for contract in contracts() for name in not_there(contract)] == []
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


PLUGIN_MAY_LOAD = {
    "__future__",
    "_json",
    "errno",
    "os",
    "stat",
    "_stat",
    "posixpath",
    "genericpath",
    "os.path",
    "_collections_abc",
    "abc",  # os imports it; before Python 3.14 the interpreter itself did
    "_abc",
}


@pytest.mark.parametrize("package", ["nri.types", "nri.types.v1", "nri.skel"])
def test_what_a_plugin_imports_loads_next_to_nothing(package: str) -> None:
    code = (
        f"import sys; before = set(sys.modules); sys.path.insert(0, {ROOT!r}); import {package}\n"
        "print(sorted(set(sys.modules) - before))"
    )
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(ran.stdout))
    assert {name for name in loaded if not name.startswith("nri")} <= PLUGIN_MAY_LOAD
    assert {name.split(".")[1] for name in loaded if name.startswith("nri.")} <= {"errors", "types", "skel"}
