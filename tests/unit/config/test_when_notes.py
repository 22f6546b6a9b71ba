"""What nri check notes about conditions that are valid and probably not meant."""

from __future__ import annotations

from typing import Any

import pytest

from nri.config import PluginEntry
from nri.config.when_notes import notes

OF_PODS = "alone, so the author of a pod decides whether the plugin runs"
NEVER = "never met: "

CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({"namespaces": ["kube-system"], "sandbox": False}, []),
    ({"namespaces": ["a"], "annotations": {"b": {"present": True}}}, []),
    ({"annotations": {"b": {"present": True}}}, [f"when: depends on annotations {OF_PODS}"]),
    ({"annotations": {"b": {"present": True}}, "sandbox": False}, [f"when: depends on annotations {OF_PODS}"]),
    (
        {"labels": {"b": {"equals": "c"}}, "annotations": {"b": {"present": True}}},
        [f"depends on labels and annotations {OF_PODS}", "nri hook and nri-runc do not know labels; what is"],
    ),
    ({"namespaces": ["a"], "runtimeHandler": ["x"]}, ["when: nri hook and nri-runc do not know runtime handlers;"]),
]

RULES: list[tuple[str, dict[str, Any], str]] = [
    ("annotations", {"present": False, "equals": "x"}, f"['a.b']: {NEVER}what is not present has no value"),
    ("annotations", {"present": False, "pattern": "x*"}, f"{NEVER}what is not present has no value"),
    ("annotations", {"equals": ["ab", "b"], "pattern": ["c*", "*d"]}, f"{NEVER}no value of equals matches"),
    ("annotations", {"equals": ["ab", "b"], "pattern": ["c*", "a*"]}, ""),
    ("annotations", {"equals": "x y"}, ""),
    ("labels", {"equals": "x y"}, f"{NEVER}no label has such a value"),
    ("labels", {"equals": ["x" * 64, "-x"]}, f"{NEVER}no label has such a value"),
    ("labels", {"equals": ["x" * 63, "-x"]}, ""),
    ("labels", {"equals": ""}, ""),
    ("labels", {"pattern": "x y*"}, f"{NEVER}no label has a value that matches"),
    ("labels", {"pattern": "*" + "x*" * 64}, f"{NEVER}no label has a value that matches"),
    ("labels", {"pattern": "*-*"}, ""),
    ("annotations", {"pattern": "web.*"}, "'web.*' looks like a regular expression; only * is special"),
    ("annotations", {"pattern": "^web-*"}, "looks like a regular expression"),
    ("annotations", {"pattern": "web[0-9]*"}, "looks like a regular expression"),
    ("annotations", {"pattern": "web-*"}, ""),
]


def noted(when: dict[str, Any], source: str = "/etc/nri/resource.d/10.conf") -> list[str]:
    return notes(PluginEntry(type="a", when=when, source=source, source_index=3), "/etc/nri/conf.json")


@pytest.mark.parametrize(("when", "expected"), CASES, ids=str)
def test_a_condition_has_its_notes(when: dict[str, Any], expected: list[str]) -> None:
    found = noted(when)
    assert len(found) == len(expected)
    for line, text in zip(found, expected, strict=True):
        assert line.startswith("/etc/nri/resource.d/10.conf: plugins[3].when")
        assert text in line


@pytest.mark.parametrize(("of", "rule", "expected"), RULES, ids=str)
def test_a_rule_has_its_notes(of: str, rule: dict[str, Any], expected: str) -> None:
    found = noted({"namespaces": ["*"], of: {"a.b": rule}})
    found = [line for line in found if "nri-runc" not in line]
    if expected:
        assert any(expected in line for line in found), found
        assert all(f"plugins[3].when.{of}" in line for line in found)
    else:
        assert found == []


def test_a_condition_in_containerds_file_is_noted() -> None:
    found = noted({"sandbox": True}, "/etc/nri/conf.json")
    assert len(found) == 1
    assert found[0].startswith("/etc/nri/conf.json: plugins[3].when: containerd runs the plugins of this file itself")


def test_an_entry_without_a_condition_has_no_notes() -> None:
    assert notes(PluginEntry(type="a", source="/etc/nri/conf.json"), "/etc/nri/conf.json") == []
