"""Requests that real runtimes made, as files in ``recorded/``; the builders of :mod:`nri.testing.pods` fill them in.

| files | who sent them |
| --- | --- |
| ``containerd-1.6.20-native.*``, ``containerd-2.1.9-native.*`` | containerd, which runs v0.1 plugins itself |
| ``bridge/*`` | the bridge on containerd, under crictl |
| ``kubernetes/*`` | the bridge on containerd 1.7 under Kubernetes 1.34: v1 with cgroupfs, v2 with systemd |
| ``hook/*`` | ``nri hook`` under podman, and under runc with the config.json of ``runc spec``; crun's are equal |
| ``*-adapter.*`` | Go's v010-adapter on containerd, which the bridge takes the place of |

Names of hosts, images and test directories are replaced.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from typing import Any

from nri.types import gojson

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded")
"""The directory of the recordings."""


def recordings(pattern: str = "*") -> list[str]:
    """Return the names of the recordings that match a shell pattern, sorted.

    :param pattern: for the name below the folder, without ``.json``; ``*`` matches no slash.
    """
    folder, _, last = pattern.rpartition("/")
    names = [
        name.removesuffix(".json") for name in os.listdir(os.path.join(FOLDER, folder)) if name.endswith(".json")
    ]
    return sorted(f"{folder}/{name}".lstrip("/") for name in names if fnmatchcase(name, last))


def recorded(name: str) -> dict[str, Any]:
    """Return a recorded request as decoded JSON, a new object at each call.

    :param name: as :func:`recordings` returns it, such as ``kubernetes/v2-systemd-create-container-burst-ls``.
    """
    value: dict[str, Any] = gojson.loads(text_of(name))  # type: ignore[assignment] # each file has an object
    return value


def text_of(name: str) -> str:
    """Return the text of a recording."""
    with open(os.path.join(FOLDER, f"{name}.json"), encoding="utf-8") as file:
        return file.read()
