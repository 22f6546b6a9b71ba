"""The lines about the conf in ``TYPE --help``."""

from typing import Any

import pytest

from nri.skel.conf_help import lines_of


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        ({"type": "string", "description": "Its name."}, "  key: Its name. (string)"),
        (
            {"type": ["integer", "null"], "minimum": 1, "maximum": 9},
            "  key (integer, at least 1, at most 9)",
        ),
        (
            {"type": "number", "exclusiveMinimum": 0, "default": 0.5},
            "  key (number, above 0, default 0.5)",
        ),
        ({"enum": ["cpu", "memory", None]}, "  key (cpu or memory)"),
        ({"const": 7}, "  key (7)"),
        ({"type": ["null"], "default": None}, "  key"),
        ({"type": "object", "default": {}}, "  key (object)"),
        ({}, "  key"),
        (True, "  key"),
    ],
)
def test_a_key_has_a_line(schema: Any, line: str) -> None:
    assert lines_of({"properties": {"key": schema}}) == ["", "conf:", line]


def test_a_required_key_has_no_default() -> None:
    schema = {"properties": {"key": {"type": "string", "default": "a"}}, "required": ["key"]}
    assert lines_of(schema)[2:] == ["  key (string, required)"]


@pytest.mark.parametrize("schema", [None, True, {}, {"properties": {}}, {"properties": []}])
def test_a_schema_without_keys_has_no_lines(schema: Any) -> None:
    assert lines_of(schema) == []
