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
    "time",
    "abc",  # os imports it; before Python 3.14 the interpreter itself did
    "_abc",
}


PLUGINS = ["clearcfs", "konfine", "logger", "device_injector", "hook_injector", "ulimit_adjuster"]


@pytest.mark.parametrize(
    "package", ["nri.types", "nri.types.v1", "nri.skel", *[f"nri.plugins.{name}" for name in PLUGINS]]
)
def test_what_a_plugin_imports_loads_next_to_nothing(package: str) -> None:
    code = (
        f"import sys; before = set(sys.modules); sys.path.insert(0, {ROOT!r}); import {package}\n"
        "print(sorted(set(sys.modules) - before))"
    )
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(ran.stdout))
    assert {name for name in loaded if not name.startswith("nri")} <= PLUGIN_MAY_LOAD
    may_load = {"errors", "scopes", "types", "skel"} | ({"plugins"} if ".plugins." in package else set())
    assert {name.split(".")[1] for name in loaded if name.startswith("nri.")} <= may_load


@pytest.mark.parametrize("plugin", ["device_injector", "ulimit_adjuster"])
@pytest.mark.parametrize(("value", "is_loaded"), [("", False), ("[]", False), ("- x", True), ("[x]", True)])
def test_a_plugin_loads_yaml_only_for_an_annotation_that_is_not_json(
    plugin: str, value: str, is_loaded: bool
) -> None:
    code = (
        f"import sys; sys.path.insert(0, {ROOT!r})\n"
        f"from nri.plugins import annotated, {plugin}\n"
        "from nri.types.table import ANYTHING\n"
        f"annotated.read(ANYTHING, {value!r}, 'a') if {value!r} else None\n"
        "print('yaml' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == f"{is_loaded}\n"


def test_every_plugin_is_known_to_these_tests_and_to_the_contract() -> None:
    folder = os.path.join(ROOT, "nri/plugins")
    found = {name for name in os.listdir(folder) if os.path.exists(os.path.join(folder, name, "__main__.py"))}
    assert found == set(PLUGINS)
    (contract,) = [each for each in contracts() if each["name"] == "the plugins do not know each other"]
    assert set(contract["modules"]) == {f"nri.plugins.{name}" for name in found}
