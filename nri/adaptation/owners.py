"""The owners of what plugins have asked for: two plugins that set the same thing are in conflict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri import api
from nri.adaptation.errors import ConflictError
from nri.adaptation.fields import ADDED, FIELDS, VALUE, by_key, split_keys, walk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from google.protobuf.message import Message


class Owners:
    """The plugin that owns each field and entry of each container, within one event.

    :param event: its name.
    :ivar message: the owners, as ValidateContainerAdjustment carries them.
    """

    def __init__(self, event: str) -> None:
        self._event = event
        self.message = api.OwningPlugins()

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
