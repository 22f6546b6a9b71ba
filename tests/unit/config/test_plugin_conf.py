"""A plugin's conf against the schema that the plugin declares."""

import urllib.request
from pathlib import Path
from typing import Any

import pytest

from nri.config import PluginEntry, load
from nri.config.plugin_conf import check_conf, open_to_every_pod, openness_note
from nri.plugins.clearcfs import ClearCFS
from nri.plugins.konfine import Konfine
from nri.skel.process import schema_of
from tests.support.confs import validate_conf

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["cpus"],
    "additionalProperties": False,
    "properties": {
        "cpus": {"title": "CPU list", "type": "string", "pattern": "^[0-9,-]+$"},
        "mode": {"enum": ["soft", "hard"]},
        "share": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        "nodes": {"type": "array", "items": {"type": "integer"}},
        "size": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "sets": {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "integer", "minimum": 0}},
            ]
        },
        "who": {"anyOf": [{"type": ["boolean", "null"]}, {"type": "array"}]},
    },
}


@pytest.mark.parametrize(
    ("conf", "messages"),
    [
        ({"cpus": "0-3", "mode": "soft", "share": 0.5, "nodes": [1, 2], "size": 1}, []),
        ([], ["conf: found an array, expected an object"]),
        (None, ["conf: missing cpus"]),
        ({"cpu": "0"}, ["conf: missing cpus", "conf.cpu: unknown key, did you mean cpus?"]),
        ({"cpus": "a"}, ["conf.cpus: found the string 'a', expected CPU list"]),
        ({"cpus": 1}, ["conf.cpus: found the number 1, expected a string (CPU list)"]),
        ({"cpus": "1", "mode": "x"}, ["conf.mode: found the string 'x', expected one of [\"soft\",\"hard\"]"]),
        ({"cpus": "1", "share": 1}, ["conf.share: found the number 1, expected exclusiveMaximum 1"]),
        ({"cpus": "1", "nodes": [1, "a"]}, ["conf.nodes[1]: found the string 'a', expected an integer"]),
        (
            {"cpus": "1", "sets": [1, -1, "x"]},
            [
                "conf.sets[1]: found the number -1, expected minimum 0",
                "conf.sets[2]: found the string 'x', expected an integer",
            ],
        ),
        ({"cpus": "1", "size": []}, ["conf.size: found an array, expected a string or an integer"]),
        ({"cpus": "1", "who": 1}, ["conf.who: found the number 1, expected true or false or an array"]),
    ],
)  # fmt: skip
def test_a_wrong_value_is_reported_with_its_path(conf: Any, messages: list[str]) -> None:
    assert validate_conf(SCHEMA, conf) == messages


@pytest.mark.parametrize(
    ("schema", "conf"), [(True, [1]), ({"type": "null"}, None), ({"type": "object"}, None)]
)
def test_missing_conf_counts_as_null_or_empty(schema: Any, conf: Any) -> None:
    assert validate_conf(schema, conf) == []


DEEP: object = {}
for _ in range(3000):
    DEEP = {"not": DEEP}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (5, "it is no JSON Schema: (document): found the number 5, expected"),
        ({"type": "strin"}, "it is no JSON Schema: type:"),
        ({"pattern": "("}, "it is no JSON Schema: pattern:"),
        (
            {"$ref": "https://example.org/schema.json"},
            "it refers to 'https://example.org/schema.json', which is not",
        ),
        ({"$ref": "file:///etc/passwd"}, "it refers to 'file:///etc/passwd'"),
        ({"$ref": "#/$defs/gone"}, "it refers to '/$defs/gone', which is not in it"),
        ({"$ref": "#"}, "refers to itself without end"),
        ({"$dynamicRef": "#gone"}, "which is not in it"),
        (DEEP, "nested too deep"),
        ({"$id": "http://[", "$ref": "x"}, "it cannot be applied: ValueError"),
    ],
)
def test_wrong_schema_is_one_message_and_nothing_is_fetched(
    schema: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetched(*args: object, **kwargs: object) -> None:
        raise AssertionError("something was fetched")

    monkeypatch.setattr(urllib.request, "urlopen", fetched)
    (said,) = validate_conf(schema, {"a": 1})
    assert said.startswith("conf: cannot be checked against the plugin's schema: ")
    assert message in said
    assert len(said) < 400


def test_faults_have_their_places_in_their_own_files(tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text('{"version":"0.1","plugins":[{"type":"z"}]}')
    (tmp_path / "b.conf").write_text(
        '{"version": "0.1", "plugins": [{"type": "y"},\n {"type": "x",\n  "conf": {"share": 2,\n   "modes": 1}}]}'
    )
    plugins = load(str(tmp_path), "/nonexistent").plugins
    file = plugins[2].source
    assert [str(fault) for fault in check_conf(plugins[2], SCHEMA)] == [
        f"{file}:3:11: plugins[1].conf: missing cpus",
        f"{file}:3:21: plugins[1].conf.share: found the number 2, expected exclusiveMaximum 1",
        f"{file}:4:4: plugins[1].conf.modes: unknown key, did you mean mode?",
    ]
    assert [str(fault) for fault in check_conf(plugins[1], SCHEMA)] == [
        f"{file}:1:32: plugins[0].conf: missing cpus"
    ]
    assert check_conf(plugins[1], True) == ()


def test_faults_have_no_place_where_the_file_is_gone() -> None:
    plugin = PluginEntry(type="a", conf={}, source="/nonexistent/a.conf", source_index=4)
    (fault,) = check_conf(plugin, SCHEMA)
    assert str(fault) == "/nonexistent/a.conf:1:1: plugins[4].conf: missing cpus"
    (fault,) = check_conf(PluginEntry(type="a", conf={}), SCHEMA)
    assert fault.file == "(no file)"


# Settings that an entry leaves open to every pod

BOTH = ("class", "cpus")


@pytest.mark.parametrize(
    ("conf", "found"),
    [
        (None, BOTH),
        ({"allow": {}}, BOTH),
        ({"allow": {"class": None, "cpus": True}}, BOTH),
        ({"allow": {"class": ["kube-system"]}}, ("cpus",)),
        ({"allow": {"class": [], "cpus": False}}, ()),
        ("text", BOTH),
        ({"allow": ["class"]}, BOTH),
    ],
)
def test_an_allow_that_is_missing_null_or_true_is_open(conf: Any, found: tuple[str, ...]) -> None:
    assert open_to_every_pod(schema_of(Konfine()), conf) == found
    assert open_to_every_pod(schema_of(ClearCFS()), conf) == found[:1] * ("class" in found)


@pytest.mark.parametrize(
    ("allow", "found"),
    [
        ({"devices": None}, ()),
        ({"devices": False, "mounts": ["shop"]}, ()),
        ({"devices": True, "mounts": True}, ("devices", "mounts")),
    ],
)
def test_setting_closed_by_default_is_open_only_if_true(allow: Any, found: tuple[str, ...]) -> None:
    schema = {
        "properties": {
            "allow": {"properties": {"devices": {"default": False}, "mounts": {"default": []}}}
        }
    }
    assert open_to_every_pod(schema, {"allow": allow}) == found


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"properties": []},
        {"properties": {"allow": True}},
        {"properties": {"allow": {"properties": []}}},
    ],
)
def test_a_plugin_that_declares_no_allow_leaves_nothing_open(schema: Any) -> None:
    assert open_to_every_pod(schema, {"allow": {"class": True}}) == ()
    assert openness_note(PluginEntry(type="a"), schema) == ""
