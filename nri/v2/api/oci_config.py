"""Convert a v2 container to the parts of an OCI ``config.json`` that a plugin can adjust.

A runtime tells its plugins only what NRI has fields for: the result is what v0.1 plugins see in ``setup``, not a
configuration to run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nri.v2.api.container_pb2 import Container, Hook, Mount
from nri.v2.api.convert import HOOK_KEYS, resources_of, resources_to_oci
from nri.v2.api.linux_pb2 import (
    IOPrioClass,
    LinuxDevice,
    LinuxRdt,
    LinuxScheduler,
    LinuxSchedulerFlag,
    LinuxSchedulerPolicy,
    LinuxSeccomp,
)


def container_to_oci(container: Container, annotations: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration of a container that is about to be created.

    :param annotations: its annotations, which may include its pod's.
    """
    config: dict[str, Any] = {
        "annotations": dict(annotations),
        "process": _process(container),
        "mounts": [_mount(mount) for mount in container.mounts],
        "linux": _linux(container),
    }
    hooks = {
        key: [_hook(hook) for hook in listed]
        for field, key in HOOK_KEYS.items()
        if (listed := getattr(container.hooks, field))
    }
    return config | ({"hooks": hooks} if hooks else {})


def _process(container: Container) -> dict[str, Any]:
    linux = container.linux
    process: dict[str, Any] = {"args": list(container.args), "env": list(container.env)}
    if container.HasField("user"):
        user = container.user
        process["user"] = {"uid": user.uid, "gid": user.gid}
        if user.additional_gids:
            process["user"]["additionalGids"] = list(user.additional_gids)
    if container.rlimits:
        process["rlimits"] = [
            {"type": limit.type, "hard": limit.hard, "soft": limit.soft} for limit in container.rlimits
        ]
    if linux.HasField("oom_score_adj"):
        process["oomScoreAdj"] = linux.oom_score_adj.value
    if linux.HasField("io_priority"):
        priority = linux.io_priority
        process["ioPriority"] = {"class": IOPrioClass.Name(getattr(priority, "class")), "priority": priority.priority}
    if linux.HasField("scheduler"):
        process["scheduler"] = _scheduler(linux.scheduler)
    return process


def _linux(container: Container) -> dict[str, Any]:
    linux = container.linux
    oci: dict[str, Any] = {
        "resources": resources_to_oci(resources_of(linux)),
        "namespaces": [_present(type=namespace.type, path=namespace.path) for namespace in linux.namespaces],
        "cgroupsPath": linux.cgroups_path,
        "devices": [_device(device) for device in linux.devices],
    }
    if linux.sysctl:
        oci["sysctl"] = dict(sorted(linux.sysctl.items()))
    if linux.net_devices:
        oci["netDevices"] = {key: _present(name=device.name) for key, device in sorted(linux.net_devices.items())}
    if linux.HasField("seccomp_policy"):
        oci["seccomp"] = _seccomp(linux.seccomp_policy)
    if linux.HasField("rdt"):
        oci["intelRdt"] = _rdt(linux.rdt)
    return oci


def _mount(mount: Mount) -> dict[str, Any]:
    return {"destination": mount.destination} | _present(
        type=mount.type, source=mount.source, options=list(mount.options)
    )


def _hook(hook: Hook) -> dict[str, Any]:
    timeout = {"timeout": hook.timeout.value} if hook.HasField("timeout") else {}
    return {"path": hook.path} | _present(args=list(hook.args), env=list(hook.env)) | timeout


def _device(device: LinuxDevice) -> dict[str, Any]:
    oci: dict[str, Any] = {
        "path": device.path, "type": device.type, "major": device.major, "minor": device.minor
    }  # fmt: skip
    for field, key in (("file_mode", "fileMode"), ("uid", "uid"), ("gid", "gid")):
        if device.HasField(field):
            oci[key] = getattr(device, field).value
    return oci


def _scheduler(scheduler: LinuxScheduler) -> dict[str, Any]:
    names = {"nice", "priority", "runtime", "deadline", "period"}
    return {
        "policy": LinuxSchedulerPolicy.Name(scheduler.policy),
        **{field.name: value for field, value in scheduler.ListFields() if field.name in names},
        **_present(flags=[LinuxSchedulerFlag.Name(flag) for flag in scheduler.flags]),
    }


def _rdt(rdt: LinuxRdt) -> dict[str, Any]:
    oci: dict[str, Any] = {}
    if rdt.HasField("clos_id"):
        oci["closID"] = rdt.clos_id.value
    if rdt.HasField("schemata"):
        oci["schemata"] = list(rdt.schemata.value)
    if rdt.HasField("enable_monitoring"):
        oci["enableMonitoring"] = rdt.enable_monitoring.value
    return oci


def _seccomp(seccomp: LinuxSeccomp) -> dict[str, Any]:
    oci: dict[str, Any] = {"defaultAction": seccomp.default_action}
    if seccomp.HasField("default_errno"):
        oci["defaultErrnoRet"] = seccomp.default_errno.value
    oci |= _present(
        architectures=list(seccomp.architectures),
        flags=list(seccomp.flags),
        listenerPath=seccomp.listener_path,
        listenerMetadata=seccomp.listener_metadata,
    )
    syscalls = []
    for rule in seccomp.syscalls:
        syscall: dict[str, Any] = {"names": list(rule.names), "action": rule.action}
        if rule.HasField("errno_ret"):
            syscall["errnoRet"] = rule.errno_ret.value
        if rule.args:
            syscall["args"] = [
                {"index": arg.index, "value": arg.value, "valueTwo": arg.value_two, "op": arg.op} for arg in rule.args
            ]
        syscalls.append(syscall)
    return oci | _present(syscalls=syscalls)


def _present(**values: Any) -> dict[str, Any]:
    """Return the values that are not empty."""
    return {key: value for key, value in values.items() if value}
