"""Look up a pod's annotation for one of its containers."""

from __future__ import annotations

from nri.scopes import suffixes
from nri.v2.api.container_pb2 import Container, PodSandbox

__all__ = ["scoped"]


def scoped(pod: PodSandbox, key: str, container: Container | None = None) -> tuple[str, str] | None:
    """Return the value of ``key`` in the pod's annotations for ``container``; for the pod itself without one.

    ``KEY/container.NAME`` overrides ``KEY/pod``, which overrides ``KEY`` alone. The container's own annotations are
    not looked at, as in NRI's ``GetEffectiveAnnotation``.

    :returns: the key as it was found, with its scope, and its value; None if no such key exists.
    """
    name = container.name if container is not None and container.name else None
    for scope in [key + suffix for suffix in suffixes(name)]:
        if scope in pod.annotations:
            return scope, pod.annotations[scope]
    return None
