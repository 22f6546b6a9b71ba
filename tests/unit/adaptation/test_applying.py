"""Containers after merged adjustments and updates."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import json_format

from nri.adaptation.applying import adjust, update
from nri.v2 import api


def as_dict(message: Any) -> dict[str, Any]:
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def adjusted(container: dict[str, Any], adjustment: dict[str, Any]) -> dict[str, Any]:
    """The container after the adjustment, as a dictionary."""
    made = json_format.ParseDict(container, api.Container())
    adjust(made, json_format.ParseDict(adjustment, api.ContainerAdjustment()))
    return as_dict(made)


@pytest.mark.parametrize("path", ["annotations", "sysctl", "net_devices"])
def test_entries_of_maps_are_removed_and_set(path: str) -> None:
    one, two, nothing = ({"name": "1"}, {"name": "2"}, {}) if path == "net_devices" else ("1", "2", "")

    def around(value: Any) -> dict[str, Any]:
        return {path: value} if path == "annotations" else {"linux": {path: value}}

    found = adjusted(around({"a": one, "b": one, "c": one}), around({"-a": nothing, "-b": nothing, "b": two}))
    linux = found if path == "annotations" else found["linux"]
    assert linux[path] == {"b": two, "c": one}


def test_variables_are_changed_in_their_places_and_those_without_a_value_go() -> None:
    env = [{"key": "NEW", "value": "1"}, {"key": "A", "value": "2"}, {"key": "-B"}]
    assert adjusted({"env": ["A=1", "B=1", "C", "D=x=y"]}, {"env": env})["env"] == ["A=2", "D=x=y", "NEW=1"]
    assert adjusted({"env": ["C"]}, {"annotations": {"a": "1"}})["env"] == ["C"]


def test_mounts_are_sorted_by_depth() -> None:
    mounts = [{"destination": "/a/b"}, {"destination": "/z", "source": "/1"}, {"destination": "/gone"}]
    changes = [{"destination": "-/gone"}, {"destination": "/z", "source": "/2"}, {"destination": "/c"}]
    found = adjusted({"mounts": mounts}, {"mounts": changes})["mounts"]
    assert found == [{"destination": "/c"}, {"destination": "/z", "source": "/2"}, {"destination": "/a/b"}]


def test_a_device_comes_with_the_rule_that_allows_it() -> None:
    devices = [{"path": "-/dev/a"}, {"path": "/dev/b", "type": "b", "major": "7", "minor": "1"}]
    linux = adjusted({"linux": {"devices": [{"path": "/dev/a"}]}}, {"linux": {"devices": devices}})["linux"]
    assert linux["devices"] == devices[1:]
    rule = {"allow": True, "type": "b", "major": {"value": "7"}, "minor": {"value": "1"}, "access": "rwm"}
    assert linux["resources"]["devices"] == [rule]


def test_namespaces_and_huge_pages_are_replaced_by_their_keys_and_resource_limits_are_appended() -> None:
    container = {
        "rlimits": [{"type": "RLIMIT_CORE", "hard": "1"}],
        "linux": {
            "namespaces": [{"type": "ipc"}, {"type": "network"}],
            "resources": {"hugepage_limits": [{"page_size": "2MB", "limit": "1"}]},
        },
    }
    change = {
        "rlimits": [{"type": "RLIMIT_CORE", "hard": "2"}],
        "linux": {
            "namespaces": [{"type": "-network"}, {"type": "ipc", "path": "/x"}],
            "resources": {"hugepage_limits": [{"page_size": "2MB", "limit": "2"}]},
        },
    }
    found = adjusted(container, change)
    assert found["linux"]["namespaces"] == [{"type": "ipc", "path": "/x"}]
    assert found["linux"]["resources"]["hugepage_limits"] == change["linux"]["resources"]["hugepage_limits"]  # type: ignore[index]
    assert [each["hard"] for each in found["rlimits"]] == ["1", "2"]


def test_of_memory_only_the_limit_is_used_and_it_is_the_limit_of_swap() -> None:
    memory = {"limit": {"value": "9"}, "swap": {"value": "20"}, "reservation": {"value": "1"}}
    found = adjusted({}, {"linux": {"resources": {"memory": memory}}})["linux"]["resources"]["memory"]
    assert found == {"limit": {"value": "9"}, "swap": {"value": "9"}}


def test_an_update_sets_all_memory_and_leaves_the_rest() -> None:
    container = api.Container(linux={"resources": {"cpu": {"shares": {"value": 1}}, "unified": {"a": "1"}}})
    update(container, api.LinuxResources(memory={"reservation": {"value": 5}}, unified={"b": "2"}))
    assert container.linux.resources == api.LinuxResources(
        cpu={"shares": {"value": 1}}, memory={"reservation": {"value": 5}}, unified={"a": "1", "b": "2"}
    )


def test_rdt_is_removed_and_set() -> None:
    container = {"linux": {"rdt": {"clos_id": {"value": "a"}, "schemata": {"value": ["x"]}}}}
    assert "rdt" not in adjusted(container, {"linux": {"rdt": {"remove": True}}})["linux"]
    found = adjusted(container, {"linux": {"rdt": {"clos_id": {"value": "b"}}}})["linux"]["rdt"]
    assert found == {"clos_id": {"value": "b"}, "schemata": {"value": ["x"]}}


def test_command_line_hooks_and_values_are_the_adjustments() -> None:
    change = {
        "args": ["x"],
        "hooks": {"prestart": [{"path": "/h"}]},
        "linux": {"cgroups_path": "/c", "oom_score_adj": {"value": "3"}},
        "CDI_devices": [{"name": "a"}],
    }
    found = adjusted({"args": ["a", "b"]}, change)
    assert found.pop("CDI_devices", None) is None
    assert {**found, "CDI_devices": change["CDI_devices"]} == {**change, "linux": {**found["linux"]}}
    assert (found["linux"]["cgroups_path"], found["linux"]["oom_score_adj"]) == ("/c", {"value": "3"})
