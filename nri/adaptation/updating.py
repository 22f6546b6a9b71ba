"""Merges the plugins' updates of containers that exist.

Some of what NRI does is surprising, and done here likewise:

- The update of the container that is being updated begins with all resources that the runtime's client asks for. It
  is the last one of the list.
- An update whose failure is to be ignored changes nothing when it fails. But what it claimed before that stays
  claimed, and the first update of a container is in the list, without resources.
- Limits of huge pages are appended to those of the request, also for the same page size.
- A plugin's limit of processes and its device rules are ignored. Where the client asks for a limit of processes,
  every update of the container by a plugin claims it, so that a second one is a conflict.

Source: ``update``, ``updateResources`` and ``getContainerUpdate`` in pkg/adaptation/result.go of containerd/nri.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy

from nri.adaptation.errors import ConflictError, EventError
from nri.adaptation.fields import LIST, MAP, RESOURCES, get, put, put_key, reach
from nri.adaptation.owners import Owners
from nri.v2 import api

_MERGED = {path: rule for path, rule in RESOURCES.items() if path != "devices"}


class UpdateMerger:
    """Merges updates.

    :param created: the id of the container that is being created, which plugins can't update.
    :param updated: the id of the container that is being updated.
    :param resources: what the runtime's client asks for; changed, so that it is what the next plugin is to see.
    """

    def __init__(
        self, event: str, owners: Owners, resources: api.LinuxResources, *, created: str | None, updated: str | None
    ) -> None:
        self._event, self._owners, self._resources = event, owners, resources
        self._created, self._updated = created, updated
        self._updates: dict[str, api.ContainerUpdate] = {}
        for message in (resources.memory, resources.cpu):  # which NRI sends even if they are empty
            message.SetInParent()

    @property
    def own(self) -> api.ContainerUpdate | None:
        """The update of the container that is being updated, if a plugin asked for one."""
        return None if self._updated is None else self._updates.get(self._updated)

    @property
    def updates(self) -> list[api.ContainerUpdate]:
        """All updates, in the order of the first update of each container; :attr:`own` is the last one."""
        others = [update for id_, update in self._updates.items() if id_ != self._updated]
        return others if self.own is None else [*others, self.own]

    def add(self, updates: Iterable[api.ContainerUpdate], plugin: str) -> None:
        """Add a plugin's updates.

        :raises ConflictError: when a part of one is owned, unless its failure is to be ignored.
        :raises EventError: for an update of the container that is being created.
        """
        for update in updates:
            merged = self._find(update, plugin)
            try:
                self._merge(merged, update, plugin)
            except ConflictError:
                if not update.ignore_failure:
                    raise

    def _find(self, update: api.ContainerUpdate, plugin: str) -> api.ContainerUpdate:
        """Return the merged update of a container, which is added if it is the first one."""
        id_ = update.container_id
        if id_ == self._created:
            text = f'plugin "{plugin}" asked update of "{id_}" during creation'
            raise EventError(self._event, plugin, text, text)
        if (merged := self._updates.get(id_)) is not None:
            merged.ignore_failure = merged.ignore_failure and update.ignore_failure
            return merged
        merged = self._updates[id_] = api.ContainerUpdate(container_id=id_, ignore_failure=update.ignore_failure)
        merged.linux.resources.memory.SetInParent()
        merged.linux.resources.cpu.SetInParent()
        return merged

    def _merge(self, merged: api.ContainerUpdate, update: api.ContainerUpdate, plugin: str) -> None:
        if not update.linux.HasField("resources"):
            return
        is_own = update.container_id == self._updated
        resources = deepcopy(self._resources if is_own else merged.linux.resources)
        for path, rule in _MERGED.items():
            value = get(resources if path == "pids" else update.linux.resources, path)
            if value is None:
                continue
            if rule.kind == MAP:
                for key in sorted(value):  # Go's order is random
                    self._owners.claim_entry(update.container_id, rule.owner, key, plugin)
                    put_key(reach(resources, path), key, value[key])
            elif rule.kind == LIST:
                for item in value:
                    self._owners.claim_entry(update.container_id, rule.owner, getattr(item, rule.key), plugin)
                    reach(resources, path).append(item)
            else:
                self._owners.claim(update.container_id, rule.owner, plugin)
                put(resources, path, value)
        merged.linux.resources.CopyFrom(resources)
        if is_own:
            self._resources.CopyFrom(resources)
