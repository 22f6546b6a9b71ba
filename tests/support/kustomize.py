"""What ``kubectl kustomize`` makes of the features that deploy/kubernetes uses, for machines without kubectl.

Any other feature is an error. Names have no hash and no suffix, and images and namespaces stay as they are.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
KNOWN = {
    *("apiVersion", "kind", "namespace", "resources", "components", "patches"),
    *("configMapGenerator", "images", "nameSuffix", "labels"),
}
KEYS = {"volumeMounts": "mountPath", "initContainers": "name", "containers": "name", "volumes": "name"}
"""The lists that a strategic merge merges, each with the key of its elements; another list is replaced."""


def build(folder: Path) -> list[Object]:
    """Return the objects of a kustomization, in no particular order."""
    return _with_kustomization(folder, [])


def _with_kustomization(folder: Path, objects: list[Object]) -> list[Object]:
    """Return what a kustomization, or a component, makes of the objects so far."""
    spec = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert not (unknown := spec.keys() - KNOWN), f"{folder}: {unknown} is not known here"
    for name in spec.get("resources", []):
        path = folder / name
        objects += build(path) if path.is_dir() else list(yaml.safe_load_all(path.read_text()))
    for generator in spec.get("configMapGenerator", []):
        _generate(folder, generator, objects)
    for name in spec.get("components", []):
        objects = _with_kustomization(folder / name, objects)
    for patch in spec.get("patches", []):
        assert patch.keys() <= {"path", "patch"}, patch.keys()
        change = yaml.safe_load(patch["patch"] if "patch" in patch else (folder / patch["path"]).read_text())
        (target,) = [number for number, each in enumerate(objects) if _identity(each) == _identity(change)]
        objects[target] = merged(objects[target], change)
    for label in spec.get("labels", []):
        assert label.keys() == {"pairs", "includeSelectors"} and label["includeSelectors"] is True
        for each in objects:
            _label(each, label["pairs"])
    return objects


def merged(base: Any, patch: Any, key: str = "") -> Any:
    """Merge as a strategic merge patch does. New elements of a list come after the known ones."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return {**base, **{name: merged(base.get(name), value, name) for name, value in patch.items()}}
    if isinstance(base, list) and isinstance(patch, list) and key in KEYS:
        named = {item[KEYS[key]]: item for item in base}
        for item in patch:
            named[item[KEYS[key]]] = merged(named.get(item[KEYS[key]]), item)
        return list(named.values())
    return copy.deepcopy(patch)


def _identity(each: Object) -> tuple[str, str]:
    return each["kind"], each["metadata"]["name"]


def _generate(folder: Path, generator: dict[str, Any], objects: list[Object]) -> None:
    assert generator.keys() <= {"name", "files", "options", "behavior"}, generator.keys()
    data = {Path(file).name: (folder / file).read_text() for file in generator["files"]}
    name, behavior = generator["name"], generator.get("behavior", "create")
    known = [each for each in objects if _identity(each) == ("ConfigMap", name)]
    assert (behavior, len(known)) in {("create", 0), ("replace", 1)}
    if known:
        known[0]["data"] = data
    else:
        objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})


def _label(each: Object, pairs: dict[str, str]) -> None:
    each["metadata"].setdefault("labels", {}).update(pairs)
    if each["kind"] == "DaemonSet":
        each["spec"]["selector"]["matchLabels"].update(pairs)
        each["spec"]["template"]["metadata"]["labels"].update(pairs)
