"""Convert between v2 messages and the words of the OCI runtime specification, which v0.1 plugins have.

A field and its key have the same name in two spellings, but for a few. A number that a message can lack is a message
of its own there (``OptionalInt``). What NRI has no field for is left out. In the documents ``adjust`` and ``updates``
of a v0.1 result, whose form the caller has checked, null, and ``"remove": true`` in an element of a list, remove an
entry; in a message its key, name, path or type has a mark. Source: pkg/api/helpers.go of containerd/nri.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.message import Message

from nri.v2.api.adjustment_pb2 import ContainerAdjustment, ContainerUpdate
from nri.v2.api.container_pb2 import Container, LinuxContainer, LinuxPodSandbox
from nri.v2.api.linux_pb2 import LinuxResources

MARK = "-"
"""The mark of a removal, in front of the key of the entry."""

_KEYS = {
    "CDI_devices": "cdiDevices",
    "clos_id": "closID",
    "default_errno": "defaultErrnoRet",
    "disable_oom_killer": "disableOOMKiller",
    "kernel_tcp": "kernelTCP",
    "rdt": "intelRdt",
    "seccomp_policy": "seccomp",
}
"""Fields whose key is not their name in camel case."""

_DEMANDED = {
    *("LinuxDevice.path", "LinuxDevice.type", "LinuxDevice.major", "LinuxDevice.minor"),
    *("LinuxIOPriority.class", "LinuxIOPriority.priority", "LinuxScheduler.policy"),
    *("LinuxSeccomp.default_action", "LinuxSyscall.action", "SecurityProfile.profile_type"),
    *("LinuxSeccompArg.index", "LinuxSeccompArg.value", "LinuxSeccompArg.value_two"),
    *("LinuxSeccompArg.op", "POSIXRlimit.type", "POSIXRlimit.hard", "POSIXRlimit.soft"),
    *("HugepageLimit.page_size", "HugepageLimit.limit", "LinuxPids.limit", "User.uid", "User.gid"),
    *("Hook.path", "Mount.destination", "LinuxDeviceCgroup.allow", "LinuxMemoryPolicy.mode"),
}
"""The texts, numbers and enums that OCI demands, also empty and 0."""

_RESOURCES = ("devices", "memory", "cpu", "pids", "hugepageLimits", "unified")


def container_to_oci(container: Container, annotations: Mapping[str, str]) -> dict[str, Any]:
    """Return what plugins see of a container that is about to be created: no configuration to run.

    :param annotations: its annotations, which may include its pod's.
    """
    linux = container.linux
    process = {
        "args": list(container.args),
        "env": list(container.env),
        **_to_oci(container, "user", "rlimits"),
    }
    config: dict[str, Any] = {
        "annotations": dict(annotations),
        "process": process | _to_oci(linux, "oom_score_adj", "io_priority", "scheduler"),
        "mounts": [],
        "linux": {
            "resources": resources_to_oci(resources_of(linux)),
            "namespaces": [],
            "cgroupsPath": linux.cgroups_path,
            "devices": [],
            **_to_oci(linux, "namespaces", "devices"),
            **_to_oci(linux, "sysctl", "net_devices", "seccomp_policy", "rdt"),
        },
        **_to_oci(container, "mounts"),
    }
    hooks = _to_oci(container.hooks)
    if hooks:
        config["hooks"] = hooks
    return config


def container_from_oci(config: Mapping[str, Any]) -> Container:
    """Return the container of a configuration as ``container_to_oci`` makes it, without the annotations."""
    process = config.get("process", {})
    linux = config.get("linux", {})
    parts = _picked(process, "args", "env", "user", "rlimits")
    parts |= _picked(config, "mounts", "hooks")
    linux = linux | _picked(process, "oomScoreAdj", "ioPriority", "scheduler")
    return Container(**_from_oci(Container.DESCRIPTOR, parts | {"linux": linux}))


def resources_of(linux: LinuxPodSandbox | LinuxContainer) -> LinuxResources | None:
    """Return the ``resources`` of a pod's or container's ``linux``; None when they are absent."""
    return linux.resources if linux.HasField("resources") else None


def resources_to_oci(resources: LinuxResources | None) -> dict[str, Any] | None:
    """Return OCI's ``linux.resources``; None (JSON's null) for None.

    They equal, key for key and in order, the output of the Go adapter: ``ToOCI()`` (pkg/api/resources.go) and
    ``encoding/json`` over the runtime specification's Go types. Two oddities are kept, since existing plugins have
    seen nothing else: ``memory`` and ``cpu`` are present even when empty, and ``pids`` without a limit is an empty
    object. The classes of block I/O and RDT have no place in OCI's resources.
    """
    if resources is None:
        return None
    oci = {"memory": {}, "cpu": {}} | _to_oci(resources)
    if resources.pids.limit < 0:
        oci["pids"] = {}
    return _picked(oci, *_RESOURCES)


def resources_from_oci(resources: Mapping[str, Any]) -> LinuxResources:
    """Return the message of a ``linux.resources``."""
    return LinuxResources(**_from_oci(LinuxResources.DESCRIPTOR, resources))


def adjustment(adjust: dict[str, Any]) -> ContainerAdjustment:
    """Return the adjustment of an ``adjust``."""
    linux = dict(adjust.get("linux", {}))
    for key, name in (("devices", "path"), ("namespaces", "type")):
        linux[key] = [_marked_item(item, name) for item in linux.get(key, [])]
    for key, nothing in (("sysctl", ""), ("netDevices", {})):
        linux[key] = _marked(linux.get(key, {}), nothing)
    if "scheduler" in adjust:
        linux["scheduler"] = adjust["scheduler"]
    env = []
    for key, value in _marked(adjust.get("env", {}), "").items():
        env.append({"key": key, "value": value})
    mounts = []
    for path, mount in _marked(adjust.get("mounts", {}), {}).items():
        mounts.append({"destination": path} | mount)
    changed = {
        "annotations": _marked(adjust.get("annotations", {}), ""),
        "env": env,
        "mounts": mounts,
        "cdiDevices": [{"name": name} for name in adjust.get("cdiDevices", [])],
        "linux": linux,
    }
    return ContainerAdjustment(**_from_oci(ContainerAdjustment.DESCRIPTOR, adjust | changed))


def update(update: dict[str, Any]) -> ContainerUpdate:
    """Return the update of an element of ``updates``."""
    return ContainerUpdate(
        container_id=update["id"],
        ignore_failure=update.get("ignoreFailure", False),
        linux={"resources": resources_from_oci(update["resources"])},
    )


def _marked(entries: dict[str, Any], nothing: Any) -> dict[str, Any]:
    """Return entries with the mark at the keys that null removes, and *nothing* as their values; those go first."""
    removed = {}
    kept = {}
    for key, value in entries.items():
        if value is None:
            removed[MARK + key.removeprefix(MARK)] = nothing
        else:
            kept[key] = value
    return removed | kept


def _marked_item(item: dict[str, Any], name: str) -> dict[str, Any]:
    """Return an element of an array, with the mark at its name if it removes one."""
    return {name: MARK + item[name]} if item.get("remove") else item


def _picked(value: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return some keys of an object, as far as it has them."""
    return {key: value[key] for key in keys if key in value}


def _itself(item: Any) -> Any:
    return item


class _Field:
    """A field of a message; what its descriptor says of it, which takes long to ask for.

    :ivar is_always: whether OCI demands it, also an empty text and 0.
    """

    def __init__(self, field: Any) -> None:
        words = field.name.title().replace("_", "")
        self.name = field.name
        self.key = _KEYS.get(field.name, words[0].lower() + words[1:])
        self.is_always = f"{field.containing_type.name}.{field.name}" in _DEMANDED
        self._is_list = field.is_repeated
        of = field.message_type
        # The entry of a map is declared within its message, and nothing else is; to ask for options imports a module.
        self._is_map = of is not None and of.containing_type is not None
        if self._is_map:
            of = of.fields_by_name["value"].message_type
        # How one value is converted, of a list or map each.
        self._to_message: Callable[[Any], Any] = _itself
        self._to_oci: Callable[[Any], Any] = _itself
        if field.enum_type is not None:
            numbers = field.enum_type.values_by_number
            self._to_oci = {number: word.name for number, word in numbers.items()}.__getitem__
        elif of is not None:
            self._to_message = functools.partial(_from_oci, of)
            self._to_oci = _to_oci
            if of.name.startswith("Optional"):
                self._to_message = _optional
                self._to_oci = _plain

    def in_message(self, item: Any) -> Any:
        """Return the value of the message's field for the value of OCI's key."""
        return self._each(self._to_message, item)

    def in_oci(self, item: Any) -> Any:
        """Return the value of OCI's key for that of the message's field."""
        return self._each(self._to_oci, item)

    def _each(self, convert: Callable[[Any], Any], item: Any) -> Any:
        if self._is_map:
            return {key: convert(item[key]) for key in sorted(item)}
        if self._is_list:
            return [convert(entry) for entry in item]
        return convert(item)


def _optional(item: Any) -> dict[str, Any]:
    return {"value": item}


def _plain(optional: Any) -> Any:
    value = optional.value
    return value if isinstance(value, str | int) else [*value]


@functools.cache
def _fields(kind: Any) -> dict[str, _Field]:
    return {field.name: _Field(field) for field in kind.fields}


def _from_oci(kind: Any, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a message, without those that are empty."""
    fields = {}
    for field in _fields(kind).values():
        if field.key in value:
            item = field.in_message(value[field.key])
            if item not in ({}, []):
                fields[field.name] = item
    return fields


def _to_oci(message: Message, *names: str) -> dict[str, Any]:
    """Return a message, or the fields of it with these names that are set."""
    fields = _fields(message.DESCRIPTOR)
    given = {field.name: item for field, item in message.ListFields()}
    oci = {}
    for name in names or fields:
        field = fields[name]
        if name in given:
            oci[field.key] = field.in_oci(given[name])
        elif field.is_always:
            oci[field.key] = field.in_oci(getattr(message, name))
    return oci
