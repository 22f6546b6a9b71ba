"""The JSON Schemas that come with the package, for tests and tools."""

from __future__ import annotations

import importlib.resources
import json
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from nri.adjust.document import ADJUST, UPDATES
from nri.config.entries import HOST_CONFIG
from nri.runc.options import WrapperOptions
from nri.types.table_explained import schema
from nri.v1bridge import BridgeOptions

PLACES = {
    "request": "nri.types",
    "result": "nri.types",
    "host-config": "nri.config",
    "bridge-options": "nri.v1bridge",
    "runtime-options": "nri.runc",
    "adjust": "nri.adjust",
    "updates": "nri.adjust",
}
"""The name of each schema, with the package that it ships with."""

TABLES = {
    "host-config": HOST_CONFIG,
    "bridge-options": BridgeOptions.table,
    "runtime-options": WrapperOptions.table,
    "adjust": ADJUST,
    "updates": UPDATES,
}
"""The table of each schema that is made from one."""


def load(name: str) -> dict[str, Any]:
    """Return the schema of that name, one of ``PLACES``."""
    resource = importlib.resources.files(PLACES[name]).joinpath("schemas", f"{name}.schema.json")
    schema: dict[str, Any] = json.loads(resource.read_bytes())
    return schema


def made(name: str) -> str:
    """Return the text of a schema's file as its table has it; *name* is one of ``TABLES``."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:nri:v0.1:{name}",
    }
    return json.dumps(head | schema(TABLES[name]), indent=2, ensure_ascii=False) + "\n"


def path(name: str) -> str:
    """Return the path of a schema's file in the source tree."""
    return f"{PLACES[name].replace('.', '/')}/schemas/{name}.schema.json"


def validator(name: str) -> Draft202012Validator:
    """Return a validator for the schema of that name, which may refer to the others."""
    resources = [DRAFT202012.create_resource(load(name)) for name in PLACES]
    return Draft202012Validator(load(name), registry=resources @ Registry())
