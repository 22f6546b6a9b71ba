"""Convert v2 messages to the JSON of an OCI runtime configuration, which v0.1 plugins get.

The result equals, key for key and in the same order, the output of the Go adapter: ``ToOCI()``
(``pkg/api/resources.go``) and ``encoding/json`` over the runtime specification's Go types. Two oddities are kept,
since existing plugins have seen nothing else: ``memory`` and ``cpu`` are present even when empty, and ``pids``
without a limit is an empty object. ``blockio_class`` and ``rdt_class`` have no place in OCI's resources and are
dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import Message

from nri.v2.api.container_pb2 import LinuxContainer, LinuxPodSandbox
from nri.v2.api.linux_pb2 import LinuxDeviceCgroup, LinuxNamespace, LinuxResources

# Field of the message -> key in OCI's JSON. Each field is a message of its own (Optional...).
MEMORY_KEYS = {
    "limit": "limit",
    "reservation": "reservation",
    "swap": "swap",
    "kernel": "kernel",
    "kernel_tcp": "kernelTCP",
    "swappiness": "swappiness",
    "disable_oom_killer": "disableOOMKiller",
    "use_hierarchy": "useHierarchy",
}
CPU_KEYS = {
    "shares": "shares",
    "quota": "quota",
    "period": "period",
    "realtime_runtime": "realtimeRuntime",
    "realtime_period": "realtimePeriod",
}
_DEVICE = {"major": "major", "minor": "minor"}


def resources_of(linux: LinuxPodSandbox | LinuxContainer) -> LinuxResources | None:
    """Return the ``resources`` of a pod's or container's ``linux``; None when they are absent."""
    return linux.resources if linux.HasField("resources") else None


def resources_to_oci(resources: LinuxResources | None) -> dict[str, Any] | None:
    """Return OCI's ``linux.resources``; None (JSON's null) for None."""
    if resources is None:
        return None
    oci: dict[str, Any] = {}
    if resources.devices:
        oci["devices"] = [_device(rule) for rule in resources.devices]
    oci["memory"] = _present(resources.memory, MEMORY_KEYS)
    oci["cpu"] = _present(resources.cpu, CPU_KEYS)
    if resources.cpu.cpus:
        oci["cpu"]["cpus"] = resources.cpu.cpus
    if resources.cpu.mems:
        oci["cpu"]["mems"] = resources.cpu.mems
    if resources.HasField("pids"):
        oci["pids"] = {"limit": resources.pids.limit} if resources.pids.limit > -1 else {}
    if resources.hugepage_limits:
        pages = resources.hugepage_limits
        oci["hugepageLimits"] = [{"pageSize": page.page_size, "limit": page.limit} for page in pages]
    if resources.unified:
        oci["unified"] = dict(sorted(resources.unified.items()))
    return oci


def namespaces_to_paths(namespaces: Iterable[LinuxNamespace]) -> dict[str, str]:
    """Return a v0.1 spec's ``namespaces``: type -> path; the path of a new namespace is empty."""
    return {namespace.type: namespace.path for namespace in namespaces}


def _device(rule: LinuxDeviceCgroup) -> dict[str, Any]:
    oci: dict[str, Any] = {"allow": rule.allow}
    if rule.type:
        oci["type"] = rule.type
    oci |= _present(rule, _DEVICE)
    if rule.access:
        oci["access"] = rule.access
    return oci


def _present(message: Message, keys: dict[str, str]) -> dict[str, Any]:
    """Return the optional values in ``keys`` that are set, also when they are zero."""
    return {key: getattr(message, field).value for field, key in keys.items() if message.HasField(field)}
