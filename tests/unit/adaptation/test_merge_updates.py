"""Updates of several plugins, put together."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import json_format

from nri.adaptation import ConflictError, EventError
from nri.adaptation.fields import FIELDS, changed_fields
from nri.adjust.merging import BY_ENTRIES
from nri.v2 import api
from tests.support.merged import merge
from tests.unit.adaptation.test_merge import SETTABLE, message

RESOURCES = "linux.resources."
UPDATABLE = [path for path in SETTABLE if path.startswith(RESOURCES) and path != f"{RESOURCES}pids"]
APP = {"id": "app"}


def update(path: str, number: int, id_: str = "other", *, ignore_failure: bool = False) -> api.ContainerUpdate:
    made: api.ContainerUpdate = message(path, number, api.ContainerUpdate)
    made.container_id, made.ignore_failure = id_, ignore_failure
    return made


def merged(*updates: Any, event: str = "StopContainer") -> list[api.ContainerUpdate]:
    """The updates, each of another plugin, as merged."""
    responses = [(f"{number}0-p", {"update": [as_dict(each)]}) for number, each in enumerate(updates)]
    return list(merge(event, APP, responses).update)


def as_dict(value: Any) -> Any:
    return value if isinstance(value, dict) else json_format.MessageToDict(value)


@pytest.mark.parametrize("event", ["CreateContainer", "UpdateContainer", "StopContainer"])
def test_updates_of_a_container_are_put_together_and_conflict_likewise(event: str) -> None:
    for path in UPDATABLE:
        first, third = merged(update(path, 1), update(path, 2, "third"), event=event)
        assert (first.container_id, third.container_id) == ("other", "third")
        assert changed_fields(first) == changed_fields(update(path, 1))
        name, key = api.Field.Name(FIELDS[path].owner), "key" if FIELDS[path].kind in BY_ENTRIES else ""
        with pytest.raises(ConflictError) as caught:
            merged(update(path, 1), update(path, 3), event=event)
        assert str(caught.value) == f'plugins "10-p" and "00-p" both tried to set {name} {key}'


def test_an_ignored_conflict_within_the_first_update_leaves_an_empty_one() -> None:
    pages = [{"page_size": "2MB", "limit": 1}] * 2
    twice = {"container_id": "other", "linux": {"resources": {"hugepage_limits": pages}}, "ignore_failure": True}
    (found,) = merged(twice)
    assert (found.container_id, changed_fields(found)) == ("other", [])


def test_an_update_without_resources_is_in_the_list() -> None:
    (found,) = merged({"container_id": "other"})
    assert (found.container_id, changed_fields(found)) == ("other", [])


@pytest.mark.parametrize("second", [True, False])
def test_failure_is_ignored_when_all_say_so(second: bool) -> None:
    first = update(f"{RESOURCES}cpu.quota", 1, ignore_failure=True)
    (found,) = merged(first, update(f"{RESOURCES}cpu.shares", 1, ignore_failure=second))
    assert found.ignore_failure is second


def test_the_container_that_is_being_created_cannot_be_updated_even_if_failure_is_ignored() -> None:
    own = update(f"{RESOURCES}cpu.quota", 1, "app", ignore_failure=True)
    with pytest.raises(EventError) as caught:
        merged(own, event="CreateContainer")
    assert str(caught.value) == 'plugin "00-p" asked update of "app" during creation'
    assert (caught.value.event, caught.value.plugin) == ("CreateContainer", "00-p")
