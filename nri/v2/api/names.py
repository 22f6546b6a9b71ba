"""Names and indices of v2 plugins, and the environment that carries them. An executable is called ``NN-name``.

Source: pkg/api/plugin.go of containerd/nri.
"""

from __future__ import annotations

import re

NAME_VARIABLE = "NRI_PLUGIN_NAME"
INDEX_VARIABLE = "NRI_PLUGIN_IDX"
SOCKET_VARIABLE = "NRI_PLUGIN_SOCKET"
"""The whole environment of a plugin that a runtime launches."""

_NAME = re.compile(r"[A-Za-z0-9_.+-]+")
_INDEX = re.compile(r"[0-9]{2}")
_EXECUTABLE = re.compile(r"([0-9]{2})-(.+)")


def find_fault(name: str, index: str) -> str:
    """Return an error text when a runtime does not accept a plugin's name or index; otherwise ""."""
    if not _NAME.fullmatch(name):
        return f"found the plugin name {name!r}, expected letters, digits and _ . + -"
    if not _INDEX.fullmatch(index):
        return f"found the plugin index {index!r}, expected two digits, as in 10"
    return ""


def split_executable(file: str) -> tuple[str, str]:
    """Return the index and name of the executable ``NN-name``, "" for another; only the index is checked."""
    match = _EXECUTABLE.fullmatch(file)
    return (match[1], match[2]) if match else ("", "")
