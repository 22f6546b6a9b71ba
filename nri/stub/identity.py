"""Who a plugin is: a name, and an index that says where in the order of plugins it stands.

A runtime launches executables named ``NN-name`` and tells them their name and index in the environment; a plugin that
connects from outside says so itself. Source: pkg/api/plugin.go of containerd/nri.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nri.errors import NRIError

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME_VARIABLE, INDEX_VARIABLE, SOCKET_VARIABLE = "NRI_PLUGIN_NAME", "NRI_PLUGIN_IDX", "NRI_PLUGIN_SOCKET"
"""What a runtime sets for a plugin that it launches, and all that it sets."""

_NAME = re.compile(r"[A-Za-z0-9_.+-]+")
_INDEX = re.compile(r"[0-9]{2}")
_EXECUTABLE = re.compile(r"([0-9]{2})-(.+)")


class IdentityError(NRIError):
    """A plugin's name or index is missing, or is not what a runtime accepts."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A plugin's name and index."""

    name: str
    index: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise IdentityError(f"found the plugin name {self.name!r}, expected letters, digits and _ . + -")
        if not _INDEX.fullmatch(self.index):
            raise IdentityError(f"found the plugin index {self.index!r}, expected two digits, as in 10")

    def __str__(self) -> str:
        return f"{self.index}-{self.name}"

    @classmethod
    def find(cls, environment: Mapping[str, str], executable: str, *, name: str = "", index: str = "") -> Identity:
        """The identity of this process: of the environment; else as given; else of its executable's ``NN-name``.

        A runtime knows the plugins that it launches by the names that it gave them, so these go first.

        :raises IdentityError: when that leaves name or index unknown, or they can't be.
        """
        match = _EXECUTABLE.fullmatch(os.path.basename(executable))
        of_file = (match[2], match[1]) if match else ("", "")
        name = environment.get(NAME_VARIABLE) or name or of_file[0]
        index = environment.get(INDEX_VARIABLE) or index or of_file[1]
        if not name or not index:
            missing = " and ".join([what for what, value in (("name", name), ("index", index)) if not value])
            raise IdentityError(
                f"the plugin's {missing} is not known: neither given, nor in {NAME_VARIABLE} and {INDEX_VARIABLE}, "
                f"nor told by the executable {os.path.basename(executable)!r}; expected one like 10-name"
            )
        return cls(name=name, index=index)
