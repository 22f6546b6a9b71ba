"""Adjustments and updates of several plugins, put together: tests/golden has what NRI makes of them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor

from nri.adaptation import ConflictError, EventError
from nri.adaptation.fields import FIELDS, changed_fields, of_resources
from nri.adaptation.merging import Merger
from nri.adjust.merging import ADDED, BY_ENTRIES, MAP
from nri.v2 import api
from tests.support.merged import merge

SETTABLE = [path for path, rule in FIELDS.items() if rule.kind != ADDED and rule.owner]


def message(path: str, number: int, root: Any = api.ContainerAdjustment, key: str = "key") -> Any:
    """A message in which this field has a value that follows from ``number``."""
    rule, made = FIELDS[path], root()
    *parents, name = path.split(".")
    parent = made
    for part in parents:
        parent = getattr(parent, part)
        parent.SetInParent()
    if rule.kind == MAP:
        target = getattr(parent, name)
        value_type = parent.DESCRIPTOR.fields_by_name[name].message_type.fields_by_name["value"]
        if value_type.message_type is not None:
            target[key].CopyFrom(filled(value_type.message_type._concrete_class(), number))  # noqa: SLF001 - not ours
        else:
            target[key] = str(number)
    elif rule.kind in BY_ENTRIES:
        item = filled(getattr(parent, name).add(), number)
        setattr(item, rule.key, key)
    else:
        set_field(parent, parent.DESCRIPTOR.fields_by_name[name], number)
    return made


def set_field(target: Any, field: Any, number: int) -> None:
    if field.is_repeated:
        if field.message_type is None and field.enum_type is None:
            getattr(target, field.name).append(str(number))
    elif field.message_type is not None:
        getattr(target, field.name).SetInParent()
        filled(getattr(target, field.name), number)
    elif field.type == FieldDescriptor.TYPE_STRING:
        setattr(target, field.name, str(number))
    elif field.type != FieldDescriptor.TYPE_ENUM:
        setattr(target, field.name, number)


def filled(target: Any, number: int) -> Any:
    for field in target.DESCRIPTOR.fields:
        set_field(target, field, number)
    return target


def add(merger: Merger, adjustment: Any, plugin: str) -> Merger:
    merger.add(api.CreateContainerResponse(adjust=adjustment), plugin)
    return merger


def merged(*adjustments: Any, container: Any = None) -> Merger:
    merger = Merger("CreateContainer", container or api.Container(id="app"))
    for number, adjustment in enumerate(adjustments):
        add(merger, adjustment, f"{number}0-p")
    return merger


def owners(merger: Merger, path: str) -> Any:
    """The record of a field's owners: a name, or names by key."""
    record, rule = merger.owners.owners["app"], FIELDS[path]
    if rule.kind in BY_ENTRIES:
        return dict(record.compound[rule.owner].owners)
    return record.simple.get(rule.owner)


def test_table_has_every_field_of_an_adjustment_with_an_owner_of_its_own() -> None:
    def leaves(descriptor: Any, prefix: str = "") -> Any:
        for field in descriptor.fields:
            path = prefix + field.name
            inside = any(known.startswith(f"{path}.") for known in FIELDS)
            if inside:
                yield from leaves(field.message_type, f"{path}.")
            else:
                yield path

    assert set(leaves(api.ContainerAdjustment.DESCRIPTOR)) == set(FIELDS)

    numbers = [FIELDS[path].owner for path in SETTABLE]
    assert len(set(numbers)) == len(numbers)
    assert set(numbers) | {api.Field.OciHooks} == set(api.Field.values()) - {0}


def test_field_that_one_plugin_sets_is_as_it_set_it_and_shown_to_later_ones() -> None:
    for path in SETTABLE:
        merger = merged(message(path, 1))
        assert changed_fields(merger.adjustment) == changed_fields(message(path, 1))
        expected = merged().adjustment
        expected.MergeFrom(message(path, 1))
        if path.startswith("linux"):
            expected.linux.rdt.SetInParent()
        assert merger.adjustment == expected
        assert owners(merger, path) == (
            {"key": "00-p"} if FIELDS[path].kind in BY_ENTRIES else "00-p"
        )
        is_hidden = "rdt." in path or path in ("CDI_devices", "linux.memory_policy")
        assert (merger.container == merged().container) == is_hidden


def test_field_that_is_set_twice_is_a_conflict_that_names_it_and_both_plugins() -> None:
    for path, second in itertools.product(SETTABLE, ("10-p", "00-p")):
        key = "key" if FIELDS[path].kind in BY_ENTRIES else ""
        with pytest.raises(ConflictError) as caught:
            add(add(merged(), message(path, 1), "00-p"), message(path, 2), second)
        assert (caught.value.field, caught.value.plugins) == (
            f"{path} {key}".rstrip(),
            ("00-p", second),
        )


def test_hooks_and_device_rules_of_several_plugins_are_added_up() -> None:
    kinds = [field.name for field in api.Hooks.DESCRIPTOR.fields]
    one = api.ContainerAdjustment(hooks={kind: [{"path": f"/{kind}"}] for kind in kinds})
    one.linux.resources.devices.add(allow=True)
    merger = merged(one, one)
    for found in (merger.adjustment, merger.container):
        assert [each.path for kind in kinds for each in getattr(found.hooks, kind)] == [
            f"/{kind}" for kind in kinds for _ in "12"
        ]
        assert len(found.linux.resources.devices) == 2
    assert owners(merger, "hooks.prestart") == "00-p,10-p"


def test_only_the_first_minus_of_a_key_removes() -> None:
    merger = merged(*[api.ContainerAdjustment(annotations={key: "1"}) for key in ("key", "--key")])
    assert changed_fields(merger.adjustment) == ["annotations --key", "annotations key"]
    assert owners(merger, "annotations") == {"key": "00-p"}


# The container that later plugins see


def test_entries_that_are_set_replace_the_containers_and_go_to_the_end() -> None:
    container = api.Container(
        id="app",
        env=["A=1", "B=2", "C"],
        mounts=[{"destination": "/a", "source": "/1"}, {"destination": "/b"}],
    )
    adjustment = api.ContainerAdjustment(
        env=[{"key": "A", "value": "new=1"}, {"key": "-C"}],
        mounts=[{"destination": "/a", "source": "/2"}],
    )
    merger = merged(adjustment, container=container)
    assert list(merger.container.env) == ["B=2", "A=new=1"]
    assert [(each.destination, each.source) for each in merger.container.mounts] == [
        ("/b", ""),
        ("/a", "/2"),
    ]
    assert list(container.env) == ["A=1", "B=2", "C"], "the caller's is not changed"


def test_a_removed_annotation_of_the_container_is_still_shown() -> None:
    container = api.Container(id="app", annotations={"a": "1", "b": "2"})
    merger = merged(api.ContainerAdjustment(annotations={"-a": "", "b": "3"}), container=container)
    assert dict(merger.container.annotations) == {"a": "1", "b": "3"}
    assert dict(merger.adjustment.annotations) == {"-a": "", "b": "3"}
    assert dict(container.annotations) == {"a": "1", "b": "2"}


def test_resource_limits_and_huge_pages_are_shown_after_the_containers_own() -> None:
    container = api.Container(id="app", rlimits=[{"type": "RLIMIT_CORE", "hard": 1}])
    container.linux.resources.hugepage_limits.add(page_size="2MB", limit=1)
    adjustment = api.ContainerAdjustment(rlimits=[{"type": "RLIMIT_CORE", "hard": 2}])
    adjustment.linux.resources.hugepage_limits.add(page_size="2MB", limit=2)
    merger = merged(adjustment, container=container)
    assert [each.hard for each in merger.container.rlimits] == [1, 2]
    assert [each.limit for each in merger.container.linux.resources.hugepage_limits] == [1, 2]


# What else counts


def test_a_container_that_is_created_is_shown_with_resources_even_if_it_has_none() -> None:
    for event, is_shown in (("CreateContainer", True), ("UpdateContainer", False)):
        resources = Merger(event, api.Container(id="app")).container.linux.resources
        assert (resources.HasField("cpu"), resources.HasField("memory")) == (is_shown, is_shown)


def test_a_zero_is_a_value() -> None:
    zero = api.ContainerAdjustment(linux={"resources": {"cpu": {"quota": {"value": 0}}}})
    assert merged(zero).adjustment.linux.resources.cpu.HasField("quota")
    with pytest.raises(ConflictError):
        merged(zero, zero)


def test_fields_of_a_newer_nri_are_ignored() -> None:
    newer = api.ContainerAdjustment.FromString(b"\xfa\x3e\x03new")
    assert merged(newer, newer).adjustment == merged().adjustment


# Updates

RESOURCES = "linux.resources."
UPDATABLE = [path for path in SETTABLE if path.startswith(RESOURCES) and path != f"{RESOURCES}pids"]


def update(
    path: str, number: int, id_: str = "other", *, ignore_failure: bool = False
) -> api.ContainerUpdate:
    made: api.ContainerUpdate = message(path, number, api.ContainerUpdate)
    made.container_id, made.ignore_failure = id_, ignore_failure
    return made


def merged_updates(*updates: Any, event: str = "StopContainer") -> list[api.ContainerUpdate]:
    """The updates, each of another plugin, as merged."""
    responses = [
        (f"{number}0-p", {"update": [as_dict(each)]}) for number, each in enumerate(updates)
    ]
    return list(merge(event, {"id": "app"}, responses).update)


def updated_fields(update: api.ContainerUpdate) -> list[str]:
    return changed_fields(of_resources(update.linux.resources))


def as_dict(value: Any) -> Any:
    return value if isinstance(value, dict) else json_format.MessageToDict(value)


@pytest.mark.parametrize("event", ["CreateContainer", "UpdateContainer", "StopContainer"])
def test_updates_of_a_container_are_put_together_and_conflict_likewise(event: str) -> None:
    for path in UPDATABLE:
        first, third = merged_updates(update(path, 1), update(path, 2, "third"), event=event)
        assert (first.container_id, third.container_id) == ("other", "third")
        assert updated_fields(first) == updated_fields(update(path, 1))
        with pytest.raises(
            ConflictError, match=f"both tried to set {api.Field.Name(FIELDS[path].owner)}"
        ):
            merged_updates(update(path, 1), update(path, 3), event=event)


def test_an_update_that_changes_nothing_is_in_the_list() -> None:
    pages = [{"page_size": "2MB", "limit": 1}] * 2
    twice = {
        "container_id": "other",
        "linux": {"resources": {"hugepage_limits": pages}},
        "ignore_failure": True,
    }
    for empty in (twice, {"container_id": "other"}):
        (found,) = merged_updates(empty)
        assert (found.container_id, updated_fields(found)) == ("other", [])


@pytest.mark.parametrize("second", [True, False])
def test_failure_is_ignored_when_all_say_so(second: bool) -> None:
    first = update(f"{RESOURCES}cpu.quota", 1, ignore_failure=True)
    (found,) = merged_updates(first, update(f"{RESOURCES}cpu.shares", 1, ignore_failure=second))
    assert found.ignore_failure is second


def test_the_container_that_is_being_created_cannot_be_updated_even_if_failure_is_ignored() -> None:
    own = update(f"{RESOURCES}cpu.quota", 1, "app", ignore_failure=True)
    with pytest.raises(EventError) as caught:
        merged_updates(own, event="CreateContainer")
    assert str(caught.value) == 'plugin "00-p" asked update of "app" during creation'
    assert (caught.value.event, caught.value.plugin) == ("CreateContainer", "00-p")
