"""Runtimes whose requests can be built, and what differs between them, as a table."""

from __future__ import annotations


class RequestProfile:
    """The requests of one runtime.

    :param recordings: the recorded requests that are filled in; ``.pod-create`` and so on is added.
    :param states: the states that a plugin gets for a container.
    :param pod_states: the states that it gets for the pod sandbox.
    :param unit: in front of an id in a cgroup's name: the middle of a systemd path, and part of a cgroupfs one.
    :param in_cgroupfs: in front of an id in a cgroup's name with the cgroupfs driver.
    :param annotated: which annotations of pod and container a container's request has: ``all``, or ``none``.
    :param parent: the cgroup above the container's without a kubelet: a path, and a slice.
    """

    __slots__ = ("annotated", "in_cgroupfs", "parent", "pod_states", "recordings", "states", "unit")

    def __init__(
        self,
        recordings: str,
        *,
        states: tuple[str, ...],
        pod_states: tuple[str, ...] = (),
        unit: str = "cri-containerd",
        in_cgroupfs: str = "",
        annotated: str = "all",
        parent: tuple[str, str] = ("/kubepods", "system.slice"),
    ) -> None:
        self.recordings, self.states, self.pod_states = recordings, states, pod_states
        self.unit, self.in_cgroupfs, self.annotated, self.parent = unit, in_cgroupfs, annotated, parent

    @property
    def has_pods(self) -> bool:
        """Whether the runtime has pod sandboxes, and a kubelet may be above it."""
        return bool(self.pod_states)


_ENDS = ("create", "delete")
_BRIDGE = ("setup", "create", "resize", "update", "delete")

PROFILES = {
    "containerd-1.6": RequestProfile(
        "containerd-1.6.20-native", states=_ENDS, pod_states=_ENDS, annotated="none"
    ),  # containerd does not copy a pod's annotations, unless its option pod_annotations says so
    "containerd-1.7": RequestProfile("bridge/containerd-1.7.24", states=_BRIDGE, pod_states=_ENDS),
    "containerd-2.1": RequestProfile("bridge/containerd-2.1.9", states=_BRIDGE, pod_states=_ENDS),
    # Not recorded, but seen: docs/limits.md. The parts that CRI-O lacks are left out of containerd's.
    "cri-o-1.36": RequestProfile(
        "bridge/containerd-1.7.24", states=_BRIDGE, pod_states=_ENDS, unit="crio", in_cgroupfs="crio-"
    ),
    "podman": RequestProfile(
        "hook/podman", states=_ENDS, unit="libpod", in_cgroupfs="libpod-", parent=("/machine", "machine.slice")
    ),
    "runc": RequestProfile("hook/runc", states=_ENDS),
    "crun": RequestProfile("hook/runc", states=_ENDS),
}
"""The runtimes by name: containerd 1.6 runs plugins itself, then comes the bridge, and at last ``nri hook``."""

KUBERNETES = "kubernetes/v1-cgroupfs-create"
"""The recordings whose annotations and labels a kubelet has added; ``-sandbox-burst-ls`` and so on is added."""

SAMPLE_ANNOTATIONS = frozenset({"qos.class"})
"""Annotations in the recordings that the pod's author wrote."""

SAMPLE_LABELS = frozenset({"app", "tier", "set"})
"""Labels in the recordings that the pod's author wrote."""


def profile(runtime: str) -> RequestProfile:
    """Return the profile of a runtime; raise ValueError for an unknown one."""
    if runtime not in PROFILES:
        raise ValueError(f"runtime {runtime!r} is not known here: expected one of {', '.join(PROFILES)}")
    return PROFILES[runtime]
