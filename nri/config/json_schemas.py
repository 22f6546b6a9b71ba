"""The JSON Schemas of :mod:`nri.types` and :mod:`nri.config`; no validator fetches a schema from anywhere else."""

from __future__ import annotations

import importlib.resources
import json
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

PLACES = {"request": "nri.types", "result": "nri.types", "configlist": "nri.config", "host-config": "nri.config"}
"""Schemas by name, each with the package that it ships with."""


def load(name: str) -> dict[str, Any]:
    """The schema of that name, one of :data:`PLACES`."""
    resource = importlib.resources.files(PLACES[name]).joinpath("schemas", f"{name}.schema.json")
    schema: dict[str, Any] = json.loads(resource.read_bytes())
    return schema


def validator(name: str) -> Draft202012Validator:
    """A validator for the schema of that name, which may refer to the others."""
    resources = [DRAFT202012.create_resource(load(name)) for name in PLACES]
    return Draft202012Validator(load(name), registry=resources @ Registry())


def offline(schema: Any) -> Draft202012Validator:
    """A validator for a schema from elsewhere; a reference out of it cannot be resolved, and nothing is fetched."""
    return Draft202012Validator(schema, registry=Registry())
