"""The one merge: puts together the fields that several plugins set, and keeps which plugin owns each of them.

The values are opaque here, so the documents of v0.1 plugins (``nri.adjust.changes``) and the messages of v2
plugins (``nri.adaptation.merging``) are merged alike. The rules are NRI's:

- A field, or an entry of a map or list, belongs to the plugin that has set it; if a plugin sets it again, this is a
  conflict, also for the owner itself.
- A plugin that removes an entry which an earlier plugin has set takes it over: it can set the entry, and no later
  plugin can. To remove an entry of the container claims nothing.
- The command line is taken over by an empty first word, and ``intelRdt`` as a whole by its removal. A namespace
  belongs also to the plugin that removes it.
- Hooks and device rules of all plugins are appended.

Source: pkg/adaptation/result.go and pkg/api/owners.go of containerd/nri.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any

    Entries = Iterable[tuple[str, Any]]

VALUE = "value"
COMMAND = "command"
ADDED = "added"
"""Kinds of fields: set as a whole; the command line; a list to which each plugin appends."""

MAP, LIST, CLAIMED = BY_ENTRIES = "map", "list", "claimed"
"""Kinds of fields by entries: a map; a list whose elements have a key; such a list where removing claims, too."""

REMOVAL = "removal"
"""The kind of a flag that removes the object around it."""


class Conflict(Exception):  # noqa: N818 - the callers' errors say for whom it is one
    """A plugin sets what it cannot set.

    :ivar name: the field.
    :ivar entry: the entry; "" for a field that is set as a whole.
    :ivar owner: the plugin that owns it, with a minus in front if it has removed it.
    """

    def __init__(self, name: str, entry: str, owner: str) -> None:
        super().__init__(name, entry, owner)
        self.name = name
        self.entry = entry
        self.owner = owner


class Merge:
    """The fields of one container, as the plugins of one event have set them.

    :param names: the names of all fields: paths with dots.
    :param inert: maps in which a removal alone leaves what an earlier plugin has set, as in NRI.
    :ivar owners: a plugin by field and entry, with a minus in front if it has removed it.
    :ivar values: by field. A field by entries has a dictionary; a removed entry has a minus in front, and None.
    """

    def __init__(self, names: Collection[str], inert: Collection[str] = ()) -> None:
        self._names = names
        self._inert = inert
        self.owners: dict[tuple[str, str], str] = {}
        self.values: dict[str, Any] = {}

    def copy(self) -> Merge:
        """Return a copy, which changes apart from this one."""
        copied = Merge(self._names, self._inert)
        copied.owners, copied.values = dict(self.owners), dict(self.values)
        return copied

    def add(self, name: str, kind: str, value: Any, plugin: str) -> None:
        """Add what *plugin* sets in a field.

        :param value: for a field by entries: pairs of an entry and its value, which is None for a removal.
        :raises Conflict: it cannot set a part of it; what comes before that part may belong to it.
        """
        if kind in BY_ENTRIES:
            self._add_entries(name, kind, list(value), plugin)
        elif kind == ADDED:
            self.values[name] = [*self.values.get(name, ()), *value]
        elif kind == REMOVAL:
            if value:
                self._remove_around(name, plugin)
        else:
            # The empty word stays: the runtime has other plugins, whose command line it is to drop, too.
            if kind == COMMAND and value[0] == "":
                self.owners[name, ""] = f"-{plugin}"
            self._claim(name, "", plugin)
            self.values[name] = value

    def check(self, name: str, entry: str, plugin: str) -> None:
        """Do nothing if *plugin* can set an entry, or a field with the entry "".

        :raises Conflict: it cannot.
        """
        owner = self.owners.get((name, entry))
        if owner is not None and owner != f"-{plugin}":
            raise Conflict(name, entry, owner)

    def _claim(self, name: str, entry: str, plugin: str) -> None:
        self.check(name, entry, plugin)
        self.owners[name, entry] = plugin

    def _remove_around(self, name: str, plugin: str) -> None:
        prefix = name[: name.rindex(".") + 1]
        for other in [other for other in self._names if other.startswith(prefix)]:
            self.owners[other, ""] = f"-{plugin}"
            self.values.pop(other, None)
        self.values[name] = True

    def _claim_all(self, name: str, entries: list[tuple[str, Any]], plugin: str) -> dict[str, Any]:
        """Return entries whose removal is a claim, too, as they are merged."""
        claimed = {}
        for entry, item in entries:
            self._claim(name, entry, plugin)
            claimed[entry if item is not None else f"-{entry}"] = item
        return claimed

    def _add_entries(
        self, name: str, kind: str, entries: list[tuple[str, Any]], plugin: str
    ) -> None:
        merged = dict(self.values.get(name, ()))
        if kind == CLAIMED:
            self.values[name] = merged | self._claim_all(name, entries, plugin)
            return
        is_set = {entry for entry, item in entries if item is not None}
        removed = [entry for entry, item in entries if item is None]
        for entry in removed:
            is_replaced = kind == MAP and entry in is_set
            is_undone = entry in merged and name not in self._inert
            if is_replaced or is_undone:
                self.owners[name, entry] = f"-{plugin}"
                merged.pop(entry, None)
        for entry, item in entries:
            if item is not None:
                self._claim(name, entry, plugin)
                merged[entry] = item
        for entry in removed:
            if kind == MAP or entry not in is_set:
                merged[f"-{entry}"] = None
        self.values[name] = merged
