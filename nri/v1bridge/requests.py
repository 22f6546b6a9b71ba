"""From v2 events to v0.1 requests, as the Go adapter does it; and from what plugins ask for to answers.

containerd 1.7 sends StopPodSandbox without the pod's pid, cgroup and namespaces, and without half of its annotations.
RunPodSandbox had them all, or the synchronization after a restart. PostUpdatePodSandbox has the resources of the
pod's start, and the new ones are in UpdatePodSandbox.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Iterable, Mapping
from typing import Any

from nri.adjust import Changes, NRIAbilities
from nri.adjust.fields import AdjustField, Version, entries
from nri.cgroups.paths import expand
from nri.config.when import Facts
from nri.errors import NRIError, escape
from nri.process.children import stat_fields
from nri.types.gojson import shorten
from nri.types.v1 import Request, Spec, State
from nri.v2 import api
from nri.v2.api import Container, LinuxResources, PodSandbox, oci
from nri.v2.api.oci import container_to_oci, resources_of, resources_to_oci
from nri.v2.api.runtimes import APPLIES_ALONE, drops_cdi, nri_version
from nri.v2.stub import RuntimeInfo

MAX_PODS = 20_000
"""Pods that are remembered; beyond that the oldest one is forgotten. A node has some hundreds."""


class Subject:
    """A pod or container, as a runtime describes it.

    :param pod: with all that is known of it.
    :param container: None for the pod sandbox itself.
    :ivar life: tells it from an earlier one of its id; "" if nothing does.
    :ivar in_force: its resources as OCI has them, if the runtime's description has older ones; else None.
    """

    __slots__ = ("container", "id", "in_force", "life", "name", "pod")

    def __init__(self, pod: PodSandbox, container: Container | None = None) -> None:
        self.pod = pod
        self.container = container
        self.name = name_of(pod, container)
        self.id = self._about.id
        pid = self._about.pid
        self.in_force: Any = None
        created = 0 if container is None else container.created_at
        if created:
            self.life = f"created:{created}"
        elif pid:
            self.life = f"pid:{pid}/{start_time(pid)}"
        else:
            self.life = ""

    @property
    def _about(self) -> PodSandbox | Container:
        return self.pod if self.container is None else self.container

    def request(self, state: str) -> Request:
        """Return a request about it.

        The annotations of a container are the pod's, overridden by its own: containerd does not copy a pod's
        annotations to its containers, and annotations for containers are usually written at the pod.
        """
        pod = self.pod
        container = self.container
        about = self._about
        annotations = _plain(pod.annotations)
        sandbox = pod.id
        own: list[str] = []
        if container is not None:
            if annotations:  # else they are not known
                own = sorted([key for key in container.annotations if key not in annotations])
            annotations |= _plain(container.annotations)
            sandbox = container.pod_sandbox_id or sandbox
        spec = Spec(
            resources=self.oci_resources,
            namespaces={namespace.type: namespace.path for namespace in about.linux.namespaces},
            cgroups_path=about.linux.cgroups_path,
            annotations=annotations,
        )
        return Request(
            state=state,
            id=self.id,
            sandbox_id=sandbox,
            pid=about.pid,
            spec=spec,
            labels=_plain(pod.labels),
            own_annotations=own,
        )

    def facts(self, request: Request) -> Facts:
        """Return what is known of it for conditions; a pod of which a runtime says nothing has no name.

        :param request: one about it.
        """
        pod = self.pod
        is_sandbox = self.container is None
        facts = Facts(
            annotations=request.annotations, has_all_annotations=False, is_sandbox=is_sandbox
        )
        if pod.name or pod.namespace:
            facts.namespace = pod.namespace or None
            facts.labels = pod.labels
            facts.runtime_handler = pod.runtime_handler
            # Runtimes may leave out annotations at the end of a sandbox.
            is_ending = is_sandbox and request.state == State.DELETE
            facts.has_all_annotations = not is_ending or pod.HasField("linux")
        return facts

    @property
    def oci_resources(self) -> Any:
        """Its resources in force, as OCI has them."""
        if self.in_force is not None:
            return self.in_force
        return resources_to_oci(resources_of(self._about.linux))

    @property
    def resources(self) -> int:
        """A digest of its resources."""
        resources = resources_of(self._about.linux)
        if resources is not None:
            return crc32(resources.SerializeToString(deterministic=True))
        return 0


def start_time(pid: int) -> str:
    """Return when a process has started, in ticks after the boot; "" if it is not to be seen: proc_pid_stat(5)."""
    try:
        return stat_fields(pid)[19].decode()
    except (OSError, IndexError):
        return ""


def config_of(pod: PodSandbox, container: Container) -> dict[str, Any]:
    """Return what plugins can adjust, as an OCI configuration; the annotations are those of ``Subject.request``."""
    return container_to_oci(container, {**pod.annotations, **container.annotations})


def with_resources(pod: PodSandbox, resources: LinuxResources) -> PodSandbox:
    """Return a copy of a pod with other resources."""
    whole = PodSandbox()
    whole.CopyFrom(pod)
    whole.linux.resources.CopyFrom(resources)
    return whole


def name_of(pod: PodSandbox, container: Container | None = None) -> str:
    """Return ``NAMESPACE/POD[/CONTAINER]``, for the log."""
    name = f"{pod.namespace}/{pod.name}"
    if container is None:
        return name
    own = container.name
    if not own:
        from nri.skel.scopes import name_in_metadata

        own = name_in_metadata(container.annotations) or ""
    return f"{name}/{own}"


def _plain(messages_map: Mapping[str, str]) -> dict[str, str]:
    """Return a map of a message as a dictionary; ``dict()`` would go through three objects of Python for it."""
    return {key: messages_map[key] for key in messages_map}


class Pods:
    """The known pods of a node, by id. Only the event thread uses them."""

    def __init__(self) -> None:
        self._pods: dict[str, PodSandbox] = {}
        self._resizes: dict[str, LinuxResources] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def replace(self, pods: Iterable[PodSandbox]) -> None:
        """Remember these pods only: a runtime synchronizes with all pods that exist."""
        self._pods.clear()
        self._resizes.clear()
        for pod in pods:
            self.remember(pod)

    def remember(self, pod: PodSandbox) -> None:
        """Remember what later events about ``pod`` may omit."""
        kept = PodSandbox(id=pod.id, pid=pod.pid)
        kept.annotations.MergeFrom(pod.annotations)
        if pod.HasField("linux"):
            kept.linux.CopyFrom(pod.linux)
        self._pods[pod.id] = kept
        if len(self._pods) > MAX_PODS:
            self.forget(next(iter(self._pods.values())))

    def forget(self, pod: PodSandbox) -> None:
        """Forget a pod that was removed."""
        self._pods.pop(pod.id, None)
        self._resizes.pop(pod.id, None)

    def resize(self, pod: PodSandbox, resources: LinuxResources) -> None:
        """Remember the resources that an update of ``pod`` asks for, until ``resized``."""
        self._resizes[pod.id] = resources
        if len(self._resizes) > MAX_PODS:
            del self._resizes[next(iter(self._resizes))]

    def resized(self, pod: PodSandbox) -> PodSandbox:
        """Return ``pod`` with its missing facts, and with the resources of its update, if they are known."""
        resources = self._resizes.pop(pod.id, None)
        pod = self.complete(pod)
        if resources is None:
            return pod
        return with_resources(pod, resources)

    def complete(self, pod: PodSandbox) -> PodSandbox:
        """Return ``pod`` with its missing facts filled in from memory."""
        remembered = self._pods.get(pod.id)
        if remembered is None:
            return pod
        whole = PodSandbox()
        whole.CopyFrom(remembered)
        for field, _ in pod.linux.ListFields():  # a merge would append to lists
            whole.linux.ClearField(field.name)
        whole.MergeFrom(pod)
        return whole


class BridgeAbilities(NRIAbilities):
    """A runtime that the bridge serves.

    :param applies_cdi_from: the first release that applies CDI devices, if it is older.
    """

    def __init__(self, name: str, version: Version, applies_cdi_from: str = "") -> None:
        super().__init__(name, version)
        self._applies_cdi_from = applies_cdi_from

    def why_no_field(self, field: AdjustField, value: Any) -> str:
        """As for the base class, also by the runtime's own release."""
        reason = super().why_no_field(field, value)
        if reason:
            return reason
        if field.name == "linux.cgroupsPath":
            return self.why_no_path(value)
        if field.name == "cdiDevices" and self._applies_cdi_from:
            return f"{self.name} drops it; expected {self._applies_cdi_from} or newer"
        return ""

    def why_no_path(self, path: str) -> str:
        """As for the base class. A relative path is refused: a runtime would add it to the path of its own cgroup."""
        try:
            expand(path)
        except NRIError as error:
            return str(error).removeprefix("cgroupsPath ")
        if not path.startswith("/") and ":" not in path:
            return f"{shorten(repr(path))} is relative, expected one that begins with '/'"
        return ""


class FewAbilities(BridgeAbilities):
    """A runtime that applies a few fields, removes nothing and has no updates.

    :param applied: the fields.
    """

    def __init__(self, name: str, version: Version, applied: tuple[str, ...]) -> None:
        super().__init__(name, version)
        self._applied = applied

    def why_no_field(self, field: AdjustField, value: Any) -> str:
        """As for the base class, for the few fields."""
        if field.name not in self._applied:
            return f"{self.name} applies {' and '.join(self._applied)} alone"
        if any(item is None for _, item in entries(field, value)):
            return f"{self.name} removes nothing"
        return super().why_no_field(field, value)

    def why_no_update(self, *, is_sandbox: bool) -> str:
        """As for the base class."""
        return f"{self.name} has no updates"


def abilities(runtime: RuntimeInfo) -> BridgeAbilities:
    """Return the abilities of a runtime, by its release and the version of its NRI."""
    name = escape(f"{runtime.name} {runtime.version}")
    version = nri_version(runtime.name, runtime.version, runtime.nri_version)
    if runtime.name in APPLIES_ALONE:
        return FewAbilities(name, version, APPLIES_ALONE[runtime.name])
    return BridgeAbilities(name, version, drops_cdi(runtime.name, runtime.version))


def create_response(changes: Changes) -> api.CreateContainerResponse:
    """Return the answer to CreateContainer with all changes."""
    return api.CreateContainerResponse(
        adjust=oci.adjustment(changes.adjust), update=updates(changes)
    )


def updates(changes: Changes) -> list[api.ContainerUpdate]:
    """Return the updates of containers."""
    return [oci.update(update) for update in changes.updates.values()]
