"""The changes of a result as types: ``adjust`` and ``updates``, in the words of the OCI runtime specification.

For type checkers only; docs/adjusting.md describes the fields, and each is optional unless a host demands it.

    if TYPE_CHECKING:
        from nri.types.adjust import Adjust

    adjust: Adjust = {"env": {"TZ": "UTC"}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict


class Mount(TypedDict, total=False):
    """A mount; its destination is its key in ``mounts``."""

    type: str
    source: str
    options: list[str]


class Hook(TypedDict, total=False):
    """An OCI hook; ``timeout`` is in seconds."""

    path: str
    args: list[str]
    env: list[str]
    timeout: int


class Hooks(TypedDict, total=False):
    """Hooks that are run after those of the container."""

    prestart: list[Hook]
    createRuntime: list[Hook]
    createContainer: list[Hook]
    startContainer: list[Hook]
    poststart: list[Hook]
    poststop: list[Hook]


class Rlimit(TypedDict):
    """A limit of the process, such as ``RLIMIT_NOFILE``."""

    type: str
    hard: int
    soft: int


class Device(TypedDict, total=False):
    """A device node; ``{"path": …, "remove": True}`` removes one."""

    path: str
    type: str
    major: int
    minor: int
    fileMode: int
    uid: int
    gid: int
    remove: bool


class Namespace(TypedDict, total=False):
    """A namespace to make or, with a path, to join; with ``remove`` to leave out."""

    type: str
    path: str
    remove: bool


class Memory(TypedDict, total=False):
    """Limits of memory in bytes."""

    limit: int
    reservation: int
    swap: int
    kernel: int
    kernelTCP: int
    swappiness: int
    disableOOMKiller: bool
    useHierarchy: bool
    checkBeforeUpdate: bool


class CPU(TypedDict, total=False):
    """CPU time, in microseconds where it is a time, and CPUs as a list such as ``0-3``."""

    shares: int
    quota: int
    burst: int
    period: int
    realtimeRuntime: int
    realtimePeriod: int
    cpus: str
    mems: str
    idle: int


class Resources(TypedDict, total=False):
    """``linux.resources``, and NRI's classes of block I/O and RDT."""

    memory: Memory
    cpu: CPU
    pids: Mapping[str, int]
    blockIO: Mapping[str, Any]
    hugepageLimits: list[Mapping[str, Any]]
    network: Mapping[str, Any]
    rdma: Mapping[str, Mapping[str, int]]
    unified: Mapping[str, str]
    devices: list[Mapping[str, Any]]
    blockioClass: str
    rdtClass: str


class Linux(TypedDict, total=False):
    """The fields below ``linux`` in the specification, and the process's ``oomScoreAdj`` and ``ioPriority``."""

    devices: list[Device]
    resources: Resources
    cgroupsPath: str
    oomScoreAdj: int
    sysctl: Mapping[str, str | None]
    namespaces: list[Namespace]
    seccomp: Mapping[str, Any]
    ioPriority: Mapping[str, Any]
    intelRdt: Mapping[str, Any]
    netDevices: Mapping[str, Mapping[str, str] | None]
    memoryPolicy: Mapping[str, Any]


class Adjust(TypedDict, total=False):
    """Changes of the container that is about to be created. Where None is allowed, it removes an entry."""

    annotations: Mapping[str, str | None]
    env: Mapping[str, str | None]
    args: list[str]
    mounts: Mapping[str, Mount | None]
    hooks: Hooks
    rlimits: list[Rlimit]
    cdiDevices: list[str]
    scheduler: Mapping[str, Any]
    linux: Linux


class _Update(TypedDict):
    id: str
    resources: Resources


class Update(_Update, total=False):
    """New resources of another container."""

    ignoreFailure: bool
