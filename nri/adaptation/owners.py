"""The record of the plugins that own fields and entries of containers, within one event.

A plugin claims what it sets. It clears what it removes: the record then has its name with a minus in front. Only the
plugin that cleared something can claim it afterwards; for every other plugin it is a conflict, as it is for the owner
itself, which cannot claim a thing twice.

Source: pkg/api/owners.go of containerd/nri.
"""

from __future__ import annotations

from nri.adaptation.errors import ConflictError
from nri.adaptation.fields import FIELDS
from nri.v2 import api
from nri.v2.api.removal import mark, unmarked

_PATHS = {rule.owner: path for path, rule in FIELDS.items()}
_RDT = (api.Field.RdtClosID, api.Field.RdtSchemata, api.Field.RdtEnableMonitoring)


class Owners:
    """The owners within the event of this name.

    :ivar message: the owners, as ValidateContainerAdjustment carries them.
    """

    def __init__(self, event: str) -> None:
        self._event = event
        self.message = api.OwningPlugins()

    def claim(self, container: str, field: int, plugin: str) -> None:
        """Make ``plugin`` the owner of a field that is set as a whole.

        :raises ConflictError: when it is owned, or was cleared by another plugin.
        """
        owners = self.message.owners[container].simple
        self._check(owners.get(field), field, "", plugin)
        owners[field] = plugin

    def claim_entry(self, container: str, field: int, key: str, plugin: str) -> None:
        """Make ``plugin`` the owner of an entry of a map or list.

        :raises ConflictError: when it is owned, or was cleared by another plugin.
        """
        owners = self.message.owners[container].compound[field].owners
        self._check(owners.get(key), field, key, plugin)
        owners[key] = plugin

    def join(self, container: str, field: int, plugin: str) -> None:
        """Add ``plugin`` to the owners of a field that plugins share, in one text with commas."""
        owners = self.message.owners[container].simple
        owners[field] = f"{owners[field]},{plugin}" if field in owners else plugin

    def clear(self, container: str, field: int, plugin: str) -> None:
        """Take a field from its owner, for ``plugin``."""
        self.message.owners[container].simple[field] = mark(plugin)

    def clear_entry(self, container: str, field: int, key: str, plugin: str) -> None:
        """Take an entry from its owner, for ``plugin``."""
        self.message.owners[container].compound[field].owners[key] = mark(plugin)

    def clear_rdt(self, container: str, plugin: str) -> None:
        """Take all RDT settings from their owners, for ``plugin``."""
        for field in _RDT:
            self.clear(container, field, plugin)

    def _check(self, owner: str | None, field: int, key: str, plugin: str) -> None:
        if owner is not None and owner != mark(plugin):
            first = unmarked(owner)
            words, path = f"{api.Field.Name(field)} {key}", f"{_PATHS[field]} {key}"
            raise ConflictError(self._event, words, path.rstrip(), first, plugin)
