"""The plugin conf in the sample entry beside a plugin's source, as ``nri new`` makes one."""

from __future__ import annotations

import os
from typing import Any

from nri import config

MAX_FILE = 1024 * 1024
"""Bytes of a file that is read."""


def conf_beside(source: str, type_: str) -> tuple[Any, str]:
    """Return the conf of a plugin's entry in a ``*.conf`` beside its source, and the file; None and "" without one.

    A file that is no host configuration, and does not name the type, is somebody else's.

    :raises nri.config.ConfigError: a file that names the type is not valid.
    """
    folder = os.path.dirname(os.path.abspath(source))
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if not name.endswith(".conf") or not os.path.isfile(path) or not _names(path, type_):
            continue
        for entry in config.load(f"{folder}/none", path, check_owner=False).plugins:
            if entry.type == type_:
                return entry.conf, path
    return None, ""


def _names(path: str, type_: str) -> bool:
    try:
        with open(path, "rb") as file:
            return f'"{type_}"'.encode() in file.read(MAX_FILE)
    except OSError:
        return False
