"""Marks the executables of a build, as :mod:`nri.build_mark` describes."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from nri import build_mark

if TYPE_CHECKING:
    from collections.abc import Mapping


def mark_build(folder: str, modules: Mapping[str, str]) -> None:
    """Append the mark to each executable of a build. Equal executables get equal marks.

    :param folder: where the executables are.
    :param modules: the module that each runs, by its name.
    """
    digest = hashlib.sha256()
    for name in sorted(modules):
        with open(os.path.join(folder, name), "rb") as file:
            digest.update(f"{name}\n".encode() + hashlib.sha256(file.read()).digest())
    build = digest.hexdigest()[:32]
    for name, module in modules.items():
        with open(os.path.join(folder, name), "ab") as file:
            file.write(build_mark.encode(build, module))
