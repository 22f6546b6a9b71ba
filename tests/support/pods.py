"""A pod and its container, as a v2 runtime describes them."""

from __future__ import annotations

from typing import Any

from nri.v2 import api

POD: dict[str, Any] = {
    "id": "6efd",
    "name": "web",
    "namespace": "default",
    "pid": 4711,
    "labels": {"app": "web"},
    "annotations": {"qos.class": "ls"},
    "linux": {"cgroups_path": "/kubepods/6efd", "namespaces": [{"type": "network", "path": "/proc/4711/ns/net"}]},
}
CONTAINER: dict[str, Any] = {
    "id": "1f92",
    "pod_sandbox_id": "6efd",
    "name": "app",
    "pid": 4712,
    "linux": {"cgroups_path": "/kubepods/1f92", "resources": {"cpu": {"shares": {"value": 512}}}},
}


def pod(**changes: Any) -> api.PodSandbox:
    return api.PodSandbox(**{**POD, **changes})


def container(**changes: Any) -> api.Container:
    return api.Container(**{**CONTAINER, **changes})
