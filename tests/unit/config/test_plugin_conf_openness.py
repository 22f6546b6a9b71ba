"""The settings that an entry leaves open to every pod, by the plugin's schema, which may be anything."""

from __future__ import annotations

from typing import Any

import pytest

from nri.config import PluginEntry
from nri.config.plugin_conf import open_to_every_pod, openness_note
from nri.plugins.clearcfs import ClearCFS
from nri.plugins.konfine import Konfine
from nri.skel.process import schema_of

BOTH = ("class", "cpus")


@pytest.mark.parametrize(
    ("conf", "found"),
    [
        (None, BOTH),
        ({}, BOTH),
        ({"allow": None}, BOTH),
        ({"allow": {}}, BOTH),
        ({"allow": {"class": None, "cpus": True}}, BOTH),
        ({"allow": {"class": ["kube-system"]}}, ("cpus",)),
        ({"allow": {"cpus": False}}, ("class",)),
        ({"allow": {"class": [], "cpus": False}}, ()),
        ([], BOTH),
        ("text", BOTH),
        ({"allow": ["class"]}, BOTH),
    ],
)
def test_what_is_left_out_null_or_true_is_open(conf: Any, found: tuple[str, ...]) -> None:
    assert open_to_every_pod(schema_of(Konfine()), conf) == found
    assert open_to_every_pod(schema_of(ClearCFS()), conf) == found[:1] * ("class" in found)


@pytest.mark.parametrize(
    ("allow", "found"),
    [
        (None, ()),
        ({}, ()),
        ({"devices": None}, ()),
        ({"devices": False, "mounts": ["shop"]}, ()),
        ({"devices": True, "mounts": True}, ("devices", "mounts")),
    ],
)
def test_what_is_closed_by_default_is_open_only_if_it_is_true(allow: Any, found: tuple[str, ...]) -> None:
    schema = {"properties": {"allow": {"properties": {"devices": {"default": False}, "mounts": {"default": []}}}}}
    assert open_to_every_pod(schema, {"allow": allow}) == found


@pytest.mark.parametrize(
    "schema",
    [
        *(True, False, None, [], "x", {}, {"properties": []}, {"properties": {"allow": True}}),
        *({"properties": {"allow": {"properties": []}}}, {"properties": {"allow": {"type": "boolean"}}}),
    ],
)
def test_a_plugin_that_declares_no_allow_leaves_nothing_open(schema: Any) -> None:
    assert open_to_every_pod(schema, {"allow": {"class": True}}) == ()
    assert openness_note(PluginEntry(type="a"), schema) == ""


def test_the_note_names_file_and_entry() -> None:
    plugin = PluginEntry(type="konfine", source="/etc/nri/resource.d/10.conf", source_index=2)
    assert openness_note(plugin, schema_of(Konfine())).startswith(
        "/etc/nri/resource.d/10.conf: plugins[2].conf.allow: any pod may set its own class and cpus; "
    )
