"""The JSON Schemas of :mod:`nri.types` and :mod:`nri.config`, for tests and tools."""

from __future__ import annotations

import importlib.resources
import json
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from nri.config.validate import HOST_CONFIG
from nri.types.table_explained import schema

PLACES = {"request": "nri.types", "result": "nri.types", "configlist": "nri.config", "host-config": "nri.config"}
"""The name of each schema, with the package that it ships with."""


def load(name: str) -> dict[str, Any]:
    """Return the schema of that name, one of :data:`PLACES`."""
    resource = importlib.resources.files(PLACES[name]).joinpath("schemas", f"{name}.schema.json")
    schema: dict[str, Any] = json.loads(resource.read_bytes())
    return schema


def host_config() -> dict[str, Any]:
    """Return the schema of the host configuration as its table has it: the content of ``host-config.schema.json``."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "urn:nri:v0.1:host-config"}
    return head | schema(HOST_CONFIG)


def validator(name: str) -> Draft202012Validator:
    """Return a validator for the schema of that name, which may refer to the others."""
    resources = [DRAFT202012.create_resource(load(name)) for name in PLACES]
    return Draft202012Validator(load(name), registry=resources @ Registry())
