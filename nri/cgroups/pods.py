"""The names that the kubelet gives to the cgroups of pods.

Source: the kubelet's ``pkg/kubelet/cm``: ``GetPodContainerName`` and ``podCgroupNamePrefix`` ("pod") in
``pod_container_manager_linux.go``; ``defaultNodeAllocatableCgroupName`` ("kubepods") in
``node_container_manager_linux.go``; ``ToSystemd`` with ``escapeSystemdCgroupName`` ("_" for "-") in
``cgroup_manager_linux.go``. A guaranteed pod is directly below ``kubepods``, any other below its class,
and all of them below the kubelet's ``--cgroup-root``, if it has one (kind sets ``/kubelet``).
"""

from __future__ import annotations

_ROOT = "kubepods"
_CLASSES = ("burstable", "besteffort")
_UID_SIGNS = "_.-"


def is_pod(path: str) -> bool:
    """Return whether a cgroup's path in its hierarchy names a pod's own cgroup.

    cgroupfs driver: ``…/kubepods[/burstable|/besteffort]/podUID``; systemd driver:
    ``…kubepods[-burstable|-besteffort]-podUID.slice``. False for ``kubepods`` itself and for the classes.
    """
    *parents, name = path.split("/")
    if name.endswith(".slice"):
        head, found, uid = name.removesuffix(".slice").rpartition("-pod")
        return bool(found) and _is_uid(uid) and _is_parent(head.split("-"))
    return name.startswith("pod") and _is_uid(name.removeprefix("pod")) and _is_parent(parents)


def _is_parent(parents: list[str]) -> bool:
    if parents[-1] in _CLASSES:
        parents = parents[:-1]
    return parents[-1:] == [_ROOT]


def _is_uid(text: str) -> bool:
    # A UUID, or 32 hexadecimal digits for a static pod, or the value in a static pod's manifest.
    return bool(text) and text.isascii() and all(sign.isalnum() or sign in _UID_SIGNS for sign in text)
