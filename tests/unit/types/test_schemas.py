"""The JSON Schemas and the types come to the same verdict on the same documents."""

import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from jsonschema import Draft202012Validator

from fuzz.targets.wire_messages import whole_number_with_a_point
from harness import json_schemas
from nri.config.entries import ConfigList, PluginEntry
from nri.testing import recorded
from nri.types import DecodeError
from nri.types.jsonobject import JSONObject
from nri.types.v1 import Request, Result, Spec
from tests.unit.types.mutations import mutated
from tests.unit.types.test_v1 import GOLDEN

TYPES: dict[str, type[JSONObject]] = {"request": Request, "result": Result, "configlist": ConfigList}
VALIDATORS = {name: json_schemas.validator(name) for name in json_schemas.PLACES}

RESULT = {
    "plugin": "a",
    "version": "0.1",
    "error": "",
    "metadata": {"a": "b"},
    "cgroupsPath": "/a",
    "adjust": {"env": {"A": "1"}},
    "updates": [{"id": "b", "resources": {}}],
    "more": {"x": [1]},
}
REQUEST = {
    "conf": {"a": [1]},
    "version": "0.1",
    "state": "create",
    "id": "a",
    "sandboxID": "b",
    "pid": 1,
    "spec": {"resources": {}, "namespaces": {"pid": "/p"}, "cgroupsPath": "/a", "annotations": {"a": "b"}},
    "labels": {"a": "b"},
    "results": [RESULT],
    "late": True,
    "prevResult": RESULT,
    "release": True,
}
CONFIG = {
    "version": "0.1",
    "plugins": [
        {"type": "a", "conf": {}, "states": ["setup"], "failurePolicy": "fail", "timeout": 1.5, "resident": False},
        {"type": "b", "when": {"namespaces": ["c*"], "labels": {"d": {"present": True}}, "sandbox": False}},
    ],
}


def types_accept(name: str, document: Any) -> bool:
    try:
        TYPES[name].from_json(json.dumps(document))
    except DecodeError:
        return False
    return True


@pytest.mark.parametrize(("name", "good"), [("request", REQUEST), ("result", RESULT), ("configlist", CONFIG)])
def test_types_and_schemas_agree_on_mutated_documents(name: str, good: Any) -> None:
    @settings(max_examples=200, deadline=None)
    @given(mutated([good]))
    def agree(document: Any) -> None:
        assume(not whole_number_with_a_point(document))
        assert VALIDATORS[name].is_valid(document) == types_accept(name, document)

    agree()


@pytest.mark.parametrize("name", json_schemas.PLACES)
def test_a_schema_is_one_and_says_which(name: str) -> None:
    schema = json_schemas.load(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:nri:v0.1:{name}"


def any_case(name: str) -> str:
    """The pattern for the keys that Go takes for ``name``."""
    more = {"s": "\u017f", "k": "\u212a"}
    return "^" + "".join(f"[{c.lower()}{c.upper()}{more.get(c.lower(), '')}]" for c in name) + "(?!\\n)$"


@pytest.mark.parametrize("name", TYPES)
def test_every_wire_property_has_a_pattern_for_other_cases(name: str) -> None:
    schema = json_schemas.load(name)
    objects = [("#", schema), *[(f"#/$defs/{key}", inner) for key, inner in schema.get("$defs", {}).items()]]
    for where, described in objects:
        assert described["patternProperties"] == {
            any_case(key): {"$ref": f"{where}/properties/{key}"} for key in described["properties"]
        }


def test_the_schema_accepts_the_recorded_requests() -> None:
    for name in GOLDEN:
        VALIDATORS["request"].validate(recorded(name))


def test_the_schemas_have_the_keys_that_the_types_have() -> None:
    request, configlist = json_schemas.load("request"), json_schemas.load("configlist")
    kinds: list[tuple[Any, type[JSONObject]]] = [
        *((request, Request), (request["$defs"]["spec"], Spec), (json_schemas.load("result"), Result)),
        *((configlist, ConfigList), (configlist["$defs"]["plugin"], PluginEntry)),
    ]
    for schema, kind in kinds:
        assert set(schema["properties"]) == {field.key for field in kind.FIELDS}
