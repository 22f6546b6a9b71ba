"""The owner of each thing that plugins of one chain set: two of them cannot set the same.

The rules are those of NRI (``FieldOwners`` in pkg/api/owners.go of containerd/nri):

- what a plugin has set belongs to it, and another plugin that sets it is refused;
- a plugin that removes what another one has set may set it then, and no third one may;
- what is not set belongs to nobody, so removing something of the container alone claims nothing;
- a namespace, the command line and ``intelRdt`` are claimed also by the plugin that removes them.
"""

from __future__ import annotations

from nri.adjust.errors import AdjustError
from nri.adjust.fields import ADDED, FIELDS, LIST, MAP, REMOVAL, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from nri.adjust.fields import AdjustField

    Thing = tuple[str, ...]


class Claims:
    """The claims within one chain, by thing: a field's name, and the name of an entry."""

    def __init__(self, claims: dict[Thing, tuple[str, bool]] | None = None) -> None:
        self._claims = claims or {}  # a plugin, and whether it has only removed the thing

    def copy(self) -> Claims:
        """Return a copy, which claims apart from this one."""
        return Claims(dict(self._claims))

    def claim(self, document: dict[str, Any], plugin: str, where: str) -> None:
        """Make *plugin* the owner of all that *document* sets. After an error some of it may be claimed.

        :param document: an ``adjust``, or ``{"linux": {"resources": …}}`` of an update.
        :param where: begins the name of a thing in errors: ``adjust``, or an update's place.
        :raises AdjustError: another plugin owns a part.
        """
        for thing in _removed(document):
            if thing in self._claims:
                self._claims[thing] = (plugin, True)
        for thing in _claimed_by_removal(document):
            self._claims[thing] = (plugin, True)
        for thing in _set(document):
            self.check(thing, plugin, " ".join([f"{where}.{thing[0]}", *thing[1:]]))
            self._claims[thing] = (plugin, False)

    def check(self, thing: Thing, plugin: str, what: str) -> None:
        """Do nothing if *plugin* may set a thing.

        :param what: the thing in errors.
        :raises AdjustError: another plugin owns it.
        """
        owner = self._claims.get(thing)
        if owner is not None and owner != (plugin, True):
            done = "removed" if owner[1] else "set"
            raise AdjustError(f"{what}: already {done} by the plugin {owner[0]}; expected one plugin alone to set it")


def _set(document: dict[str, Any]) -> Iterator[Thing]:
    for field, value in walk(document):
        if field.kind in (ADDED, REMOVAL):
            continue
        if field.kind == MAP:
            yield from [(field.name, key) for key, item in value.items() if item is not None]
        elif field.kind == LIST:
            yield from [(field.name, name_of(item, field)) for item in value if _claims(item, field)]
        else:
            yield (field.name,)


def _removed(document: dict[str, Any]) -> Iterator[Thing]:
    for field, value in walk(document):
        if field.kind == MAP:
            yield from [(field.name, key.removeprefix("-")) for key, item in value.items() if item is None]
        elif field.kind == LIST and field.name != "linux.namespaces":
            yield from [(field.name, name_of(item, field)) for item in value if is_removal(item)]
        elif field.name == "args" and value[:1] == [""]:
            yield (field.name,)


def _claimed_by_removal(document: dict[str, Any]) -> Iterator[Thing]:
    for field, value in walk(document):
        if field.kind == REMOVAL and value:
            yield from [(each.name,) for each in FIELDS if each.path[:-1] == field.path[:-1]]


def is_removal(item: object) -> bool:
    """Return whether an element of a list removes something."""
    return isinstance(item, dict) and bool(item.get("remove"))


def name_of(item: Any, field: AdjustField) -> str:
    """Return the name of an element of a list."""
    return str(item[field.key] if field.key else item)


def _claims(item: object, field: AdjustField) -> bool:
    return field.name == "linux.namespaces" or not is_removal(item)
