"""Convert changes in the words of the OCI runtime specification to v2 messages: what v0.1 plugins ask for.

The documents are those of ``adjust`` and ``updates`` in a v0.1 result, whose form the caller has checked. Null, and
``"remove": true`` in an element of a list, become keys with the mark of a removal (:mod:`nri.v2.api.removal`).
"""

from __future__ import annotations

from typing import Any

from nri.v2.api.adjustment_pb2 import ContainerAdjustment, ContainerUpdate, KeyValue
from nri.v2.api.container_pb2 import Hook, Mount
from nri.v2.api.convert import CPU_KEYS, HOOK_KEYS, MEMORY_KEYS
from nri.v2.api.linux_pb2 import (
    CDIDevice,
    HugepageLimit,
    LinuxDevice,
    LinuxDeviceCgroup,
    LinuxIOPriority,
    LinuxMemoryPolicy,
    LinuxNamespace,
    LinuxNetDevice,
    LinuxRdt,
    LinuxResources,
    LinuxScheduler,
    LinuxSeccomp,
    LinuxSeccompArg,
    LinuxSyscall,
    POSIXRlimit,
)
from nri.v2.api.removal import mark, unmarked

_HOOKS = {key: field for field, key in HOOK_KEYS.items()}


def adjustment(adjust: dict[str, Any]) -> ContainerAdjustment:
    """Return the adjustment of an ``adjust``."""
    message = ContainerAdjustment(
        annotations=_removable(adjust.get("annotations", {})),
        env=[KeyValue(key=key, value=value) for key, value in _removable(adjust.get("env", {})).items()],
        mounts=[_mount(destination, mount) for destination, mount in adjust.get("mounts", {}).items()],
        args=adjust.get("args", []),
        rlimits=[POSIXRlimit(**limit) for limit in adjust.get("rlimits", [])],
        CDI_devices=[CDIDevice(name=name) for name in adjust.get("cdiDevices", [])],
    )
    for kind, hooks in adjust.get("hooks", {}).items():
        getattr(message.hooks, _HOOKS[kind]).extend([_hook(hook) for hook in hooks])
    if "scheduler" in adjust:
        message.linux.scheduler.CopyFrom(_scheduler(adjust["scheduler"]))
    if "linux" in adjust:
        _put_linux(message, adjust["linux"])
    return message


def update(update: dict[str, Any]) -> ContainerUpdate:
    """Return the update of an element of ``updates``."""
    message = ContainerUpdate(container_id=update["id"], ignore_failure=update.get("ignoreFailure", False))
    message.linux.resources.CopyFrom(resources(update["resources"]))
    return message


def resources(oci: dict[str, Any]) -> LinuxResources:
    """Return the message of ``linux.resources``, without what NRI has no field for."""
    message = LinuxResources(
        hugepage_limits=[
            HugepageLimit(page_size=page["pageSize"], limit=page["limit"]) for page in oci.get("hugepageLimits", [])
        ],
        unified=oci.get("unified", {}),
        devices=[_device_rule(rule) for rule in oci.get("devices", [])],
    )
    _put_optional(message, "memory", oci.get("memory", {}), MEMORY_KEYS)
    cpu = oci.get("cpu", {})
    _put_optional(message, "cpu", cpu, CPU_KEYS)
    for key in ("cpus", "mems"):
        if key in cpu:
            setattr(message.cpu, key, cpu[key])
    if "limit" in oci.get("pids", {}):
        message.pids.limit = oci["pids"]["limit"]
    for key, field in (("blockioClass", "blockio_class"), ("rdtClass", "rdt_class")):
        if key in oci:
            getattr(message, field).value = oci[key]
    return message


def _put_linux(message: ContainerAdjustment, linux: dict[str, Any]) -> None:
    target = message.linux
    target.devices.extend([_device(device) for device in linux.get("devices", [])])
    target.namespaces.extend([_namespace(namespace) for namespace in linux.get("namespaces", [])])
    target.sysctl.update(_removable(linux.get("sysctl", {})))
    target.cgroups_path = linux.get("cgroupsPath", "")
    for name, device in linux.get("netDevices", {}).items():
        key = name if device is not None else mark(unmarked(name))
        target.net_devices[key].CopyFrom(LinuxNetDevice(name=(device or {}).get("name", "")))
    if "resources" in linux:
        target.resources.CopyFrom(resources(linux["resources"]))
    if "oomScoreAdj" in linux:
        target.oom_score_adj.value = linux["oomScoreAdj"]
    if "seccomp" in linux:
        target.seccomp_policy.CopyFrom(_seccomp(linux["seccomp"]))
    if "ioPriority" in linux:
        wanted = linux["ioPriority"]
        target.io_priority.CopyFrom(LinuxIOPriority(**wanted))  # its names, and those of its classes, are OCI's
    if "intelRdt" in linux:
        target.rdt.CopyFrom(_rdt(linux["intelRdt"]))
    if "memoryPolicy" in linux:
        wanted = linux["memoryPolicy"]
        target.memory_policy.CopyFrom(
            LinuxMemoryPolicy(
                mode=wanted["mode"],
                nodes=wanted.get("nodes", ""),
                flags=wanted.get("flags", []),
            )
        )


def _removable(entries: dict[str, str | None]) -> dict[str, str]:
    """Return entries with a minus in front of the keys that null removes; those go first."""
    removed = {mark(unmarked(key)): "" for key, value in entries.items() if value is None}
    return removed | {key: value for key, value in entries.items() if value is not None}


def _mount(destination: str, mount: dict[str, Any] | None) -> Mount:
    if mount is None:
        return Mount(destination=mark(unmarked(destination)))
    return Mount(destination=destination, **mount)


def _hook(hook: dict[str, Any]) -> Hook:
    message = Hook(path=hook["path"], args=hook.get("args", []), env=hook.get("env", []))
    if "timeout" in hook:
        message.timeout.value = hook["timeout"]
    return message


def _device(device: dict[str, Any]) -> LinuxDevice:
    if device.get("remove"):
        return LinuxDevice(path=mark(device["path"]))
    message = LinuxDevice(
        path=device["path"], type=device["type"], major=device.get("major", 0), minor=device.get("minor", 0)
    )
    for key, field in (("fileMode", "file_mode"), ("uid", "uid"), ("gid", "gid")):
        if key in device:
            getattr(message, field).value = device[key]
    return message


def _device_rule(rule: dict[str, Any]) -> LinuxDeviceCgroup:
    message = LinuxDeviceCgroup(allow=rule["allow"], type=rule.get("type", ""), access=rule.get("access", ""))
    for key in ("major", "minor"):
        if key in rule:
            getattr(message, key).value = rule[key]
    return message


def _namespace(namespace: dict[str, Any]) -> LinuxNamespace:
    if namespace.get("remove"):
        return LinuxNamespace(type=mark(namespace["type"]))
    return LinuxNamespace(type=namespace["type"], path=namespace.get("path", ""))


def _scheduler(scheduler: dict[str, Any]) -> LinuxScheduler:
    return LinuxScheduler(**scheduler)


def _rdt(rdt: dict[str, Any]) -> LinuxRdt:
    message = LinuxRdt(remove=rdt.get("remove", False))
    if "closID" in rdt:
        message.clos_id.value = rdt["closID"]
    if "schemata" in rdt:
        message.schemata.value.extend(rdt["schemata"])
        message.schemata.SetInParent()
    if "enableMonitoring" in rdt:
        message.enable_monitoring.value = rdt["enableMonitoring"]
    return message


def _seccomp(seccomp: dict[str, Any]) -> LinuxSeccomp:
    message = LinuxSeccomp(
        default_action=seccomp["defaultAction"],
        architectures=seccomp.get("architectures", []),
        flags=seccomp.get("flags", []),
        listener_path=seccomp.get("listenerPath", ""),
        listener_metadata=seccomp.get("listenerMetadata", ""),
        syscalls=[_syscall(syscall) for syscall in seccomp.get("syscalls", [])],
    )
    if "defaultErrnoRet" in seccomp:
        message.default_errno.value = seccomp["defaultErrnoRet"]
    return message


def _syscall(syscall: dict[str, Any]) -> LinuxSyscall:
    message = LinuxSyscall(
        names=syscall["names"],
        action=syscall["action"],
        args=[
            LinuxSeccompArg(index=arg["index"], value=arg["value"], value_two=arg.get("valueTwo", 0), op=arg["op"])
            for arg in syscall.get("args", [])
        ],
    )
    if "errnoRet" in syscall:
        message.errno_ret.value = syscall["errnoRet"]
    return message


def _put_optional(message: Any, part: str, values: dict[str, Any], fields: dict[str, str]) -> None:
    for field, key in fields.items():
        if key in values:
            getattr(getattr(message, part), field).value = values[key]
