"""The changes of one chain: all of a result, or nothing of it."""

import copy
from typing import Any

import pytest

from nri.adjust import Abilities, AdjustError, Changes, NRIAbilities
from nri.adjust.fields import AdjustField
from nri.errors import NRIError
from nri.types.v1 import STATES, Request, Result

CONFIG: dict[str, Any] = {"process": {"env": ["A=0"]}, "linux": {"cgroupsPath": "/old"}}
NRI = NRIAbilities("containerd 2.3.0", (0, 12))
CPU = {"cpu": {"shares": 2}}
OTHER = [{"id": "other", "resources": CPU}]
PATH = {"linux": {"cgroupsPath": "/adjusted"}}


def take(changes: Changes, plugin: str, state: str = "setup", **values: Any) -> None:
    changes.take(plugin, Request(state=state, id="self"), Result(plugin=plugin, **values))


def visible(changes: Changes) -> Any:
    """Return a copy of all that a caller sees of the changes."""
    adjusts = (changes.config, changes.adjust, bool(changes))
    return copy.deepcopy((adjusts, changes.updates, changes.ignored))


def wrong(changes: Changes, plugin: str, state: str = "setup", **values: Any) -> str:
    before = visible(changes)
    with pytest.raises(NRIError) as caught:
        take(changes, plugin, state, **values)
    assert visible(changes) == before
    return str(caught.value)


def test_plugin_sees_what_the_ones_before_it_have_set() -> None:
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
    assert changes.adjust == {"env": {"A": "1", "-B": None, "C": "3"}, "linux": {"oomScoreAdj": 1}}


def test_result_that_asks_for_nothing_changes_nothing() -> None:
    changes = Changes(Abilities(), CONFIG)
    empty: list[dict[str, Any]] = [{}, {"adjust": {}}, {"adjust": {"env": None}}, {"updates": []}]
    for state in STATES:
        for values in empty:
            take(changes, "a", state, **values)
    assert not changes
    assert changes.config is CONFIG


def test_configuration_is_made_once_and_only_if_it_is_needed() -> None:
    made: list[dict[str, Any]] = []

    def config() -> dict[str, Any]:
        made.append(copy.deepcopy(CONFIG))
        return made[-1]

    changes = Changes(NRI, config)
    take(changes, "a", updates=OTHER)
    assert made == []
    take(changes, "a", adjust={"env": {"A": "1"}})
    assert (changes.original, changes.config["process"]) == (CONFIG, {"env": ["A=1"]})
    assert len(made) == 1


BAD: list[tuple[dict[str, Any], str]] = [
    ({"adjust": {"en": 1}}, "adjust.en: unknown key, did you mean env?"),
    (
        {"adjust": {"env": {"OWN": "2"}}},
        "adjust.env OWN: already set by the plugin first; expected one plugin alone",
    ),
    (
        {"adjust": {"linux": {"resources": {"rdma": {}}}}},
        "adjust.linux.resources.rdma: no NRI v2 runtime applies it",
    ),
    ({"updates": [{"id": "other"}]}, "updates[0].resources: missing, expected an object"),
    (
        {"updates": [{"id": "self", "resources": {}}]},
        "updates[0].id: found the container of the setup itself",
    ),
    (
        {"updates": [{"id": "new", "resources": CPU}, *OTHER]},
        "updates[1] of other.linux.resources.cpu.shares: already set by the plugin first; expected one plugin",
    ),
    (
        {"updates": [{"id": "x", "resources": {"pids": {"limit": 1}}}]},
        "updates[0].resources.pids.limit: no NRI v2 runtime applies it to a container that exists",
    ),
    ({"cgroups_path": "/p", "adjust": PATH}, "cgroupsPath: found it beside adjust.linux.cgro"),
]


@pytest.mark.parametrize(("values", "message"), BAD)
def test_nothing_of_a_wrong_result_is_taken(values: dict[str, Any], message: str) -> None:
    changes = Changes(NRI, CONFIG)
    take(changes, "first", adjust={"env": {"OWN": "1"}}, updates=OTHER)
    good: dict[str, Any] = {
        "adjust": {"env": {"NEW": "1"}},
        "updates": [{"id": "new", "resources": CPU}],
    }
    assert wrong(changes, "second", **values).startswith(message)
    assert wrong(changes, "second", **{"cgroups_path": "/p"} | good | values).startswith(message)
    take(changes, "third", **good)
    take(changes, "fourth", adjust=PATH)
    assert changes.adjust["env"] == {"OWN": "1", "NEW": "1"}
    assert [*changes.updates] == ["other", "new"]


def test_unchangeable_configuration_is_an_error() -> None:
    changes = Changes(NRI, {"process": {"env": 1}})
    adjust = {"annotations": {"a": "1"}, "env": {"A": "1"}}
    assert (
        wrong(changes, "a", adjust=adjust) == "process.env: found the number 1, expected an array"
    )
    take(changes, "b", adjust={"annotations": {"a": "2"}})


def test_cgroups_path_of_two_plugins_conflicts_in_either_order() -> None:
    changes = Changes(NRI, CONFIG)
    take(changes, "a", cgroups_path="/a")
    assert wrong(changes, "b", adjust=PATH) == (
        "adjust.linux.cgroupsPath: already moved by the cgroupsPath of the plugin a; expected one of them"
    )
    take(changes, "b", cgroups_path="/b")  # the last one counts
    assert changes.adjust == {"linux": {"cgroupsPath": "/b"}}
    assert changes.config["linux"]["cgroupsPath"] == "/b"
    changes = Changes(NRI, CONFIG)
    take(changes, "a", cgroups_path="/a")
    take(changes, "a", adjust=PATH)
    changes = Changes(NRI, CONFIG)
    take(changes, "a", adjust=PATH)
    assert wrong(changes, "b", cgroups_path="/b") == (
        "cgroupsPath: already set by the plugin a; expected one plugin alone to set it"
    )


def test_adjust_and_cgroups_path_are_for_setup_alone() -> None:
    for state in set(STATES) - {"setup"}:
        changes = Changes(NRI, CONFIG)
        take(changes, "a", state, cgroups_path="/a")
        assert not changes
        assert wrong(changes, "a", state, adjust={"env": {"A": "1"}}) == (
            f"adjust: found it in answer to {state}, expected it in answer to setup alone"
        )


class Refusing(NRIAbilities):
    """A runtime that cannot have a container's cgroup anywhere."""

    def why_no_field(self, field: AdjustField, value: Any) -> str:
        """As for the base class."""
        if field.name == "linux.cgroupsPath":
            return self.why_no_path(value)
        return super().why_no_field(field, value)

    def why_no_path(self, path: str) -> str:
        """As for the base class."""
        return f"{path} is not here"


def test_request_that_the_runtime_cannot_fulfil_is_refused() -> None:
    changes = Changes(Refusing("containerd 2.0", (0, 8)), CONFIG)
    assert wrong(changes, "a", adjust=PATH) == "adjust.linux.cgroupsPath: /adjusted is not here"
    assert wrong(changes, "a", cgroups_path="/p") == "cgroupsPath: /p is not here"
    assert wrong(changes, "a", adjust={"linux": {"intelRdt": {"remove": True}}}) == (
        "adjust.linux.intelRdt.remove: containerd 2.0 has NRI 0.8, which does not apply it; NRI 0.11 does"
    )


# Updates


def test_updates_are_for_setup_resize_and_delete() -> None:
    for state in ("setup", "resize", "delete"):
        changes = Changes(NRI)
        take(changes, "a", state, updates=OTHER)
        assert changes
        assert changes.updates == {
            "other": {"id": "other", "resources": CPU, "ignoreFailure": False}
        }
    for state in set(STATES) - {"setup", "resize", "delete"}:
        message = f"updates: found them in answer to {state}, expected setup, resize, delete"
        assert wrong(Changes(NRI), "a", state, updates=OTHER) == message


def test_own_container_is_updated_in_answer_to_resize_alone() -> None:
    updates = [{"id": "self", "resources": CPU}]
    for state in ("setup", "delete"):
        assert wrong(Changes(NRI), "a", state, updates=updates) == (
            f"updates[0].id: found the container of the {state} itself, expected another one"
        )
    changes = Changes(NRI)
    take(changes, "a", "resize", updates=updates)
    assert [*changes.updates] == ["self"]


def test_updates_are_merged_in_the_order_of_their_containers() -> None:
    changes = Changes(NRI)
    take(
        changes,
        "a",
        updates=[
            {"id": "y", "resources": CPU},
            {"id": "x", "resources": {}, "ignoreFailure": True},
        ],
    )
    take(
        changes,
        "b",
        updates=[{"id": "x", "resources": {"cpu": {"cpus": "1"}}, "ignoreFailure": True}],
    )
    take(
        changes,
        "c",
        updates=[{"id": "y", "resources": {"cpu": {"cpus": "2"}}, "ignoreFailure": True}],
    )
    assert [*changes.updates.values()] == [
        {"id": "y", "resources": {"cpu": {"shares": 2, "cpus": "2"}}, "ignoreFailure": False},
        {"id": "x", "resources": {"cpu": {"cpus": "1"}}, "ignoreFailure": True},
    ]


def test_conflicting_update_with_ignored_failure_is_dropped() -> None:
    changes = Changes(NRI)
    take(changes, "a", updates=[{"id": "x", "resources": CPU}])
    conflict: dict[str, Any] = {
        "id": "x",
        "resources": {"cpu": {"cpus": "1", "shares": 9}},
        "ignoreFailure": True,
    }
    take(changes, "b", updates=[conflict, {"id": "y", "resources": CPU}])
    assert changes.updates["x"]["resources"] == CPU
    assert changes.updates["y"]["resources"] == CPU
    (line,) = changes.ignored
    assert line.startswith(
        "updates[0] of x.linux.resources.cpu.shares: already set by the plugin a; "
    )
    assert line.endswith("; dropped (ignoreFailure)")
    take(changes, "c", updates=[{"id": "x", "resources": {"cpu": {"cpus": "2"}}}])


def test_runtime_that_cannot_update_refuses() -> None:
    sandbox = Request(state="delete", id="self", sandbox_id="self")
    with pytest.raises(
        AdjustError, match=r"^updates: NRI v2 has no updates in answer to an event of a sandbox$"
    ):
        Changes(NRI).take("a", sandbox, Result(plugin="a", updates=OTHER))


def test_next_plugin_of_a_resize_sees_earlier_updates() -> None:
    asked = {"cpu": {"shares": 1, "quota": 5}, "memory": {"limit": 7, "swap": 7}}
    before = copy.deepcopy(asked)
    changes = Changes(NRI)
    assert changes.resources("self", asked) is asked
    own = {"id": "self", "resources": {"cpu": {"shares": 2}, "memory": {"limit": 8}}}
    take(changes, "a", "resize", updates=[own])
    assert changes.resources("self", asked) == {
        "cpu": {"shares": 2, "quota": 5},
        "memory": {"limit": 8, "swap": 8},
    }
    assert changes.resources("self", None) == {"cpu": {"shares": 2}, "memory": {"limit": 8}}
    assert changes.resources("other", asked) is asked
    assert asked == before
