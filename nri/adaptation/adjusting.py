"""Merges the plugins' adjustments of a container that is being created.

Every plugin is shown the container with the adjustments so far, and the runtime gets the merged adjustment. The two
differ, and not every removal is handled alike. All of this is what NRI does:

- Annotations, sysctls and network devices: a removal is passed on to the runtime. Together with a new value it takes
  the entry from its owner; alone it does not, and an earlier plugin's value stays, also in the view of later plugins.
- Mounts, devices and environment variables: a removal takes the entry from an earlier plugin and from the container
  that later plugins see. Only the removal of a mount is passed on to the runtime.
- Namespaces: a removal is a claim like a new value.
- Arguments: an empty first one takes the command line from its owner, and what follows is the new one, even if empty.
- ``linux.rdt.remove`` takes all RDT settings from their owners, also where no plugin has set any.

Source: ``adjust`` in pkg/adaptation/result.go of containerd/nri.
"""

from __future__ import annotations

from typing import Any

from nri.adaptation.fields import ADDED, FIELDS, LIST, MAP, MergeRule, put, put_key, reach, set_fields
from nri.adaptation.owners import Owners
from nri.v2 import api
from nri.v2.api.removal import is_marked, mark, unmarked

_HIDDEN = ("CDI_devices", "linux.rdt.", "linux.memory_policy")  # from later plugins


class AdjustmentMerger:
    """Merges adjustments.

    :param container: the container as it is requested; it is changed, so that it is what the next plugin is to see.
    :ivar adjustment: the merged adjustment.
    """

    def __init__(self, container: api.Container, owners: Owners) -> None:
        self._container, self._owners = container, owners
        self.adjustment = api.ContainerAdjustment()
        for message in (container, self.adjustment):  # which NRI sends even if they are empty
            message.hooks.SetInParent()
            message.linux.resources.memory.SetInParent()
            message.linux.resources.cpu.SetInParent()

    def add(self, adjustment: api.ContainerAdjustment, plugin: str) -> None:
        """Add a plugin's adjustment.

        :raises ConflictError: when a part of it is owned; what comes before that part has been added.
        """
        if adjustment.HasField("linux"):
            self.adjustment.linux.rdt.SetInParent()
        for path, rule, value in set_fields(adjustment, FIELDS):
            if path == "args":
                self._add_args(list(value), plugin)
            elif path == "linux.rdt.remove":
                self._owners.clear_rdt(self._container.id, plugin)
                self.adjustment.linux.rdt.CopyFrom(api.LinuxRdt(remove=True))
            elif path == "linux.namespaces":
                self._add_namespaces(value, plugin)
            elif rule.kind == MAP:
                self._add_map(path, rule, value, plugin)
            elif rule.kind == LIST and rule.removable:
                self._add_removable(path, rule, value, plugin)
            elif rule.kind == LIST:
                self._add_list(path, rule, value, plugin)
            elif rule.kind == ADDED:
                for message in self._targets(path):
                    reach(message, path).extend(value)
            else:
                self._add_value(path, rule, value, plugin)
        if any(hooks for _, hooks in adjustment.hooks.ListFields()):
            self._owners.join(self._container.id, api.Field.OciHooks, plugin)

    def _add_value(self, path: str, rule: MergeRule, value: Any, plugin: str) -> None:
        self._owners.claim(self._container.id, rule.owner, plugin)
        for message in self._targets(path):
            put(message, path, value)
        if path.startswith("linux.rdt."):
            self.adjustment.linux.rdt.remove = False

    def _add_args(self, args: list[str], plugin: str) -> None:
        if args[0] == "":
            self._owners.clear(self._container.id, api.Field.Args, plugin)
            args = args[1:]
        self._owners.claim(self._container.id, api.Field.Args, plugin)
        self.adjustment.args[:] = self._container.args[:] = args

    def _add_map(self, path: str, rule: MergeRule, value: Any, plugin: str) -> None:
        merged, shown = reach(self.adjustment, path), reach(self._container, path)
        removed = {unmarked(key) for key in value if rule.removable and is_marked(key)}
        nothing = type(next(iter(value.values())))()
        for key in sorted(value):  # Go's order is random
            if rule.removable and is_marked(key):
                continue
            if key in removed:
                self._owners.clear_entry(self._container.id, rule.owner, key, plugin)
                shown.pop(key, None)
                put_key(merged, mark(key), nothing)
            self._owners.claim_entry(self._container.id, rule.owner, key, plugin)
            put_key(shown, key, value[key])
            put_key(merged, key, value[key])
        for key in sorted(removed - set(value)):
            put_key(merged, mark(key), nothing)

    def _add_list(self, path: str, rule: MergeRule, value: Any, plugin: str) -> None:
        for item in value:
            self._owners.claim_entry(self._container.id, rule.owner, getattr(item, rule.key), plugin)
        for message in self._targets(path):
            reach(message, path).extend(value)

    def _add_removable(self, path: str, rule: MergeRule, value: Any, plugin: str) -> None:
        added = [item for item in value if not is_marked(getattr(item, rule.key))]
        removals = {unmarked(key): item for item in value if is_marked(key := getattr(item, rule.key))}
        replaced = {getattr(item, rule.key) for item in added}
        merged, shown = reach(self.adjustment, path), reach(self._container, path)
        for index, item in reversed(list(enumerate(merged))):
            if (key := getattr(item, rule.key)) in removals:
                self._owners.clear_entry(self._container.id, rule.owner, key, plugin)
                del merged[index]
        for index, item in reversed(list(enumerate(shown))):
            if (key := _shown_key(item, rule)) in removals or key in replaced:
                del shown[index]
        for item in added:
            self._owners.claim_entry(self._container.id, rule.owner, getattr(item, rule.key), plugin)
            merged.append(item)
        if path == "mounts":
            merged.extend(item for key, item in removals.items() if key not in replaced)
        shown.extend(f"{item.key}={item.value}" if path == "env" else item for item in added)

    def _add_namespaces(self, value: Any, plugin: str) -> None:
        shown = {item.type: item for item in self._container.linux.namespaces}
        for item in value:
            kind = unmarked(item.type)
            self._owners.claim_entry(self._container.id, api.Field.Namespace, kind, plugin)
            if is_marked(item.type):
                shown.pop(kind, None)
            else:
                shown[kind] = item
            self.adjustment.linux.namespaces.append(item)
        kept = [api.LinuxNamespace(type=item.type, path=item.path) for item in shown.values()]
        del self._container.linux.namespaces[:]
        self._container.linux.namespaces.extend(kept)

    def _targets(self, path: str) -> list[Any]:
        """Return the messages in which a field is set."""
        return [self.adjustment] if path.startswith(_HIDDEN) else [self.adjustment, self._container]


def _shown_key(item: Any, rule: MergeRule) -> str:
    """Return the key of a container's entry; its environment is a list of texts."""
    return item.partition("=")[0] if isinstance(item, str) else str(getattr(item, rule.key))
