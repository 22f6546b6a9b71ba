"""Devices of the Container Device Interface (CDI), for runtimes that do not resolve them.

A device ``VENDOR/CLASS=NAME`` stands for edits of a container, which a specification in ``/etc/cdi`` or
``/var/run/cdi`` has. A device of a later directory replaces the one of an earlier directory. Import this module only
where a device is asked for: few containers have one.
"""

from __future__ import annotations

from nri.adjust.cdi_edits import adjust_of
from nri.adjust.cdi_files import Directories
from nri.adjust.errors import AdjustError
from nri.errors import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from nri.adjust.cdi_edits import Edits
    from nri.adjust.cdi_files import Specification

DIRECTORIES = ("/etc/cdi", "/var/run/cdi")
"""The directories that runtimes use unless their configuration has others; the later one wins."""

MAX_LISTED = 10
"""Devices or files that an error lists at most."""


class CDI:
    """Resolves CDI devices. The files are read anew each time.

    :param dirs: the directories of the specifications, from the lowest priority to the highest.
    :param check_owner: whether files that others can change are refused (:mod:`nri.trust`).
    """

    def __init__(self, dirs: Sequence[str] = DIRECTORIES, check_owner: bool = True) -> None:
        self.dirs, self.check_owner = tuple(dirs), check_owner

    def resolve(self, names: list[str], config: dict[str, Any]) -> dict[str, Any]:
        """Return the ``adjust`` that some devices stand for; a :data:`nri.adjust.abilities.Resolve`.

        :param names: the devices' full names. The edits of a whole specification are made once.
        :param config: the container's OCI configuration, which is not changed.
        :raises AdjustError: a device is not found, is in two files of one directory, or needs a node that is missing.
        :raises DecodeError: a part of *config* has a wrong type.
        """
        files = Directories(self.dirs, check_owner=self.check_owner)
        edits: list[Edits] = []
        begun = set()
        for name in dict.fromkeys(names):
            kind, _, device = name.partition("=")
            specification = self._find(kind, device, files)
            path = escape(specification.path)
            if path not in begun:
                begun.add(path)
                edits.append((path, specification.edits))
            edits.append((f"{path}: the device {device}", specification.devices[device]))
        return adjust_of(edits, config)

    def _find(self, kind: str, device: str, files: Directories) -> Specification:
        for specifications in reversed(files.specifications):
            found = [each for each in specifications if each.kind == kind and device in each.devices]
            if len(found) > 1:
                paths = " and ".join([escape(each.path) for each in found])
                raise AdjustError(f"the CDI device {_shown(kind, device)} is in {paths}; expected it in one of them")
            if found:
                return found[0]
        raise AdjustError(self._not_found(kind, device, files))

    def _not_found(self, kind: str, device: str, files: Directories) -> str:
        known = {
            name: None
            for specifications in files.specifications
            for each in specifications
            if each.kind == kind
            for name in each.devices
        }
        reasons = [
            f"the CDI device {_shown(kind, device)} is not in {' or '.join(map(escape, self.dirs))}",
            f"known of {escape(kind)}: {_listed(known, ', ') if known else 'no device'}",
        ]
        if files.broken:
            reasons.append(f"files that cannot be used: {_listed(files.broken, '; ')}")
        return "; ".join(reasons)


def _shown(kind: str, device: str) -> str:
    return escape(f"{kind}={device}")


def _listed(items: Iterable[str], separator: str) -> str:
    every = [*items]
    more = f"{separator}and {len(every) - MAX_LISTED} more" if len(every) > MAX_LISTED else ""
    return separator.join(every[:MAX_LISTED]) + more
