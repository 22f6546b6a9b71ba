"""What several plugins ask for, put together; two that ask for the same thing are in conflict.

:data:`FIELDS` is the table of what can be asked for: where it stands in a message, how it is put together, and
who it belongs to then. The messages are walked by their descriptors; a field that is not in the table, of a newer
NRI, is passed over.

- A value, and an entry of a map or keyed list, belongs to the plugin that set it. Another that sets it is refused.
- An entry whose key has a minus in front of it takes one away: the container's, and an earlier plugin's, which then
  does not own it any more. A later plugin may set it again.
- An empty first argument takes an earlier plugin's command line away, ``linux.rdt.remove`` its RDT.
- Hooks and device rules are added up.

Source: pkg/adaptation/result.go of containerd/nri 0.12. That one handles removal a little differently from list to
list; here all are handled as its annotations and mounts are meant to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple

from nri import api
from nri.adaptation.errors import ConflictError, EventError

if TYPE_CHECKING:
    from google.protobuf.message import Message

VALUE, MAP, LIST, ADDED = "value", "map", "list", "added"
"""How a field is put together: as a whole, by its keys, by a field of its elements, one after the other."""


class Rule(NamedTuple):
    """How one field is put together. ``key`` is the name of the field that tells a list's elements apart."""

    owner: int
    kind: str = VALUE
    key: str = ""
    removable: bool = False


F = api.Field
_RESOURCES = {
    "memory.limit": Rule(F.MemLimit),
    "memory.reservation": Rule(F.MemReservation),
    "memory.swap": Rule(F.MemSwapLimit),
    "memory.kernel": Rule(F.MemKernelLimit),
    "memory.kernel_tcp": Rule(F.MemTCPLimit),
    "memory.swappiness": Rule(F.MemSwappiness),
    "memory.disable_oom_killer": Rule(F.MemDisableOomKiller),
    "memory.use_hierarchy": Rule(F.MemUseHierarchy),
    "cpu.shares": Rule(F.CPUShares),
    "cpu.quota": Rule(F.CPUQuota),
    "cpu.period": Rule(F.CPUPeriod),
    "cpu.realtime_runtime": Rule(F.CPURealtimeRuntime),
    "cpu.realtime_period": Rule(F.CPURealtimePeriod),
    "cpu.cpus": Rule(F.CPUSetCPUs),
    "cpu.mems": Rule(F.CPUSetMems),
    "pids": Rule(F.PidsLimit),
    "hugepage_limits": Rule(F.HugepageLimits, LIST, "page_size"),
    "blockio_class": Rule(F.BlockioClass),
    "rdt_class": Rule(F.RdtClass),
    "unified": Rule(F.CgroupsUnified, MAP),
    "devices": Rule(0, ADDED),
}
_HOOKS = ("prestart", "create_runtime", "create_container", "start_container", "poststart", "poststop")

FIELDS: dict[str, Rule] = {
    "annotations": Rule(F.Annotations, MAP, removable=True),
    "mounts": Rule(F.Mounts, LIST, "destination", removable=True),
    "env": Rule(F.Env, LIST, "key", removable=True),
    "args": Rule(F.Args),
    "rlimits": Rule(F.Rlimits, LIST, "type"),
    "CDI_devices": Rule(F.CdiDevices, LIST, "name"),
    **{f"hooks.{kind}": Rule(F.OciHooks, ADDED) for kind in _HOOKS},
    "linux.devices": Rule(F.Devices, LIST, "path", removable=True),
    **{f"linux.resources.{name}": rule for name, rule in _RESOURCES.items()},
    "linux.cgroups_path": Rule(F.CgroupsPath),
    "linux.oom_score_adj": Rule(F.OomScoreAdj),
    "linux.io_priority": Rule(F.IoPriority),
    "linux.seccomp_policy": Rule(F.SeccompPolicy),
    "linux.namespaces": Rule(F.Namespace, LIST, "type", removable=True),
    "linux.sysctl": Rule(F.Sysctl, MAP, removable=True),
    "linux.net_devices": Rule(F.LinuxNetDevices, MAP, removable=True),
    "linux.scheduler": Rule(F.LinuxSched),
    "linux.rdt.clos_id": Rule(F.RdtClosID),
    "linux.rdt.schemata": Rule(F.RdtSchemata),
    "linux.rdt.enable_monitoring": Rule(F.RdtEnableMonitoring),
    "linux.memory_policy": Rule(F.MemoryPolicy),
}
"""Every field of an adjustment, by its path; an update has those below ``linux.resources``."""

_RDT = ("linux.rdt.clos_id", "linux.rdt.schemata", "linux.rdt.enable_monitoring")


class Merger:
    """Collects what the plugins answer to one event.

    :param event: its name.
    :ivar container: as the next plugin shall see it; a copy, with what was adjusted so far. None where the event
        is not about one.
    :ivar adjustment: of the container that is being created.
    :ivar updates: of other containers, by id; of the container itself where it is updated.
    :ivar owners: who asked for what.
    """

    def __init__(self, event: str, container: api.Container | None = None) -> None:
        self.container = api.Container()
        if container is not None:
            self.container.CopyFrom(container)
        self._args = list(self.container.args)
        self.adjustment = api.ContainerAdjustment()
        self.updates: dict[str, api.ContainerUpdate] = {}
        self.evictions: list[api.ContainerEviction] = []
        self.owners = api.OwningPlugins()
        self._event = event

    def adjust(self, adjustment: api.ContainerAdjustment, plugin: str) -> None:
        """Add what a plugin asks for the container that is being created.

        :raises ConflictError: when another plugin has asked for it.
        """
        if adjustment.linux.rdt.remove:
            self._release(self.container.id, _RDT)
            self.adjustment.linux.rdt.Clear()
            self.adjustment.linux.rdt.remove = True
        args = list(adjustment.args)
        if args[:1] == [""]:
            self._release(self.container.id, ("args",))
            self.adjustment.ClearField("args")
            self.container.args[:] = self._args
            adjustment = _copy(adjustment)
            adjustment.args[:] = args[1:]
        self._claim(adjustment, self.container.id, plugin)
        add(adjustment, self.adjustment, keep_markers=True)
        if any(adjustment.linux.rdt.HasField(path.rpartition(".")[2]) for path in _RDT):
            self.adjustment.linux.rdt.remove = False
        adjust(self.container, adjustment)

    def update(self, updates: Iterable[api.ContainerUpdate], plugin: str) -> None:
        """Add what a plugin asks for containers that exist.

        :raises ConflictError: when another plugin has asked for it, unless failure is to be ignored: then nothing of
            that update is done.
        :raises EventError: for an update of the container that is being created.
        """
        for update in updates:
            id_ = update.container_id
            if self._event == "CreateContainer" and id_ == self.container.id:
                raise EventError(self._event, plugin, f"asked for an update of {id_}, which is being created")
            try:
                self._claim(update, id_, plugin)
            except ConflictError:
                if update.ignore_failure:
                    continue
                raise
            merged = self.updates.get(id_)
            if merged is None:
                merged = self.updates[id_] = api.ContainerUpdate(container_id=id_, ignore_failure=True)
            merged.ignore_failure = merged.ignore_failure and update.ignore_failure
            add(update, merged)

    def evict(self, evictions: Iterable[api.ContainerEviction]) -> None:
        """Add the containers that a plugin wants stopped."""
        self.evictions += evictions

    def wanted(self, resources: api.LinuxResources) -> api.LinuxResources:
        """The resources that are asked for the container, with what plugins so far have made of them."""
        wanted = api.ContainerUpdate()
        wanted.linux.resources.CopyFrom(resources)
        own = self.updates.get(self.container.id)
        if own is not None:
            add(own, wanted)
        return wanted.linux.resources

    def resize(self, resources: api.LinuxResources | None) -> None:
        """Give the container the resources that were asked for, by the runtime's client and by plugins."""
        update(self.container, self.wanted(resources or api.LinuxResources()))

    def _claim(self, message: Message, id_: str, plugin: str) -> None:
        """Make the plugin the owner of everything that is set; of nothing when any of it is another's."""
        owners = self.owners.owners[id_]
        claims = []
        for path, rule, _, value in walk(message):
            if rule.kind == ADDED:
                if rule.owner:
                    earlier = owners.simple[rule.owner].split(",") if rule.owner in owners.simple else []
                    owners.simple[rule.owner] = ",".join(dict.fromkeys([*earlier, plugin]))
                continue
            if rule.kind == VALUE:
                claims.append((path, rule.owner, "", owners.simple.get(rule.owner)))
                continue
            added, removed = _split(_keyed(value, rule), rule)
            for key in removed:
                owners.compound[rule.owner].owners.pop(key, None)
            claimed = owners.compound[rule.owner].owners
            claims += [(f"{path} {key}", rule.owner, key, claimed.get(key)) for key in added]
        for field, _, _, owner in claims:
            if owner is not None and owner != plugin:
                raise ConflictError(self._event, field, owner, plugin, id_)
        for _, number, key, _ in claims:
            if key:
                owners.compound[number].owners[key] = plugin
            else:
                owners.simple[number] = plugin

    def _release(self, id_: str, paths: Iterable[str]) -> None:
        for path in paths:
            self.owners.owners[id_].simple.pop(FIELDS[path].owner, None)


def walk(message: Message, prefix: str = "") -> Iterator[tuple[str, Rule, tuple[str, ...], Any]]:
    """Every field of the table that is set: its path, its rule, the path as a tuple, its value."""
    for descriptor, value in message.ListFields():
        path = prefix + descriptor.name
        rule = FIELDS.get(path)
        if rule is not None:
            yield path, rule, tuple(path.split(".")), value
        elif descriptor.message_type is not None and not descriptor.is_repeated:
            yield from walk(value, f"{path}.")


def add(message: Message, target: Message, *, keep_markers: bool = False) -> None:
    """Put what is set in ``message`` into ``target``, by the rules of the table.

    :param keep_markers: whether what takes something away is put in as well, for whoever carries it out.
    """
    for _, rule, path, value in walk(message):
        parent: Any = target
        for name in path[:-1]:
            parent = getattr(parent, name)
        if path[-1] in parent.DESCRIPTOR.fields_by_name:  # else a container does not show what is adjusted
            _put(parent, path[-1], rule, value, keep_markers)


def adjust(container: api.Container, adjustment: api.ContainerAdjustment) -> None:
    """Change a container as an adjustment asks."""
    shown = _copy(adjustment)
    env = list(shown.env)
    shown.ClearField("env")  # NAME=VALUE in a container
    shown.ClearField("CDI_devices")  # for the runtime to resolve; not shown to plugins
    add(shown, container)
    gone = {item.key.removeprefix("-") for item in env}
    kept = [text for text in container.env if text.partition("=")[0] not in gone]
    container.env[:] = kept + [f"{item.key}={item.value}" for item in env if not item.key.startswith("-")]
    if adjustment.linux.rdt.remove:
        rdt = _copy(adjustment.linux.rdt)
        rdt.ClearField("remove")
        container.linux.rdt.CopyFrom(rdt)


def update(container: api.Container, resources: api.LinuxResources) -> None:
    """Change a container's resources."""
    add(api.ContainerUpdate(linux=api.LinuxContainerUpdate(resources=resources)), container)


def fields(message: Message) -> list[str]:
    """The names of what an adjustment or update changes, with keys, for people."""
    names = []
    for path, rule, _, value in walk(message):
        keys = list(_keyed(value, rule)) if rule.kind in (MAP, LIST) else [""]
        names += [f"{path} {key}".rstrip() for key in keys]
    return names


def _put(parent: Any, name: str, rule: Rule, value: Any, keep_markers: bool) -> None:
    target = getattr(parent, name)
    if rule.kind == ADDED:
        target.extend(value)
    elif rule.kind == VALUE:
        descriptor = parent.DESCRIPTOR.fields_by_name[name]
        if descriptor.is_repeated:
            target[:] = value
        elif descriptor.message_type is not None:
            target.CopyFrom(value)
        else:
            setattr(parent, name, value)
    elif rule.kind == MAP:
        added, removed = _split(value, rule)
        for key in removed:
            target.pop(key, None)
            if keep_markers:
                _set(target, f"-{key}", value[f"-{key}"])
        for key in added:
            _set(target, key, value[key])
    else:
        entries = _keyed(value, rule)
        added, removed = _split(entries, rule)
        replaced = {*added, *removed, *[f"-{key}" for key in (*added, *removed)]}
        kept = [_copy(item) for item in target if getattr(item, rule.key) not in replaced]
        kept += [entries[key] for key in added]
        if keep_markers:
            kept += [entries[f"-{key}"] for key in removed if key not in added]
        parent.ClearField(name)
        getattr(parent, name).extend(kept)


def _set(target: MutableMapping[str, Any], key: str, value: Any) -> None:
    if hasattr(value, "CopyFrom"):
        target[key].CopyFrom(value)
    else:
        target[key] = value


def _keyed(value: Any, rule: Rule) -> dict[str, Any]:
    return dict(sorted(value.items())) if rule.kind == MAP else {getattr(item, rule.key): item for item in value}


def _split(keys: Iterable[str], rule: Rule) -> tuple[list[str], list[str]]:
    """What is set, and what is taken away."""
    removed = [key[1:] for key in keys if rule.removable and key.startswith("-")]
    return [key for key in keys if not (rule.removable and key.startswith("-"))], removed


def _copy(message: Any) -> Any:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy
