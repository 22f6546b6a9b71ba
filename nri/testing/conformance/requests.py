"""Requests that are harmless to the node: about a container that does not exist, without a process."""

from __future__ import annotations

import json
from typing import Any

from nri.types.v1 import EXTENSIONS, VERSION, State

CHANGEABLE: dict[str, Any] = {
    "process": {"args": ["sh"], "cwd": "/", "env": ["PATH=/bin"]},
    "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
    "hooks": {},
    "linux": {"devices": []},
}
"""What ``spec`` of a ``setup`` has beside the rest: all that a plugin can change."""


def request(state: str, container: str, conf: Any = None) -> dict[str, Any]:
    """Return a request as a host writes it. No cgroup has its ``cgroupsPath``, and it has no pid.

    :param container: the id.
    """
    spec: dict[str, Any] = {
        "resources": {"cpu": {"shares": 512, "quota": 50000, "period": 100000}, "memory": {"limit": 268435456}},
        "namespaces": {"pid": "", "mount": "", "network": "/proc/1200/ns/net"},
        "cgroupsPath": f"/nri-conformance/{container}",
        "annotations": {"io.kubernetes.cri.container-type": "container", "io.kubernetes.cri.container-name": "web"},
    }
    value: dict[str, Any] = {} if conf is None else {"conf": conf}
    value |= {"version": VERSION, "state": str(state), "id": container, "sandboxID": f"{container}-pod"}
    value |= {"spec": spec, "labels": {"app": "web", "io.kubernetes.pod.namespace": "nri-conformance"}}
    if state == State.SETUP:
        spec.update(CHANGEABLE)
    if state in (State.SETUP, State.RESIZE):
        value["extensions"] = dict(EXTENSIONS)
    return value


def encode(value: object) -> bytes:
    """Return the JSON of a request, in ASCII and compact, as a host of this project writes it."""
    return json.dumps(value, separators=(",", ":")).encode()
