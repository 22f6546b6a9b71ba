"""The known pods: facts about a pod that later events omit.

containerd 1.7 sends StopPodSandbox without the pod's pid, cgroup and namespaces, and without half of its annotations.
RunPodSandbox had them all, or the synchronization after a restart.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from nri.api import PodSandbox

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nri.api import LinuxPodSandbox

MAX_PODS = 20_000
"""Pods that are remembered; beyond that the oldest one is forgotten. A node has some hundreds."""


class Pods:
    """The pods of a node, by id."""

    def __init__(self) -> None:
        self._pods: dict[str, PodSandbox] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._pods)

    def replace(self, pods: Iterable[PodSandbox]) -> None:
        """Remember these pods only: a runtime synchronizes with all pods that exist."""
        with self._lock:
            self._pods.clear()
        for pod in pods:
            self.remember(pod)

    def remember(self, pod: PodSandbox) -> None:
        """Remember the facts in ``pod``."""
        kept = PodSandbox(id=pod.id, pid=pod.pid, annotations=pod.annotations)
        if pod.HasField("linux"):
            kept.linux.CopyFrom(pod.linux)
        with self._lock:
            self._pods[pod.id] = kept
            while len(self._pods) > MAX_PODS:
                del self._pods[next(iter(self._pods))]

    def forget(self, pod: PodSandbox) -> None:
        """Forget a pod that was removed."""
        with self._lock:
            self._pods.pop(pod.id, None)

    def complete(self, pod: PodSandbox) -> PodSandbox:
        """Return ``pod``, with what it omits filled in from memory."""
        with self._lock:
            known = self._pods.get(pod.id)
        if known is None:
            return pod
        whole = PodSandbox()
        whole.CopyFrom(pod)
        whole.pid = pod.pid or known.pid
        if known.HasField("linux"):
            _fill(whole.linux, known.linux)
        for key, value in known.annotations.items():
            if key not in pod.annotations:
                whole.annotations[key] = value
        return whole


def _fill(linux: LinuxPodSandbox, known: LinuxPodSandbox) -> None:
    linux.cgroups_path = linux.cgroups_path or known.cgroups_path
    linux.cgroup_parent = linux.cgroup_parent or known.cgroup_parent
    if not linux.namespaces:
        linux.namespaces.extend(known.namespaces)
    if not linux.HasField("resources") and known.HasField("resources"):
        linux.resources.CopyFrom(known.resources)
