"""A plugin's identity: its name, and an index that is its place in the order of plugins.

A runtime launches executables named ``NN-name`` and passes name and index in the environment; a plugin that connects
from outside chooses them itself. Source: pkg/api/plugin.go of containerd/nri.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nri.api import names
from nri.api.names import INDEX_VARIABLE, NAME_VARIABLE
from nri.errors import NRIError

if TYPE_CHECKING:
    from collections.abc import Mapping


class IdentityError(NRIError):
    """A plugin's name or index is missing, or a runtime does not accept it."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A plugin's name and index."""

    name: str
    index: str

    def __post_init__(self) -> None:
        if fault := names.find_fault(self.name, self.index):
            raise IdentityError(fault)

    def __str__(self) -> str:
        return f"{self.index}-{self.name}"

    @classmethod
    def find(cls, environment: Mapping[str, str], executable: str, *, name: str = "", index: str = "") -> Identity:
        """Return the identity from the environment; else from the arguments; else from the executable's ``NN-name``.

        The environment goes first: a runtime knows the plugins that it launches by the names that it gave them.

        :raises IdentityError: when that leaves the name or index unknown, or a runtime does not accept it.
        """
        file_index, file_name = names.split_executable(os.path.basename(executable)) or ("", "")
        name = environment.get(NAME_VARIABLE) or name or file_name
        index = environment.get(INDEX_VARIABLE) or index or file_index
        if not name or not index:
            missing = " and ".join([what for what, value in (("name", name), ("index", index)) if not value])
            raise IdentityError(
                f"the plugin's {missing} is not known: neither given, nor in {NAME_VARIABLE} and {INDEX_VARIABLE}, "
                f"nor told by the executable {os.path.basename(executable)!r}; expected one like 10-name"
            )
        return cls(name=name, index=index)
