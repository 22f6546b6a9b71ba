"""Merges the requests of several plugins; two requests for the same field are a conflict.

:mod:`nri.adaptation.fields` is the table of the fields.

- A value, and an entry of a map or keyed list, belongs to the plugin that set it. Another plugin that sets it is
  refused.
- An entry whose key begins with a minus removes an entry: the container's, and an earlier plugin's, which then no
  longer owns it. A later plugin may set it again.
- An empty first argument removes an earlier plugin's command line, ``linux.rdt.remove`` its RDT settings.
- Hooks and device rules are appended.

Source: pkg/adaptation/result.go of containerd/nri 0.12. It handles removal a little differently from list to list;
here every list is handled as its annotations and mounts are meant to be.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from copy import deepcopy
from typing import Any

from google.protobuf.message import Message

from nri import api
from nri.adaptation.errors import ConflictError, EventError
from nri.adaptation.fields import ADDED, FIELDS, MAP, VALUE, MergeRule, by_key, split_keys, walk

_RDT = ("linux.rdt.clos_id", "linux.rdt.schemata", "linux.rdt.enable_monitoring")


class Owners:
    """The plugin that owns each field and entry of each container, within the event of this name."""

    def __init__(self, event: str) -> None:
        self._event = event
        self.message = api.OwningPlugins()
        """The owners, as ValidateContainerAdjustment carries them."""

    def claim(self, message: Message, id_: str, plugin: str) -> None:
        """Make ``plugin`` the owner of everything that ``message`` sets for the container ``id_``.

        :raises ConflictError: when another plugin owns any of it; nothing is claimed then.
        """
        owners = self.message.owners[id_]
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
            added, removed = split_keys(by_key(value, rule), rule)
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

    def release(self, id_: str, paths: Iterable[str]) -> None:
        """Take the fields at ``paths`` of the container ``id_`` from their owners."""
        for path in paths:
            self.message.owners[id_].simple.pop(FIELDS[path].owner, None)


class Merger:
    """Merges the plugins' answers to the event of this name.

    :ivar container: the container as the next plugin sees it: a copy with all adjustments so far. Empty where the
        event has no container.
    :ivar adjustment: the merged adjustment of the container that is being created.
    :ivar updates: updates of other containers, by id; of UpdateContainer also of the container itself.
    """

    def __init__(self, event: str, container: api.Container | None = None) -> None:
        self.container = api.Container() if container is None else deepcopy(container)
        self.adjustment = api.ContainerAdjustment()
        self.updates: dict[str, api.ContainerUpdate] = {}
        self.evictions: list[api.ContainerEviction] = []
        self.owners = Owners(event)
        self._event, self._args = event, list(self.container.args)

    def adjust(self, adjustment: api.ContainerAdjustment, plugin: str) -> None:
        """Add a plugin's adjustment of the container that is being created.

        :raises ConflictError: when another plugin owns a part of it.
        """
        if adjustment.linux.rdt.remove:
            self.owners.release(self.container.id, _RDT)
            self.adjustment.linux.rdt.Clear()
            self.adjustment.linux.rdt.remove = True
        args = list(adjustment.args)
        if args[:1] == [""]:
            self.owners.release(self.container.id, ("args",))
            self.adjustment.ClearField("args")
            self.container.args[:] = self._args
            adjustment = deepcopy(adjustment)
            adjustment.args[:] = args[1:]
        self.owners.claim(adjustment, self.container.id, plugin)
        add(adjustment, self.adjustment, keep_markers=True)
        if any(adjustment.linux.rdt.HasField(path.rpartition(".")[2]) for path in _RDT):
            self.adjustment.linux.rdt.remove = False
        adjust(self.container, adjustment)

    def update(self, updates: Iterable[api.ContainerUpdate], plugin: str) -> None:
        """Add a plugin's updates of containers that exist.

        :raises ConflictError: when another plugin owns a part of an update, unless the update has ``ignore_failure``:
            then the whole update is dropped.
        :raises EventError: for an update of the container that is being created.
        """
        for update in updates:
            id_ = update.container_id
            if self._event == "CreateContainer" and id_ == self.container.id:
                raise EventError(self._event, plugin, f"asked for an update of {id_}, which is being created")
            try:
                self.owners.claim(update, id_, plugin)
            except ConflictError:
                if update.ignore_failure:
                    continue
                raise
            merged = self.updates.setdefault(id_, api.ContainerUpdate(container_id=id_, ignore_failure=True))
            merged.ignore_failure &= update.ignore_failure
            add(update, merged)

    def wanted(self, resources: api.LinuxResources) -> api.LinuxResources:
        """Return the requested resources of the container with the plugins' updates so far."""
        wanted = api.ContainerUpdate()
        wanted.linux.resources.CopyFrom(resources)
        if (own := self.updates.get(self.container.id)) is not None:
            add(own, wanted)
        return wanted.linux.resources

    def resize(self, resources: api.LinuxResources | None) -> None:
        """Apply to the container the resources that the runtime's client and the plugins have requested."""
        update(self.container, self.wanted(resources or api.LinuxResources()))


def add(message: Message, target: Message, *, keep_markers: bool = False) -> None:
    """Copy the fields that ``message`` sets into ``target``, by the rules of the table.

    :param keep_markers: put entries that remove something into ``target``, too, so that they can be applied later.
    """
    for _, rule, path, value in walk(message):
        parent: Any = target
        for name in path[:-1]:
            parent = getattr(parent, name)
        if path[-1] in parent.DESCRIPTOR.fields_by_name:  # a container lacks some fields of an adjustment
            _put(parent, path[-1], rule, value, keep_markers)


def adjust(container: api.Container, adjustment: api.ContainerAdjustment) -> None:
    """Apply an adjustment to a container."""
    shown = deepcopy(adjustment)
    env = list(shown.env)
    shown.ClearField("env")  # NAME=VALUE in a container
    shown.ClearField("CDI_devices")  # the runtime resolves them and does not show them to plugins
    add(shown, container)
    gone = {item.key.removeprefix("-") for item in env}
    kept = [text for text in container.env if text.partition("=")[0] not in gone]
    container.env[:] = kept + [f"{item.key}={item.value}" for item in env if not item.key.startswith("-")]
    if adjustment.linux.rdt.remove:
        rdt = deepcopy(adjustment.linux.rdt)
        rdt.ClearField("remove")
        container.linux.rdt.CopyFrom(rdt)


def update(container: api.Container, resources: api.LinuxResources) -> None:
    """Apply ``resources`` to a container."""
    add(api.ContainerUpdate(linux=api.LinuxContainerUpdate(resources=resources)), container)


def _put(parent: Any, name: str, rule: MergeRule, value: Any, keep_markers: bool) -> None:
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
        added, removed = split_keys(value, rule)
        for key in removed:
            target.pop(key, None)
            if keep_markers:
                _set(target, f"-{key}", value[f"-{key}"])
        for key in added:
            _set(target, key, value[key])
    else:
        entries = by_key(value, rule)
        added, removed = split_keys(entries, rule)
        replaced = {*added, *removed, *[f"-{key}" for key in (*added, *removed)]}
        kept = [deepcopy(item) for item in target if getattr(item, rule.key) not in replaced]
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
