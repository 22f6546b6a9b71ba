"""The Helm chart, rendered without Helm by :mod:`tests.support.go_templates`."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import yaml

from tests.support.go_templates import Templates
from tests.support.installing import DEPLOY

CHART = DEPLOY / "helm/nri"
FILES = {path.name: path.read_text() for path in (CHART / "templates").iterdir()}
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def values(given: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the default values overlaid by what is given, as Helm does: maps are merged, null removes a key.

    :raises jsonschema.ValidationError: the schema refuses them.
    """
    merged = _overlaid(yaml.safe_load((CHART / "values.yaml").read_text()), given or {})
    jsonschema.Draft7Validator(SCHEMA).validate(merged)
    return merged


def _overlaid(base: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    merged = copy.deepcopy(base)
    for key, value in given.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = _overlaid(merged[key], value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = copy.deepcopy(value)
    return merged


def root(given: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the object that Helm hands to each template."""
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    chart = {"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]}
    return {"Values": values(given), "Release": {"Name": "nri", "Namespace": "kube-system"}, "Chart": chart}


def render(given: dict[str, Any] | None = None) -> dict[str, str]:
    """Return the text of each file that is not a library of definitions."""
    templates = Templates(FILES)
    return {name: templates.render(name, root(given)) for name in FILES if not name.startswith("_")}


def objects(rendered: dict[str, str]) -> list[dict[str, Any]]:
    """Return the Kubernetes objects of rendered files."""
    texts = [text for name, text in rendered.items() if name.endswith(".yaml")]
    return [each for text in texts for each in yaml.safe_load_all(text) if each is not None]
