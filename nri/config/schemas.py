"""The JSON Schemas that ship with :mod:`nri.types`, and validators that never fetch one from anywhere else."""

from __future__ import annotations

import importlib.resources
import json
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

NAMES = ("request", "result", "configlist", "host-config")


def load(name: str) -> dict[str, Any]:
    """The schema of that name, one of :data:`NAMES`."""
    resource = importlib.resources.files("nri.types").joinpath("schemas", f"{name}.schema.json")
    schema: dict[str, Any] = json.loads(resource.read_bytes())
    return schema


def validator(name: str) -> Draft202012Validator:
    """A validator for the schema of that name, which may refer to the others."""
    resources = [DRAFT202012.create_resource(load(name)) for name in NAMES]
    return Draft202012Validator(load(name), registry=resources @ Registry())


def offline(schema: Any) -> Draft202012Validator:
    """A validator for a schema from elsewhere; a reference out of it cannot be resolved, and nothing is fetched."""
    return Draft202012Validator(schema, registry=Registry())
