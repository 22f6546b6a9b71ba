"""The JSON Schemas and the types come to the same verdict on the same documents."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from harness import json_schemas
from nri.config.entries import PLUGIN, PluginEntry
from nri.testing import recorded
from nri.types.jsonobject import JSONObject
from nri.types.v1 import Request, Result, Spec
from tests.unit.types.test_v1 import GOLDEN

TYPES: dict[str, type[JSONObject]] = {"request": Request, "result": Result}
VALIDATORS = {name: json_schemas.validator(name) for name in json_schemas.PLACES}


@pytest.mark.parametrize("name", json_schemas.PLACES)
def test_a_schema_is_one_and_says_which(name: str) -> None:
    schema = json_schemas.load(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:nri:v0.1:{name}"


def test_the_schema_accepts_the_recorded_requests() -> None:
    for name in GOLDEN:
        VALIDATORS["request"].validate(recorded(name))


def test_the_schemas_have_the_keys_that_the_types_have() -> None:
    request = json_schemas.load("request")
    kinds: list[tuple[Any, type[JSONObject]]] = [
        *(
            (request, Request),
            (request["$defs"]["spec"], Spec),
            (json_schemas.load("result"), Result),
        ),
    ]
    for schema, kind in kinds:
        assert set(schema["properties"]) == {field.key for field in kind.FIELDS}


def test_an_entry_reads_and_writes_each_key_of_its_table() -> None:
    conf: dict[str, Any] = {"a": 1}
    value = {
        "type": "a",
        "conf": conf,
        "states": ["setup"],
        "failurePolicy": "fail",
        "timeout": 1.5,
    }
    value |= {"resident": False, "waiting": True, "when": {"sandbox": True}}
    assert set(value) == set(PLUGIN.keys)
    assert PluginEntry.of_accepted(value).to_value() == value
