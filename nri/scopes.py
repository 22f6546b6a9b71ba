"""The scopes of an annotation's key: one key for a pod or for one of its containers.

The convention is that of NRI's v2 plugins: ``KEY/container.NAME`` overrides ``KEY/pod``, which overrides ``KEY``
alone. v0.1 plugins look keys up with :func:`nri.skel.scoped`, v2 plugins with :func:`nri.v2.api.scoped`.

Source: ``GetEffectiveAnnotation`` in pkg/plugin/annotations.go of containerd/nri.
"""

from __future__ import annotations

SCOPES = ("container", "pod", "")
"""The scopes of a key, the most specific one first: ``KEY/container.NAME``, ``KEY/pod``, ``KEY``."""


def suffixes(container: str | None, scopes: tuple[str, ...] = SCOPES) -> list[str]:
    """Return what follows a key in each of ``scopes``, in their order.

    :param container: the container's name; None for a pod, or if it is not known: then that scope is left out.
    """
    found = {"container": None if container is None else f"/container.{container}", "pod": "/pod", "": ""}
    return [suffix for scope in scopes if (suffix := found[scope]) is not None]
