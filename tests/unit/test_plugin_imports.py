"""The modules that a plugin may load at its start."""

import ast
import os
import subprocess
import sys

import pytest

import nri

ROOT = os.path.dirname(os.path.dirname(nri.__file__))


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


PLUGINS = [
    "clearcfs",
    "konfine",
    "logger",
    "device_injector",
    "hook_injector",
    "ulimit_adjuster",
    "qos",
]


@pytest.mark.parametrize(
    "package",
    ["nri.types", "nri.types.v1", "nri.skel", *[f"nri.plugins.{name}" for name in PLUGINS]],
)
def test_modules_that_a_plugin_imports_load_little(package: str) -> None:
    code = (
        f"import sys; before = set(sys.modules); sys.path.insert(0, {ROOT!r}); import {package}\n"
        "print(sorted(set(sys.modules) - before))"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(ast.literal_eval(ran.stdout))
    assert {name for name in loaded if not name.startswith("nri")} <= PLUGIN_MAY_LOAD
    may_load = {"errors", "types", "skel"} | ({"plugins"} if ".plugins." in package else set())
    assert {name.split(".")[1] for name in loaded if name.startswith("nri.")} <= may_load


@pytest.mark.parametrize("plugin", ["device_injector", "ulimit_adjuster"])
@pytest.mark.parametrize(
    ("value", "is_loaded"), [("", False), ("[]", False), ("- x", True), ("[x]", True)]
)
def test_yaml_is_loaded_only_for_annotations_that_are_not_json(
    plugin: str, value: str, is_loaded: bool
) -> None:
    code = (
        f"import sys; sys.path.insert(0, {ROOT!r})\n"
        f"from nri.plugins import annotated, {plugin}\n"
        "from nri.types.table import ANYTHING\n"
        f"annotated.read(ANYTHING, {value!r}, 'a') if {value!r} else None\n"
        "print('yaml' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"{is_loaded}\n"
