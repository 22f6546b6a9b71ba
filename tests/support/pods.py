"""A pod and its container, as a v2 runtime describes them, and whole lives of such pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nri.adaptation import lifecycle
from nri.authoring.simulated import described
from nri.cgroups.resolve import MAX_PID
from nri.testing import Pod
from nri.v2 import api

if TYPE_CHECKING:
    from collections.abc import Iterator

# No process of this machine has one of these pids.
POD: dict[str, Any] = {
    "id": "6efd",
    "name": "web",
    "namespace": "default",
    "pid": MAX_PID + 11,
    "labels": {"app": "web"},
    "annotations": {"qos.class": "ls"},
    "linux": {
        "cgroups_path": "/kubepods/6efd",
        "namespaces": [{"type": "network", "path": f"/proc/{MAX_PID + 11}/ns/net"}],
    },
}
CONTAINER: dict[str, Any] = {
    "id": "1f92",
    "pod_sandbox_id": "6efd",
    "name": "app",
    "pid": MAX_PID + 12,
    "linux": {"cgroups_path": "/kubepods/1f92", "resources": {"cpu": {"shares": {"value": 512}}}},
}


def pod(**changes: Any) -> api.PodSandbox:
    return api.PodSandbox(**{**POD, **changes})


def container(**changes: Any) -> api.Container:
    return api.Container(**{**CONTAINER, **changes})


def lives(pods: int = 1, containers: int = 1, **about: Any) -> Iterator[lifecycle.LifecycleEvent]:
    """The events of pods' lives, as `nri simulate` sends them."""
    made = [Pod(f"web-{number}", **about) for number in range(pods)]
    for each in made:
        for number in range(containers):
            each.container(f"app-{number}")
    return lifecycle.lives([described(each) for each in made])
