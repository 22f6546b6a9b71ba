"""The table of the host configuration and its schema agree, and a valid file is read without slow modules."""

from __future__ import annotations

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
from fuzz.documents import WORDS
from fuzz.targets import host_config
from harness import json_schemas
from nri.config import PluginEntry, entries, validate
from nri.config.validate import HOST_CONFIG
from nri.types.table import NOTE_PREFIX
from nri.types.v1 import STATES, VERSION
from tests.unit.config.test_diagnostics import FAULTS
from tests.unit.types.mutations import mutated, values

VALIDATOR = json_schemas.validator("host-config")
FULL = {
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
            "prefork": "always",
        },
        {"type": "b-1.0_c", "x-": None},
        {
            "type": "c",
            "when": {
                "namespaces": ["kube-*", "shop"],
                "labels": {"app": {"equals": "web"}, "a/b": {"present": False}},
                "annotations": {"team": {"equals": ["x", "y"], "pattern": "x*"}, "d": {"pattern": ["*", "a*b"]}},
                "sandbox": "both",
                "runtimeHandler": ["", "kata*"],
            },
        },
    ],
}


@settings(max_examples=1000, deadline=None)
@given(mutated([FULL, {"version": "0.1", "plugins": []}, {"version": "0.1", "plugins": [{"type": "a"}]}]))
def test_the_table_and_the_schema_agree_on_mutated_documents(value: Any) -> None:
    assert HOST_CONFIG.accepts(value) == VALIDATOR.is_valid(value)
    host_config.check(json.dumps(value).encode())


@settings(max_examples=300, deadline=None)
@given(
    values, st.sampled_from(["type", "states", "failurePolicy", "timeout", "prefork", "conf", "when", "x-a", "Type"])
)
def test_the_table_and_the_schema_agree_on_any_value_of_a_key(value: Any, key: str) -> None:
    document = {"version": "0.1", "plugins": [{"type": "a", key: value}]}
    assert HOST_CONFIG.accepts(document) == VALIDATOR.is_valid(document)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(["1", '{"a":1,"\\u0061":2}', '{"a":[{}]}']))))
def test_parsing_refuses_the_duplicates_that_are_located(pairs: list[tuple[str, str]]) -> None:
    inner = ",".join(f"{json.dumps(key)}:{value}" for key, value in pairs)
    host_config.check(f'{{"version":"0.1","plugins":[{{"type":"a","conf":{{{inner}}}}}]}}'.encode())


@pytest.mark.parametrize("document", [document for document, _ in FAULTS], ids=lambda case: repr(case)[:50])
def test_no_faulty_document_is_valid(document: str | bytes) -> None:
    host_config.check(document if isinstance(document, bytes) else document.encode())


def test_the_full_document_is_valid() -> None:
    assert validate.parse(json.dumps(FULL).encode()) == FULL


def test_the_rules_are_the_schemas() -> None:
    schema = json_schemas.load("host-config")
    entry = schema["properties"]["plugins"]["items"]
    properties = entry["properties"]
    assert tuple(schema["properties"]) == ("$schema", "version", "plugins")
    assert set(properties) == {field.key for field in PluginEntry.FIELDS}
    assert list(schema["patternProperties"]) == list(entry["patternProperties"]) == [f"^{NOTE_PREFIX}"]
    assert list(entries.FAILURE_POLICIES) == properties["failurePolicy"]["enum"]
    assert list(STATES) == properties["states"]["items"]["enum"]
    assert properties["timeout"]["maximum"] == entries.MAX_TIMEOUT
    assert properties["type"]["maxLength"] == entries.MAX_TYPE_LENGTH
    assert properties["type"]["pattern"] == entries.TYPE_PATTERN
    assert list(entries.PREFORK) == properties["prefork"]["enum"]
    assert schema["properties"]["version"]["const"] == VERSION


@pytest.mark.parametrize("name", json_schemas.TABLES)
def test_the_schema_file_is_made_from_the_table(name: str) -> None:
    text = json.dumps(json_schemas.load(name), indent=2, ensure_ascii=False) + "\n"
    assert text == json_schemas.made(name), (
        "the table has changed: write the file with .venv/bin/python tools/schemas"
    )


def test_a_valid_configuration_is_read_without_anything_slow(tmp_path: Path) -> None:
    with open(tmp_path / "a.conf", "w") as file:
        json.dump(FULL, file)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from nri import config\n"
        "assert len(config.load(sys.argv[2], '/nonexistent').plugins) == 3\n"
        "print(*sys.modules)"
    )
    root = os.path.dirname(os.path.dirname(nri.__file__))
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, root, tmp_path], capture_output=True, text=True, check=True
    )
    loaded = set(ran.stdout.split())
    slow = {
        "re",
        "json",
        "typing",
        "dataclasses",
        "enum",
        "pathlib",
        "logging",
        "collections",
        "jsonschema",
        "difflib",
    }
    assert not loaded & slow
    assert {name for name in loaded if name.startswith("nri.")} == {
        "nri.config",
        "nri.config.entries",
        "nri.config.faults",
        "nri.config.loading",
        "nri.config.validate",
        "nri.config.when",
        "nri.config.when_rules",
        "nri.errors",
        "nri.filekind",
        "nri.places",
        "nri.trust",
        "nri.types",
        "nri.types.gojson",
        "nri.types.jsonobject",
        "nri.types.table",
        "nri.types.v1",
    }
