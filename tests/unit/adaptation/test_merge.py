"""Adjustments and updates of several plugins, put together."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from nri import api
from nri.adaptation import ConflictError, EventError
from nri.adaptation.fields import ADDED, FIELDS, LIST, MAP, changed_fields
from nri.adaptation.merge import Merger

RESOURCES = "linux.resources."
SETTABLE = [path for path, rule in FIELDS.items() if rule.kind != ADDED]


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
            target[key].CopyFrom(filled(value_type.message_type._concrete_class(), number))
        else:
            target[key] = str(number)
    elif rule.kind == LIST:
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


def merged(*adjustments: Any, container: Any = None) -> Merger:
    merger = Merger("CreateContainer", container or api.Container(id="app"))
    for number, adjustment in enumerate(adjustments):
        merger.adjust(adjustment, f"{number}0-p")
    return merger


def test_the_table_has_every_field_of_an_adjustment() -> None:
    def leaves(descriptor: Any, prefix: str = "") -> Any:
        for field in descriptor.fields:
            path = prefix + field.name
            inside = any(known.startswith(f"{path}.") for known in FIELDS)
            if inside:
                yield from leaves(field.message_type, f"{path}.")
            else:
                yield path

    assert set(leaves(api.ContainerAdjustment.DESCRIPTOR)) - {"linux.rdt.remove"} == set(FIELDS)


def test_every_field_has_an_owner_and_no_two_the_same() -> None:
    owners = [rule.owner for path, rule in FIELDS.items() if rule.kind != ADDED]
    assert len(set(owners)) == len(owners)
    assert set(owners) | {api.Field.OciHooks} == set(api.Field.values()) - {0}


@pytest.mark.parametrize("path", SETTABLE)
def test_a_field_that_one_plugin_sets_is_as_it_set_it(path: str) -> None:
    adjustment = message(path, 1)
    assert merged(adjustment).adjustment == adjustment


@pytest.mark.parametrize("path", SETTABLE)
def test_a_field_that_two_plugins_set_is_a_conflict_that_names_it_and_both(path: str) -> None:
    with pytest.raises(ConflictError) as caught:
        merged(message(path, 1), message(path, 2))
    field = path if FIELDS[path].kind not in (MAP, LIST) else f"{path} key"
    assert (caught.value.field, caught.value.plugins) == (field, ("00-p", "10-p"))


@pytest.mark.parametrize("path", [path for path, rule in FIELDS.items() if rule.kind in (MAP, LIST)])
def test_other_keys_are_no_conflict(path: str) -> None:
    merger = merged(message(path, 1, key="a"), message(path, 2, key="b"))
    assert changed_fields(merger.adjustment) == [f"{path} a", f"{path} b"]


@pytest.mark.parametrize("path", [path for path, rule in FIELDS.items() if rule.kind == ADDED])
def test_hooks_and_device_rules_of_several_plugins_are_added_up(path: str) -> None:
    *parents, name = path.split(".")
    one = api.ContainerAdjustment()
    target: Any = one
    for part in parents:
        target = getattr(target, part)
    getattr(target, name).add()
    merger = merged(one, one)
    assert merger.adjustment.hooks.ByteSize() + merger.adjustment.linux.resources.ByteSize() > 0
    if parents == ["hooks"]:
        assert merger.owners.message.owners["app"].simple[api.Field.OciHooks] == "00-p,10-p"
        assert len(getattr(merger.adjustment.hooks, name)) == len(getattr(merger.container.hooks, name)) == 2


@pytest.mark.parametrize("path", [path for path, rule in FIELDS.items() if rule.removable])
def test_what_is_taken_away_can_be_set_again(path: str) -> None:
    container = api.Container(id="app")
    merger = merged(message(path, 1), message(path, 0, key="-key"), container=container)
    assert changed_fields(merger.adjustment) == [f"{path} -key"]
    assert changed_fields(message_of(merger.container, path)) == []
    merger.adjust(message(path, 2), "20-p")
    assert f"{path} key" in changed_fields(merger.adjustment)
    assert merger.owners.message.owners["app"].compound[FIELDS[path].owner].owners["key"] == "20-p"
    with pytest.raises(ConflictError, match="20-p and 30-p both set"):
        merger.adjust(message(path, 3), "30-p")


def test_these_can_be_taken_away_by_key() -> None:
    lists = {"annotations", "mounts", "env"}
    of_linux = {"linux.devices", "linux.namespaces", "linux.sysctl", "linux.net_devices"}
    assert {path for path, rule in FIELDS.items() if rule.removable} == lists | of_linux


@pytest.mark.parametrize(
    "path", [path for path, rule in FIELDS.items() if rule.kind in (MAP, LIST) and not rule.removable]
)
def test_where_nothing_can_be_taken_away_a_minus_is_a_part_of_the_key(path: str) -> None:
    merger = merged(message(path, 1), message(path, 2, key="-key"))
    assert set(changed_fields(merger.adjustment)) == {f"{path} key", f"{path} -key"}
    assert dict(merger.owners.message.owners["app"].compound[FIELDS[path].owner].owners) == {
        "key": "00-p",
        "-key": "10-p",
    }


@pytest.mark.parametrize("path", [path for path, rule in FIELDS.items() if rule.removable])
def test_only_the_first_minus_of_a_key_takes_it_away(path: str) -> None:
    one, other = message(path, 1, key="-key-"), message(path, 2, key="key")
    merger = merged(one, other, message(path, 0, key="--key-"))
    assert set(changed_fields(merger.adjustment)) == {f"{path} --key-", f"{path} key"}


def message_of(container: api.Container, path: str) -> api.ContainerAdjustment:
    """Return the part of a container at this path as an adjustment."""
    found = api.ContainerAdjustment()
    if path == "env":
        found.env.extend([api.KeyValue(key=text.partition("=")[0]) for text in container.env])
        return found
    copy: Any = api.Container()
    copy.CopyFrom(container)
    copy.ClearField("env")
    found.ParseFromString(b"")
    for part in (path.split(".", maxsplit=1)[0],):
        if part != "linux":
            target = getattr(found, part)
            source = getattr(copy, part)
            target.update(source) if hasattr(target, "update") else target.extend(source)
            return found
    name = path.split(".")[1]
    source, target = getattr(copy.linux, name), getattr(found.linux, name)
    if hasattr(target, "extend"):
        target.extend(source)
    else:
        for key in source:
            target[key] if not isinstance(source[key], str) else target.update({key: source[key]})
    return found


def test_a_plugin_can_replace_what_an_earlier_one_has_set_by_taking_it_away_first() -> None:
    first = api.ContainerAdjustment(mounts=[{"destination": "/data", "source": "/a"}])
    second = api.ContainerAdjustment(mounts=[{"destination": "-/data"}, {"destination": "/data", "source": "/b"}])
    container = api.Container(id="app", mounts=[{"destination": "/data", "source": "/old"}, {"destination": "/x"}])
    merger = merged(first, second, container=container)
    assert [(mount.destination, mount.source) for mount in merger.adjustment.mounts] == [("/data", "/b")]
    assert [(mount.destination, mount.source) for mount in merger.container.mounts] == [("/x", ""), ("/data", "/b")]


def test_what_the_container_has_is_replaced_and_taken_away() -> None:
    container = api.Container(id="app", env=["A=1", "B=2", "C"], annotations={"a": "1", "b": "2"})
    env = [{"key": "A", "value": "new"}, {"key": "-C"}]
    merger = merged(api.ContainerAdjustment(env=env, annotations={"-a": ""}), container=container)
    assert list(merger.container.env) == ["B=2", "A=new"]
    assert dict(merger.container.annotations) == {"b": "2"}
    assert dict(merger.adjustment.annotations) == {"-a": ""}
    assert dict(container.annotations) == {"a": "1", "b": "2"}, "the caller's is left alone"


def test_a_command_line_is_replaced_after_an_empty_first_argument() -> None:
    merger = merged(api.ContainerAdjustment(args=["a"]), api.ContainerAdjustment(args=["", "b", "c"]))
    assert list(merger.adjustment.args) == list(merger.container.args) == ["b", "c"]
    assert merger.owners.message.owners["app"].simple[api.Field.Args] == "10-p"


def test_a_command_line_that_is_taken_away_only_is_the_containers_own_again() -> None:
    container = api.Container(id="app", args=["own"])
    merger = merged(api.ContainerAdjustment(args=["a"]), api.ContainerAdjustment(args=[""]), container=container)
    assert list(merger.adjustment.args) == []
    assert list(merger.container.args) == ["own"]
    merger.adjust(api.ContainerAdjustment(args=["b"]), "20-p")
    assert list(merger.adjustment.args) == list(merger.container.args) == ["b"]


def test_rdt_that_is_removed_can_be_set_again() -> None:
    first = api.ContainerAdjustment(linux={"rdt": {"clos_id": {"value": "a"}, "enable_monitoring": {"value": True}}})
    remove = api.ContainerAdjustment(linux={"rdt": {"remove": True}})
    merger = merged(first, remove)
    assert merger.adjustment.linux.rdt == api.LinuxRdt(remove=True)
    assert merger.container.linux.rdt == api.LinuxRdt()
    third = api.LinuxRdt(clos_id={"value": "b"}, schemata={"value": ["x"]}, enable_monitoring={"value": False})
    merger.adjust(api.ContainerAdjustment(linux={"rdt": third}), "20-p")
    assert merger.adjustment.linux.rdt == third


def test_a_zero_is_a_value() -> None:
    zero = api.ContainerAdjustment(linux={"resources": {"cpu": {"quota": {"value": 0}}}})
    assert merged(zero).adjustment.linux.resources.cpu.HasField("quota")
    with pytest.raises(ConflictError):
        merged(zero, zero)


def test_the_same_plugin_may_say_it_twice() -> None:
    merger = Merger("CreateContainer", api.Container(id="app"))
    for number in (1, 2):
        merger.adjust(message("linux.cgroups_path", number), "10-p")
    assert merger.adjustment.linux.cgroups_path == "2"


def test_a_conflict_changes_nothing() -> None:
    merger = merged(message("linux.cgroups_path", 1))
    both = message("linux.cgroups_path", 2)
    both.annotations["a"] = "1"
    with pytest.raises(ConflictError):
        merger.adjust(both, "10-p")
    assert "a" not in merger.adjustment.annotations
    merger.adjust(api.ContainerAdjustment(annotations={"a": "2"}), "20-p")


def test_cdi_devices_are_for_the_runtime_and_the_next_plugin_does_not_see_them() -> None:
    merger = merged(api.ContainerAdjustment(CDI_devices=[{"name": "vendor.com/gpu=0"}]))
    assert [device.name for device in merger.adjustment.CDI_devices] == ["vendor.com/gpu=0"]
    assert list(merger.container.CDI_devices) == []


def test_fields_of_a_newer_nri_are_passed_over() -> None:
    newer = api.ContainerAdjustment.FromString(b"\xfa\x3e\x03new")
    assert merged(newer, newer).adjustment == api.ContainerAdjustment()


# Updates


def update(path: str, number: int, id_: str = "other", **options: Any) -> api.ContainerUpdate:
    made: api.ContainerUpdate = message(path, number, api.ContainerUpdate)
    made.container_id = id_
    made.ignore_failure = options.get("ignore_failure", False)
    return made


@pytest.mark.parametrize("path", [path for path in SETTABLE if path.startswith(RESOURCES)])
def test_updates_of_a_container_are_put_together_and_conflict_likewise(path: str) -> None:
    merger = Merger("StopContainer", api.Container(id="app"))
    merger.update([update(path, 1), update(path, 2, "third")], "00-p")
    assert merger.updates["other"] == update(path, 1)
    with pytest.raises(ConflictError, match=f"00-p and 10-p both set {path}.* of container other"):
        merger.update([update(path, 3)], "10-p")


def test_an_update_whose_failure_is_to_be_ignored_is_dropped() -> None:
    merger = Merger("StopContainer")
    merger.update([update("linux.resources.cpu.quota", 1)], "00-p")
    second = update("linux.resources.cpu.quota", 2, ignore_failure=True)
    second.linux.resources.cpu.shares.value = 5
    merger.update([second], "10-p")
    assert merger.updates["other"] == update("linux.resources.cpu.quota", 1)


def test_failure_is_ignored_when_all_say_so() -> None:
    for second, expected in ((True, True), (False, False)):
        merger = Merger("StopContainer")
        merger.update([update("linux.resources.cpu.quota", 1, ignore_failure=True)], "00-p")
        merger.update([update("linux.resources.cpu.shares", 1, ignore_failure=second)], "10-p")
        assert merger.updates["other"].ignore_failure is expected


def test_the_container_that_is_being_created_cannot_be_updated() -> None:
    merger = Merger("CreateContainer", api.Container(id="app"))
    with pytest.raises(EventError, match="10-p: asked for an update of app, which is being created"):
        merger.update([update("linux.resources.cpu.quota", 1, "app")], "10-p")
