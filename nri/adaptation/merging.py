"""Merges the answers of several v2 plugins to one event, as NRI does; two requests for the same field are a conflict.

The rules are those of ``nri.adjust.merging``. NRI's own merging differs from them, and is followed here:

- In annotations, sysctls and network devices, a removal alone leaves an earlier plugin's value. Both are passed on to
  the runtime, and later plugins still see the value.
- The removal of an environment variable or a device is not passed on to the runtime.
- CDI devices, RDT and the memory policy are not shown to later plugins; what they add to resource limits and huge
  pages is shown after the container's own.
- The update of the container that is being updated begins with all resources that the runtime's client asks for. It
  is the last one of the list.
- An update whose failure is to be ignored changes nothing when it fails. But what it claimed before that stays
  claimed, and the first update of a container is in the list, without resources.
- A plugin's limit of processes and its device rules in an update are ignored. Where the client asks for a limit of
  processes, every update of the container by a plugin claims it, so that a second one is a conflict.
- Evictions that are part of an answer are ignored.

Source: pkg/adaptation/result.go of containerd/nri.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from google.protobuf.message import Message

from nri.adaptation.errors import ConflictError, EventError
from nri.adaptation.fields import (
    FIELDS,
    RESOURCES,
    MergeRule,
    entries,
    put,
    put_key,
    reach,
    set_fields,
)
from nri.adjust.merging import ADDED, BY_ENTRIES, COMMAND, MAP, Conflict, Merge
from nri.v2 import api
from nri.v2.api.oci import MARK

_INERT = frozenset(path for path, rule in FIELDS.items() if rule.kind == MAP and rule.removable)
_NOT_PASSED_ON = ("env", "linux.devices")  # removals of these
_NOT_SHOWN = ("CDI_devices", "linux.rdt.", "linux.memory_policy")
_NOT_APPLIED = ("linux.rdt.", "linux.memory_policy")
_IN_UPDATES = {
    f"linux.resources.{name}": rule
    for name, rule in RESOURCES.items()
    if name not in ("devices", "pids")
}
_PIDS = "linux.resources.pids"


class _Update:
    """The merged update of a container."""

    def __init__(self, *, ignore_failure: bool) -> None:
        self.ignore_failure = ignore_failure
        self.merge = _new_merge()
        self.has_resources = False


def _new_merge() -> Merge:
    return Merge(FIELDS, _INERT)


class Merger:
    """Merges the plugins' answers to the event of this name.

    :param container: the container of the event, if it has one; not changed.
    :param resources: what the runtime's client asks for in UpdateContainer; not changed.
    :ivar container: the container that the next plugin is shown.
    """

    def __init__(
        self,
        event: str,
        container: api.Container | None = None,
        resources: api.LinuxResources | None = None,
    ) -> None:
        self.container = deepcopy(container or api.Container())
        self._requested = api.LinuxResources()
        if resources is not None:
            self._requested.CopyFrom(resources)
        self._requested.MergeFrom(_empty_resources())
        self._event = event
        self._adjusted = _new_merge()
        self._with_hooks: list[str] = []  # plugins
        self._has_linux = False
        self._updates: dict[str, _Update] = {}  # by the id of the container
        self._own_id = ""  # of the container that is being updated
        if event == "CreateContainer":  # NRI sends these even if they are empty
            self.container.hooks.SetInParent()
            self.container.linux.resources.MergeFrom(_empty_resources())
        elif event == "UpdateContainer":
            self._own_id = self.container.id

    @property
    def adjustment(self) -> api.ContainerAdjustment:
        """The merged adjustment of the container that is being created; empty for other events."""
        made = api.ContainerAdjustment()
        if self._event == "CreateContainer":
            made.hooks.SetInParent()
            made.linux.resources.CopyFrom(_empty_resources())
            if self._has_linux:
                made.linux.rdt.SetInParent()
            _fill(made, self._adjusted)
        return made

    @property
    def resources(self) -> api.LinuxResources:
        """The requested resources that the next plugin is shown."""
        own = self.own_update
        if own is not None and self._updates[own.container_id].has_resources:
            return own.linux.resources
        return self._requested

    @property
    def updates(self) -> list[api.ContainerUpdate]:
        """The merged updates, in the order of each container's first one; ``own_update`` is the last."""
        others = [self._update(id_) for id_ in self._updates if id_ != self._own_id]
        if self.own_update is None:
            return others
        return [*others, self.own_update]

    @property
    def own_update(self) -> api.ContainerUpdate | None:
        """The merged update of the container of UpdateContainer, if a plugin asked for one."""
        if self._own_id in self._updates:
            return self._update(self._own_id)
        return None

    @property
    def owners(self) -> api.OwningPlugins:
        """The owners of all fields, as ValidateContainerAdjustment carries them."""
        message = api.OwningPlugins()
        merges = [(id_, update.merge) for id_, update in self._updates.items()]
        for id_, merge in [*merges, (self.container.id, self._adjusted)]:
            for (path, entry), plugin in merge.owners.items():
                rule = FIELDS[path]
                if rule.kind in BY_ENTRIES:
                    message.owners[id_].compound[rule.owner].owners[entry] = plugin
                elif rule.owner:
                    message.owners[id_].simple[rule.owner] = plugin
        if self._with_hooks:
            message.owners[self.container.id].simple[api.Field.OciHooks] = ",".join(
                self._with_hooks
            )
        return message

    def add(self, response: Message | None, plugin: str) -> None:
        """Add a plugin's answer; None, and the answer to an event that changes nothing, has no effect.

        :raises ConflictError: when another plugin, or this one before, owns a part of it.
        :raises EventError: for an update of the container that is being created.
        """
        if self._event == "CreateContainer":
            self._add_adjustment(getattr(response, "adjust", api.ContainerAdjustment()), plugin)
        for update in getattr(response, "update", ()):
            self._add_update(update, plugin)

    def _add_adjustment(self, adjustment: api.ContainerAdjustment, plugin: str) -> None:
        self._has_linux |= adjustment.HasField("linux")
        for path, rule, value in set_fields(adjustment, FIELDS):
            given = entries(rule, value)
            self._claim(self._adjusted, path, rule, given, plugin)
            if not path.startswith(_NOT_SHOWN):
                _show(self.container, path, rule, given)
        if adjustment.hooks.ListFields():
            self._with_hooks.append(plugin)

    def _add_update(self, update: api.ContainerUpdate, plugin: str) -> None:
        id_ = update.container_id
        if self._event == "CreateContainer" and id_ == self.container.id:
            text = f'plugin "{plugin}" asked update of "{id_}" during creation'
            raise EventError(self._event, plugin, text, text)
        combined = self._updates.setdefault(id_, _Update(ignore_failure=True))
        combined.ignore_failure &= update.ignore_failure
        if not update.linux.HasField("resources"):
            return
        merge = combined.merge.copy()
        try:
            for path, rule, value in set_fields(update, _IN_UPDATES):
                self._claim(merge, path, rule, entries(rule, value), plugin)
            if id_ == self._own_id and self._requested.HasField("pids"):
                self._claim(merge, _PIDS, FIELDS[_PIDS], self._requested.pids, plugin)
        except ConflictError:
            combined.merge.owners = merge.owners
            if not update.ignore_failure:
                raise
        else:
            combined.merge = merge
            combined.has_resources = True

    def _claim(self, merge: Merge, path: str, rule: MergeRule, given: Any, plugin: str) -> None:
        try:
            merge.add(path, rule.kind, given, plugin)
        except Conflict as conflict:
            words = f"{api.Field.Name(rule.owner)} {conflict.entry}"
            first = conflict.owner.removeprefix(MARK)
            raise ConflictError(
                self._event, words, f"{path} {conflict.entry}".rstrip(), first, plugin
            ) from None

    def _update(self, id_: str) -> api.ContainerUpdate:
        combined = self._updates[id_]
        made = api.ContainerUpdate(container_id=id_, ignore_failure=combined.ignore_failure)
        resources = _empty_resources()
        if id_ == self._own_id and combined.has_resources:
            resources = self._requested
        made.linux.resources.CopyFrom(resources)
        _fill(made, combined.merge)
        return made


def _empty_resources() -> api.LinuxResources:
    return api.LinuxResources(memory={}, cpu={})


def _fill(message: Any, merge: Merge) -> None:
    """Put merged values into an adjustment or update."""
    for path, value in merge.values.items():
        rule = FIELDS[path]
        target = reach(message, path)
        if rule.kind == MAP:
            nothing = target.GetEntryClass()().value
            for entry, item in value.items():
                put_key(target, entry, nothing if item is None else item)
        elif rule.kind in BY_ENTRIES:
            for entry, item in value.items():
                if item is not None:
                    target.append(item)
                elif path not in _NOT_PASSED_ON:
                    setattr(target.add(), rule.key, entry)
        elif rule.kind == ADDED:
            target.extend(value)
        else:
            _put(message, path, rule, value)
            if path.startswith("linux.rdt."):
                message.linux.rdt.remove = path == "linux.rdt.remove"


def _show(container: api.Container, path: str, rule: MergeRule, given: Any) -> None:
    """Change the container that the next plugin is shown; *given* is as ``Merge.add`` takes it."""
    shown = reach(container, path)
    if rule.kind == MAP:
        for entry, item in given:
            if item is not None:
                put_key(shown, entry, item)
    elif rule.kind in BY_ENTRIES:
        _show_entries(shown, path, rule, given)
    elif rule.kind == ADDED:
        shown.extend(given)
    else:
        _put(container, path, rule, given)


def _put(message: Any, path: str, rule: MergeRule, value: Any) -> None:
    """Set a field as a whole; the empty word that takes a command line over is no part of it."""
    if rule.kind == COMMAND and value[0] == "":
        value = value[1:]
    put(message, path, value)


def _show_entries(shown: Any, path: str, rule: MergeRule, given: Any) -> None:
    """Change a list whose entries have names: a mentioned one is replaced, or gone."""
    if rule.removable:
        mentioned = {entry for entry, _ in given}
    else:
        mentioned = set()
    new = [item for _, item in given if item is not None]
    if path == "env":
        kept = [text for text in shown if text.partition("=")[0] not in mentioned]
        shown[:] = kept + [f"{item.key}={item.value}" for item in new]
    else:
        kept = [item for item in shown if getattr(item, rule.key) not in mentioned]
        _replace(shown, [*kept, *new])


def apply(container: api.Container, adjustment: api.ContainerAdjustment) -> None:
    """Apply a merged adjustment to a container, so that later events show it.

    A runtime also adds rules for new devices, sorts mounts, and sets swap with memory; this does not.
    """
    for path, rule, value in set_fields(adjustment, FIELDS):
        if path.startswith(_NOT_APPLIED):
            continue
        given = entries(rule, value)
        if rule.kind == MAP:
            for entry, _ in given:
                reach(container, path).pop(entry, None)
        _show(container, path, rule._replace(removable=path != "rlimits"), given)


def _replace(target: Any, items: list[Any]) -> None:
    items = deepcopy(items)
    del target[:]
    target.extend(items)
