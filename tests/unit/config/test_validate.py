"""The table of the host configuration and its schema agree, and a valid file is read without slow modules."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nri
from harness import json_schemas
from nri.config.entries import HOST_CONFIG, is_type_name
from tests.unit.types.mutations import values

VALIDATOR = json_schemas.validator("host-config")
KEYS = ["type", "states", "failurePolicy", "timeout", "resident", "conf", "when"]
FULL: dict[str, Any] = {
    "$schema": "urn:nri:v0.1:host-config",
    "version": "0.1",
    "x-note": {"a": 1},
    "plugins": [
        {
            "type": "a",
            "conf": {"b": [1]},
            "states": ["setup", "update"],
            "failurePolicy": "fail",
            "timeout": 1.5,
            "resident": False,
        },
        {"type": "b-1.0_c", "x-": None},
        {
            "type": "c",
            "when": {
                "namespaces": ["kube-*", "shop"],
                "labels": {"app": {"equals": "web"}, "a/b": {"present": False}},
                "annotations": {
                    "team": {"equals": ["x", "y"], "pattern": "x*"},
                    "d": {"pattern": ["*", "a*b"]},
                },
                "sandbox": "both",
                "runtimeHandler": ["", "kata*"],
            },
        },
    ],
}


def entry(**keys: Any) -> dict[str, Any]:
    return {"version": "0.1", "plugins": [{"type": "a", **keys}]}


@settings(max_examples=300, deadline=None)
@given(values, st.sampled_from([*KEYS, "x-a", "Type"]))
def test_the_table_and_the_schema_agree_on_any_value_of_a_key(value: Any, key: str) -> None:
    document = entry(**{key: value})
    assert HOST_CONFIG.accepts(document) == VALIDATOR.is_valid(document)


@settings(max_examples=300, deadline=None)
@given(
    st.text(st.sampled_from("aZ09._-/\n é\u0660²"), max_size=6)
    | st.sampled_from(["a" * 255, "a" * 256])
)
def test_a_type_name_is_what_the_schema_says(name: str) -> None:
    assert is_type_name(name) == VALIDATOR.is_valid(entry(type=name))


@pytest.mark.parametrize("name", json_schemas.TABLES)
def test_the_schema_file_is_made_from_the_table(name: str) -> None:
    text = json.dumps(json_schemas.load(name), indent=2, ensure_ascii=False) + "\n"
    assert text == json_schemas.made(name), (
        "the table has changed: write the file with .venv/bin/python tools/schemas"
    )


def test_a_valid_configuration_is_read_without_slow_modules(tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text(json.dumps(FULL))
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from nri import config\n"
        "assert len(config.load(sys.argv[2], '/nonexistent').plugins) == 3\n"
        "print(*sys.modules)"
    )
    root = os.path.dirname(os.path.dirname(nri.__file__))
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, root, tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )
    standard = {
        "re",
        "json",
        "typing",
        "dataclasses",
        "enum",
        "pathlib",
        "logging",
        "collections",
        "difflib",
    }
    assert not {*ran.stdout.split()} & {*standard, "jsonschema"}
    assert not [
        name
        for name in ran.stdout.split()
        if name.startswith(("nri.config.diag", "nri.config.find"))
    ]
