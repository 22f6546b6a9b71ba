"""The changes of one chain: all of a result, or nothing of it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri.adjust import Abilities, AdjustError, Changes, NRIAbilities, OCIAbilities
from nri.adjust.apply import apply
from nri.errors import NRIError
from nri.types import DecodeError
from nri.types.v1 import STATES, Request, Result
from tests.unit.adjust.documents import ADJUST
from tests.unit.types.mutations import mutated

CONFIG: dict[str, Any] = {"process": {"env": ["A=0"]}, "linux": {"cgroupsPath": "/old"}}
NRI = NRIAbilities("containerd 2.3.0", (0, 12))
OCI = OCIAbilities("runc", lambda: (1, 3), lambda names, config: {"env": {name[-1]: "cdi" for name in names}})
CPU = {"cpu": {"shares": 2}}


def request(state: str = "setup", **values: Any) -> Request:
    return Request(state=state, id="self", **values)


def take(changes: Changes, plugin: str, state: str = "setup", **values: Any) -> None:
    changes.take(plugin, request(state), Result(plugin=plugin, **values))


def state(changes: Changes) -> Any:
    """Return all that a result can change."""
    kept = (changes.config, changes.adjust, changes.updates, changes.ignored, changes.resolved_adjust, bool(changes))
    return copy.deepcopy((kept, changes._claims._claims, changes._path_by)), {
        id_: dict(claims._claims) for id_, claims in changes._claims_of.items()
    }


def wrong(changes: Changes, plugin: str, state_: str = "setup", **values: Any) -> str:
    before = state(changes)
    with pytest.raises(NRIError) as caught:
        take(changes, plugin, state_, **values)
    assert state(changes) == before
    return str(caught.value)


# setup


def test_a_plugin_sees_what_the_ones_before_it_have_set() -> None:
    config = copy.deepcopy(CONFIG)
    changes = Changes(NRI, config)
    assert not changes
    assert changes.config == CONFIG
    take(changes, "a", adjust={"env": {"A": "1", "B": None}})
    take(changes, "b", adjust={"env": {"C": "3"}, "linux": {"oomScoreAdj": 1}})
    assert changes
    assert config == CONFIG
    assert changes.config == {
        "process": {"env": ["A=1", "C=3"], "oomScoreAdj": 1},
        "linux": {"cgroupsPath": "/old"},
    }
    assert changes.adjust == {"env": {"A": "1", "B": None, "C": "3"}, "linux": {"oomScoreAdj": 1}}
    assert changes.resolved_adjust == changes.adjust


@pytest.mark.parametrize("empty", [{}, {"adjust": {}}, {"adjust": {"env": None}}, {"updates": []}, {"adjust": None}])
def test_a_result_that_asks_for_nothing_changes_nothing(empty: dict[str, Any]) -> None:
    changes = Changes(Abilities(), CONFIG)
    for each in STATES:
        take(changes, "a", each, **empty)
    assert not changes
    assert changes.config is CONFIG


BAD: list[tuple[dict[str, Any], str]] = [
    ({"adjust": {"en": 1}}, "adjust: found the key 'en', expected one of"),
    ({"adjust": {"env": {"OWN": "2"}}}, "adjust.env OWN: already set by the plugin first; expected one plugin alone"),
    ({"adjust": {"linux": {"resources": {"rdma": {}}}}}, "adjust.linux.resources.rdma: no NRI v2 runtime applies it"),
    ({"updates": [{"id": "other"}]}, "updates[0].resources: missing, expected an object"),
    (
        {"updates": [{"id": "self", "resources": {}}]},
        "updates[0].id: found the container of the setup itself",
    ),
    (
        {"updates": [{"id": "new", "resources": CPU}, {"id": "other", "resources": CPU}]},
        "updates[1] of other.linux.resources.cpu.shares: already set by the plugin first; expected one plugin",
    ),
    (
        {"cgroups_path": "/p", "adjust": {"linux": {"cgroupsPath": "/q"}}},
        "cgroupsPath: found it beside adjust.linux.cgro",
    ),
]


@pytest.mark.parametrize(("values", "message"), BAD)
def test_nothing_of_a_wrong_result_is_taken(values: dict[str, Any], message: str) -> None:
    changes = Changes(NRI, CONFIG)
    first: dict[str, Any] = {"env": {"OWN": "1"}}
    take(changes, "first", adjust=first, updates=[{"id": "other", "resources": CPU}])
    assert wrong(changes, "second", **values).startswith(message)
    good: dict[str, Any] = {"adjust": {"env": {"NEW": "1"}}, "updates": [{"id": "new", "resources": CPU}]}
    both = {
        "adjust": values.get("adjust", good["adjust"]),
        "updates": values.get("updates", good["updates"]),
        "cgroups_path": values.get("cgroups_path", ""),
    }
    assert wrong(changes, "second", **both).startswith(message)
    take(changes, "third", **good)
    assert changes.adjust == {"env": {"OWN": "1", "NEW": "1"}}


def test_a_configuration_that_cannot_be_changed_is_an_error_and_takes_nothing() -> None:
    changes = Changes(NRI, {"process": {"env": 1}})
    before = state(changes)
    with pytest.raises(DecodeError, match=r"^process\.env: found the number 1, expected an array$"):
        take(changes, "a", adjust={"annotations": {"a": "1"}, "env": {"A": "1"}})
    assert state(changes) == before


def test_a_flag_that_the_runtime_does_not_know_is_refused_too() -> None:
    changes = Changes(NRIAbilities("containerd 2.0", (0, 8)), CONFIG)
    assert wrong(changes, "a", adjust={"linux": {"intelRdt": {"remove": True}}}) == (
        "adjust.linux.intelRdt.remove: containerd 2.0 has NRI 0.8, which does not apply it; NRI 0.11 does"
    )


# cgroupsPath


def test_the_last_cgroups_path_counts() -> None:
    changes = Changes(NRI, CONFIG)
    take(changes, "a", cgroups_path="/a")
    take(changes, "b", cgroups_path="/b")
    assert changes.adjust == {"linux": {"cgroupsPath": "/b"}}
    assert changes.config["linux"]["cgroupsPath"] == "/b"


def test_a_cgroups_path_and_an_adjusted_one_of_two_plugins_are_in_conflict_in_either_order() -> None:
    adjust = {"linux": {"cgroupsPath": "/adjusted"}}
    changes = Changes(NRI, CONFIG)
    take(changes, "a", cgroups_path="/a")
    assert wrong(changes, "b", adjust=adjust) == (
        "adjust.linux.cgroupsPath: already moved by the cgroupsPath of the plugin a; expected one of them"
    )
    changes = Changes(NRI, CONFIG)
    take(changes, "a", adjust=adjust)
    assert wrong(changes, "b", cgroups_path="/b") == (
        "cgroupsPath: already set by the plugin a; expected one plugin alone to set it"
    )


@pytest.mark.parametrize("each", [state for state in STATES if state != "setup"])
def test_a_cgroups_path_and_an_adjust_are_for_setup_alone(each: str) -> None:
    changes = Changes(NRI, CONFIG)
    take(changes, "a", each, cgroups_path="/a")
    assert not changes
    assert wrong(changes, "a", each, adjust={"env": {"A": "1"}}) == (
        f"adjust: found it in answer to {each}, expected it in answer to setup alone"
    )


# Updates


@pytest.mark.parametrize("each", STATES)
def test_updates_are_for_some_states(each: str) -> None:
    changes = Changes(NRI)
    updates = [{"id": "other", "resources": CPU}]
    if each in ("setup", "resize", "delete"):
        take(changes, "a", each, updates=updates)
        assert changes.updates == {"other": {"id": "other", "resources": CPU, "ignoreFailure": False}}
    else:
        message = f"updates: found them in answer to {each}, expected setup, resize, delete"
        assert wrong(changes, "a", each, updates=updates) == message


@pytest.mark.parametrize(("each", "is_refused"), [("setup", True), ("resize", False), ("delete", True)])
def test_the_container_of_the_request_is_updated_in_answer_to_resize_alone(each: str, is_refused: bool) -> None:
    changes = Changes(NRI)
    updates = [{"id": "self", "resources": CPU}]
    if is_refused:
        assert wrong(changes, "a", each, updates=updates) == (
            f"updates[0].id: found the container of the {each} itself, expected another one"
        )
    else:
        take(changes, "a", each, updates=updates)
        assert list(changes.updates) == ["self"]


def test_updates_of_several_plugins_are_put_together_in_the_order_of_their_containers() -> None:
    changes = Changes(NRI)
    take(changes, "a", updates=[{"id": "y", "resources": CPU}, {"id": "x", "resources": {}, "ignoreFailure": True}])
    take(changes, "b", updates=[{"id": "x", "resources": {"cpu": {"cpus": "1"}}, "ignoreFailure": True}])
    take(changes, "c", updates=[{"id": "y", "resources": {"cpu": {"cpus": "2"}}, "ignoreFailure": True}])
    assert list(changes.updates.values()) == [
        {"id": "y", "resources": {"cpu": {"shares": 2, "cpus": "2"}}, "ignoreFailure": False},
        {"id": "x", "resources": {"cpu": {"cpus": "1"}}, "ignoreFailure": True},
    ]


def test_an_update_in_conflict_whose_failure_is_ignored_is_dropped_alone() -> None:
    changes = Changes(NRI)
    take(changes, "a", updates=[{"id": "x", "resources": CPU}])
    others: dict[str, Any] = {"id": "x", "resources": {"cpu": {"cpus": "1", "shares": 9}}, "ignoreFailure": True}
    take(changes, "b", updates=[others, {"id": "y", "resources": CPU}])
    assert changes.updates["x"]["resources"] == CPU
    assert changes.updates["y"]["resources"] == CPU
    (line,) = changes.ignored
    assert line.startswith("updates[0] of x.linux.resources.cpu.shares: already set by the plugin a; ")
    assert line.endswith("; dropped (ignoreFailure)")
    take(changes, "c", updates=[{"id": "x", "resources": {"cpu": {"cpus": "2"}}}])


def test_the_same_container_twice_in_one_result_is_a_conflict_only_for_the_same_thing() -> None:
    changes = Changes(NRI)
    update = {"id": "x", "resources": CPU}
    assert "updates[1] of x.linux.resources.cpu.shares: already set by the plugin a" in wrong(
        changes, "a", updates=[update, update]
    )
    take(changes, "a", updates=[update, {"id": "x", "resources": {"cpu": {"mems": "0"}}}])
    assert changes.updates["x"]["resources"] == {"cpu": {"shares": 2, "mems": "0"}}


def test_a_runtime_that_cannot_update_refuses() -> None:
    updates = [{"id": "x", "resources": CPU}]
    assert wrong(Changes(Abilities()), "a", updates=updates) == "updates: this host cannot update containers"
    changes = Changes(NRI)
    with pytest.raises(AdjustError, match=r"^updates: NRI v2 has no updates in answer to an event of a sandbox$"):
        changes.take("a", request("delete", sandbox_id="self"), Result(plugin="a", updates=updates))


def test_the_next_plugin_of_a_resize_is_shown_the_resources_with_the_updates_so_far() -> None:
    asked = {"cpu": {"shares": 1, "quota": 5}, "memory": {"limit": 7, "swap": 7}}
    before = copy.deepcopy(asked)
    changes = Changes(NRI)
    assert changes.resources("self", asked) is asked
    take(
        changes, "a", "resize", updates=[{"id": "self", "resources": {"cpu": {"shares": 2}, "memory": {"limit": 8}}}]
    )
    assert changes.resources("self", asked) == {
        "cpu": {"shares": 2, "quota": 5},
        "memory": {"limit": 8, "swap": 8},
    }
    assert changes.resources("self", None) == {"cpu": {"shares": 2}, "memory": {"limit": 8}}
    assert changes.resources("other", asked) is asked
    assert asked == before


# CDI


def test_all_cdi_devices_are_resolved_together_below_what_plugins_set() -> None:
    asked: list[list[str]] = []

    def resolve(names: list[str], config: dict[str, Any]) -> dict[str, Any]:
        asked.append(names)
        return {"env": {"A": "cdi", "N": str(len(names))}, "additionalGids": [5]}

    changes = Changes(OCIAbilities("runc", lambda: (1, 0), resolve), CONFIG)
    take(changes, "a", adjust={"cdiDevices": ["v/c=x"], "env": {"A": "1"}})
    take(changes, "b", adjust={"cdiDevices": ["v/c=y"]})
    take(changes, "c", adjust={"annotations": {"a": "b"}})
    assert asked == [["v/c=x"], ["v/c=x", "v/c=y"]]
    assert changes.config["process"] == {"env": ["A=1", "N=2"], "user": {"additionalGids": [5]}}
    assert changes.resolved_adjust == {
        "env": {"A": "1", "N": "2"},
        "additionalGids": [5],
        "annotations": {"a": "b"},
    }
    assert wrong(changes, "d", adjust={"cdiDevices": ["v/c=x"]}).startswith("adjust.cdiDevices v/c=x: already set by")


def test_a_device_that_cannot_be_resolved_takes_nothing() -> None:
    def resolve(names: list[str], config: dict[str, Any]) -> dict[str, Any]:
        raise AdjustError("no device")

    changes = Changes(OCIAbilities("runc", lambda: (1, 0), resolve), CONFIG)
    assert wrong(changes, "a", adjust={"cdiDevices": ["v/c=x"], "env": {"A": "1"}}) == "no device"


@pytest.mark.parametrize(
    ("resolved", "message"),
    [
        (
            {"rlimits": [{"type": "RLIMIT_CORE", "hard": 0, "soft": 0}]},
            "adjust.cdiDevices: the devices set rlimits: ",
        ),
        ({"additionalGids": [1]}, "adjust.cdiDevices: the devices set additionalGids: no NRI v2 runtime applies it"),
        ({"linux": {"intelRdt": {"remove": True}}}, "adjust.cdiDevices: the devices set linux.intelRdt.remove: "),
        (
            {"linux": {"devices": [{"path": "/d", "type": "c", "major": 1, "minor": 3, "access": "r"}]}},
            "adjust.cdiDevices: the devices set linux.devices.access: no NRI v2 runtime applies it",
        ),
    ],
)
def test_what_devices_stand_for_must_be_within_the_abilities(resolved: dict[str, Any], message: str) -> None:
    changes = Changes(NRIAbilities("a", (0, 3), lambda names, config: resolved), CONFIG)
    assert wrong(changes, "a", adjust={"cdiDevices": ["v/c=x"]}).startswith(message)


# Anything


@settings(max_examples=300, deadline=None)
@given(
    st.lists(mutated([ADJUST, {"env": {"A": "1"}}, {"args": ["a"]}, {"linux": {"cgroupsPath": "/a"}}]), max_size=3)
)
def test_whatever_plugins_ask_for_the_configuration_is_the_original_with_the_whole_adjust(asked: list[Any]) -> None:
    changes = Changes(OCI, CONFIG)
    for number, adjust in enumerate(asked):
        before = state(changes)
        try:
            take(changes, str(number), adjust=adjust)
        except NRIError:
            assert state(changes) == before
    expected = copy.deepcopy(CONFIG)
    apply(expected, changes.resolved_adjust)
    assert changes.config["process"] == expected["process"]
    assert changes.original == CONFIG
