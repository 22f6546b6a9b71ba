"""The types of the v0.1 contract: the request that a plugin receives and the result that it returns.

The source is Go's ``github.com/containerd/nri/types/v1`` at v0.1.0. Where its README promises more than that code
does, this follows the README: the states ``setup``, ``pause``, ``resume`` and ``update``, and a result that moves a
container's cgroup. All types are frozen. The dictionaries inside belong to their object and must not be changed,
except ``Result.metadata``, which a plugin fills.
"""

from __future__ import annotations

from nri.types import DecodeError, EncodeError
from nri.types.jsonobject import (
    NOTHING,
    NULL,
    Field,
    JSONObject,
    boolean,
    integer,
    members,
    mismatch,
    objects,
    opaque,
    optional,
    string,
    string_map,
    strings,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, ClassVar

_NONE: Mapping[str, Any] = {}

VERSION = "0.1"
"""The version of the contract in requests, results and host configurations."""

EXTENSIONS = {"adjust": 1, "configuration": 1}
"""The extensions of the contract that this package has, with their versions. ``adjust``: changes in results;
``configuration``: ``setup`` shows all of the OCI configuration."""

MAX_REQUEST = 64 * 1024 * 1024
"""Bytes of a request at most; a longer one is refused (real ones have some thousands)."""


class State(str):
    """A step of a container's life. Any string can be a state: a plugin ignores states that it does not know."""

    __slots__ = ()

    SETUP: ClassVar[State]
    """Before the container is created; a result can adjust it."""
    CREATE: ClassVar[State]
    """The container's process exists and waits for its start; it has a pid and a cgroup."""
    RESIZE: ClassVar[State]
    """The runtime is about to change the container's resources; a result can change them."""
    UPDATE: ClassVar[State]
    """The container's resources have changed."""
    PAUSE: ClassVar[State]
    RESUME: ClassVar[State]
    DELETE: ClassVar[State]
    """The container has stopped, or is about to."""


STATES = tuple(
    [State(name) for name in ("setup", "create", "resize", "update", "pause", "resume", "delete")]
)
"""The states that the contract names, in the order of a container's life."""

State.SETUP, State.CREATE, State.RESIZE, State.UPDATE, State.PAUSE, State.RESUME, State.DELETE = (
    STATES
)


def _state(value: object, where: str) -> State:
    return State(string(value, where))


def _spec(value: object, where: str) -> Spec | None:
    return optional(Spec, value, where)


def _extensions(value: object, where: str) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for name, item in members(value, where, "an object of integers").items():
        numbers[string(name, f"{where}: key")] = integer(item, f"{where}.{name}")
    return numbers


def _results(value: object, where: str) -> tuple[Result, ...]:
    return objects(Result, "results", value, where)


def _result(value: object, where: str) -> Result | None:
    return optional(Result, value, where)


class Spec(JSONObject):
    """The part of a container's OCI specification that plugins receive."""

    __slots__ = (
        "annotations",
        "cgroups_path",
        "hooks",
        "linux",
        "mounts",
        "namespaces",
        "process",
        "resources",
    )

    resources: Any
    """``linux.resources`` (or ``windows.resources``) of the OCI specification, unchanged; None if it is missing."""
    namespaces: dict[str, str]
    """The path of each type of namespace (in the OCI specification's spelling); "" for a new namespace."""
    cgroups_path: str
    """``linux.cgroupsPath``: below each hierarchy's mount, or ``slice:prefix:name`` with the systemd driver."""
    annotations: dict[str, str]
    process: Any
    """``process`` of the OCI specification; None except for ``setup``. Likewise the next three attributes."""
    mounts: Any
    hooks: Any
    linux: Any
    """``linux`` without the keys that this object has: devices, sysctl, seccomp and so on."""

    FIELDS = (
        Field("resources", "resources", opaque, NOTHING),
        Field("namespaces", "namespaces", string_map),
        Field("cgroupsPath", "cgroups_path", string),
        Field("annotations", "annotations", string_map),
        Field("process", "process", opaque, NULL),
        Field("mounts", "mounts", opaque, NULL),
        Field("hooks", "hooks", opaque, NULL),
        Field("linux", "linux", opaque, NULL),
    )

    def __init__(  # noqa: PLR0913 - a key each
        self,
        *,
        resources: Any = None,
        namespaces: Mapping[str, str] = _NONE,
        cgroups_path: str = "",
        annotations: Mapping[str, str] = _NONE,
        process: Any = None,
        mounts: Any = None,
        hooks: Any = None,
        linux: Any = None,
    ) -> None:
        namespaces = dict(namespaces)
        annotations = dict(annotations)
        self._set(
            resources=resources,
            namespaces=namespaces,
            cgroups_path=cgroups_path,
            annotations=annotations,
        )
        self._set(process=process, mounts=mounts, hooks=hooks, linux=linux)


class Result(JSONObject):
    """The answer of a plugin."""

    __slots__ = (
        "adjust",
        "cgroups_path",
        "error",
        "extra",
        "metadata",
        "plugin",
        "pod_asked",
        "refused",
        "updates",
        "version",
    )

    plugin: str
    """The type of the plugin."""
    version: str
    error: str
    """The reason for a failure, or "". An error stops the chain, except for ``delete``."""
    refused: bool
    """True beside an ``error`` of a plugin that works: the container may not have what it asks for."""
    metadata: dict[str, str]
    """A description of what was done, for the plugins that follow and for readers."""
    cgroups_path: str
    """In answer to ``setup``: the new place of the container's cgroup; "" to leave it."""
    adjust: Any
    """In answer to ``setup``: changes of the container that is about to be created, an object; None for none."""
    updates: Any
    """New resources of containers, an array of objects; None for none."""
    pod_asked: bool
    """True if the pod asks for the changes: one that cannot be made is a refusal of it."""
    extra: dict[str, Any]
    """Keys of the document that the contract does not know; the next plugins receive them unchanged."""

    FIELDS = (
        Field("plugin", "plugin", string, NOTHING),
        Field("version", "version", string, NOTHING),
        Field("error", "error", string, NOTHING),
        Field("refused", "refused", boolean),
        Field("metadata", "metadata", string_map),
        Field("cgroupsPath", "cgroups_path", string),
        Field("adjust", "adjust", opaque, NULL),
        Field("updates", "updates", opaque, NULL),
        Field("podAsked", "pod_asked", boolean),
    )

    def __init__(  # noqa: PLR0913 - a key each
        self,
        *,
        plugin: str,
        version: str = VERSION,
        error: str = "",
        refused: bool = False,
        metadata: Mapping[str, str] = _NONE,
        cgroups_path: str = "",
        adjust: Any = None,
        updates: Any = None,
        pod_asked: bool = False,
        extra: Mapping[str, Any] = _NONE,
    ) -> None:
        put = object.__setattr__  # a plugin makes one for each request, so no loop
        put(self, "plugin", plugin)
        put(self, "version", version)
        put(self, "error", error)
        put(self, "refused", refused)
        put(self, "metadata", dict(metadata))
        put(self, "cgroups_path", cgroups_path)
        put(self, "adjust", adjust)
        put(self, "updates", updates)
        put(self, "pod_asked", pod_asked)
        put(self, "extra", dict(extra))

    def to_value(self) -> dict[str, Any]:
        """Return the same as ``JSONObject.to_value``, with ``extra`` after the known keys."""
        value = super().to_value()
        if not isinstance(self.extra, dict):
            raise EncodeError(str(mismatch(self.extra, "result.extra", "an object")))
        for key, item in self.extra.items():
            value.setdefault(key, item)
        return value


NAMESPACE_LABEL = "io.kubernetes.pod.namespace"
"""The sandbox's label with its pod's namespace. The kubelet overwrites any value of the pod (``newPodLabels`` in its
``kuberuntime/labels.go``). Any pod can set an annotation of that name, so annotations do not count."""

RELEASE = "release"
"""In place of a state, for plugins that act on a ``delete`` with ``Request.release``."""

CHECK = "nri-check"
"""A state that means nothing to a plugin. One of ``nri.skel`` says whether it accepts the conf of the request."""


class Request(JSONObject):
    """The request that a plugin receives."""

    __slots__ = (
        *(
            "conf",
            "extensions",
            "id",
            "labels",
            "late",
            "own_annotations",
            "pid",
            "prev_result",
            "release",
        ),
        *("results", "sandbox_id", "spec", "state", "undecided", "version"),
    )

    conf: Any
    """The plugin conf, from the host configuration; None if its entry has none."""
    version: str
    state: State
    id: str
    """The container's id."""
    sandbox_id: str
    """The id of the container's pod sandbox; "" for a container without one."""
    pid: int
    """The pid of the container's init process in the host's pid namespace; 0 (or -1) if there is none."""
    spec: Spec | None
    labels: dict[str, str]
    """The labels of the pod sandbox."""
    results: tuple[Result, ...]
    """The results of the plugins that ran before, in order."""
    late: bool
    """True for a ``create`` that comes after the container's start, since no host was there then."""
    extensions: dict[str, int]
    """For ``setup`` and ``resize``: the extensions of the contract that the host has, with their versions."""
    prev_result: Result | None
    """For a late ``create``, ``update``, ``resize`` and ``delete``: the plugin's own last result for this container,
    if the host has it. Nothing may depend on it."""
    release: bool
    """True for a ``delete`` of a container that runs on: the plugin is not configured for it any more."""
    undecided: str
    """Facts that the entry's condition asks for and the host does not know, in words; "" for none."""
    own_annotations: tuple[str, ...]
    """The keys of ``annotations`` that the runtime got for the container itself, and its pod does not state: a pod's
    author cannot set them. Empty where the host cannot tell (``nri hook``, ``nri-runc``)."""

    FIELDS = (
        Field("conf", "conf", opaque, NULL),
        Field("version", "version", string, NOTHING),
        Field("state", "state", _state, NOTHING),
        Field("id", "id", string, NOTHING),
        Field("sandboxID", "sandbox_id", string),
        Field("pid", "pid", integer),
        Field("spec", "spec", _spec, NOTHING),
        Field("labels", "labels", string_map),
        Field("results", "results", _results),
        Field("late", "late", boolean),
        Field("extensions", "extensions", _extensions),
        Field("prevResult", "prev_result", _result),
        Field("release", "release", boolean),
        Field("undecided", "undecided", string),
        Field("ownAnnotations", "own_annotations", strings),
    )

    def __init__(  # noqa: PLR0913 - a key each
        self,
        *,
        state: str,
        id: str,
        sandbox_id: str = "",
        pid: int = 0,
        spec: Spec | None = None,
        labels: Mapping[str, str] = _NONE,
        conf: Any = None,
        results: Iterable[Result] = (),
        version: str = VERSION,
        late: bool = False,
        extensions: Mapping[str, int] = _NONE,
        prev_result: Result | None = None,
        release: bool = False,
        undecided: str = "",
        own_annotations: Iterable[str] = (),
    ) -> None:
        self._set(
            conf=conf,
            version=version,
            state=State(state),
            id=id,
            sandbox_id=sandbox_id,
            pid=pid,
            spec=spec,
        )
        self._set(
            labels=dict(labels),
            results=tuple(results),
            late=late,
            extensions=dict(extensions),
        )
        self._set(prev_result=prev_result, release=release, undecided=undecided)
        self._set(own_annotations=tuple(own_annotations))

    @property
    def is_sandbox(self) -> bool:
        """True if the request is for the pod sandbox itself."""
        return self.id == self.sandbox_id

    @property
    def shown(self) -> Spec:
        """``spec``; an empty one where the host has sent none."""
        return self.spec or Spec()

    @property
    def annotations(self) -> dict[str, str]:
        """The container's annotations, ``spec.annotations``; with the bridge also its pod's."""
        return self.shown.annotations

    @property
    def cgroups_path(self) -> str:
        """The runtime's path of the container's cgroup, ``spec.cgroupsPath``; "" if none is known."""
        return self.shown.cgroups_path

    @property
    def namespace(self) -> str:
        """The pod's Kubernetes namespace; "" if none is known, as with ``nri hook`` and under docker."""
        return self.labels.get(NAMESPACE_LABEL, "")

    def new_result(
        self,
        plugin: str,
        *,
        metadata: Mapping[str, str] = _NONE,
        error: str = "",
        adjust: dict[str, Any] | None = None,
        updates: list[dict[str, Any]] | None = None,
        pod_asked: bool = False,
    ) -> Result:
        """Return an answer to this request, with its version.

        :param adjust: docs/adjusting.md has its fields; likewise *updates*.
        :param pod_asked: whether the pod asks for them: one that cannot be made is a refusal of it.
        """
        return Result(
            plugin=plugin,
            version=self.version,
            metadata=metadata,
            error=error,
            adjust=adjust,
            updates=updates,
            pod_asked=pod_asked,
        )


__all__ = [
    "EXTENSIONS",
    "MAX_REQUEST",
    "STATES",
    "VERSION",
    "DecodeError",
    "EncodeError",
    "Request",
    "Result",
    "Spec",
    "State",
]
