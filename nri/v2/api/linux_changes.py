"""Build changes of what only Linux has: devices, namespaces, sysctls, scheduling, RDT and so on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from nri.v2.api.adjustment_pb2 import ContainerAdjustment
from nri.v2.api.linux_pb2 import (
    LinuxDevice,
    LinuxIOPriority,
    LinuxMemoryPolicy,
    LinuxNamespace,
    LinuxNetDevice,
    LinuxScheduler,
    LinuxSeccomp,
)
from nri.v2.api.removal import checked, drop, drop_keys, mark
from nri.v2.api.resource_changes import ResourceChanges, put_optional


class LinuxChanges(ResourceChanges):
    """The part of an adjustment that is in ``linux``; see :class:`nri.v2.api.Adjustment`."""

    message: ContainerAdjustment

    def add_device(
        self,
        path: str,
        *,
        major: int,
        minor: int,
        type: str = "c",
        file_mode: int | None = None,
        uid: int | None = None,
        gid: int | None = None,
    ) -> Self:
        """Add a device node, and the permission to use it.

        :param path: absolute, in the container.
        :param type: ``b`` (block), ``c`` or ``u`` (character), ``p`` (FIFO).
        """
        device = LinuxDevice(path=checked(path, "device"), type=type, major=major, minor=minor)
        put_optional(device, {"file_mode": file_mode, "uid": uid, "gid": gid})
        devices = self.message.linux.devices
        drop(devices, lambda each: each.path, path)
        devices.append(device)
        return self

    def remove_device(self, path: str) -> Self:
        """Remove a device that an earlier plugin has added; the container keeps its own."""
        marked = mark(checked(path, "device"))
        devices = self.message.linux.devices
        drop(devices, lambda each: each.path, path, marked)
        devices.append(LinuxDevice(path=marked))
        return self

    def set_namespace(self, type: str, path: str = "") -> Self:
        """Set a namespace: ``path`` is one to join, such as ``/proc/1234/ns/net``; "" is a new one.

        :param type: ``pid``, ``network``, ``mount``, ``ipc``, ``uts``, ``user``, ``cgroup`` or ``time``.
        """
        return self._put_namespace(type, LinuxNamespace(type=type, path=path))

    def remove_namespace(self, type: str) -> Self:
        """Remove a namespace: the container uses the host's.

        NRI takes one change of a namespace from a plugin, so the last call for a type replaces the others.
        """
        return self._put_namespace(type, LinuxNamespace(type=mark(type)))

    def _put_namespace(self, type_: str, namespace: LinuxNamespace) -> Self:
        checked(type_, "namespace")
        namespaces = self.message.linux.namespaces
        drop(namespaces, lambda each: each.type, type_, mark(type_))  # both would be two claims of one plugin
        namespaces.append(namespace)
        return self

    def set_sysctl(self, name: str, value: str) -> Self:
        """Set a sysctl by its dotted name, such as ``net.core.somaxconn``."""
        self.message.linux.sysctl[checked(name, "sysctl")] = value
        return self

    def remove_sysctl(self, name: str) -> Self:
        """Remove a sysctl of the container. One that an earlier plugin has set stays."""
        marked = mark(checked(name, "sysctl"))
        drop_keys(self.message.linux.sysctl, name)
        self.message.linux.sysctl[marked] = ""
        return self

    def add_net_device(self, host_name: str, name: str = "") -> Self:
        """Move a network device of the host into the container, as ``name``; "" keeps its name."""
        self.message.linux.net_devices[checked(host_name, "network device")].CopyFrom(LinuxNetDevice(name=name))
        return self

    def remove_net_device(self, host_name: str) -> Self:
        """Remove a network device of the container, by its name on the host. An earlier plugin's stays."""
        marked = mark(checked(host_name, "network device"))
        drop_keys(self.message.linux.net_devices, host_name)
        self.message.linux.net_devices[marked].CopyFrom(LinuxNetDevice())
        return self

    def set_cgroups_path(self, path: str) -> Self:
        """Set OCI's cgroupsPath: it moves the container's cgroup."""
        self.message.linux.cgroups_path = path
        return self

    def set_oom_score_adj(self, value: int) -> Self:
        """Set the OOM killer's adjustment, -1000 to 1000."""
        put_optional(self.message.linux, {"oom_score_adj": value})
        return self

    def set_io_priority(self, kind: str, priority: int = 0) -> Self:
        """Set the I/O priority: ``IOPRIO_CLASS_RT``, ``_BE`` or ``_IDLE``, and 0 (first) to 7 (last)."""
        fields: dict[str, Any] = {"class": kind, "priority": priority}  # class is a keyword
        self.message.linux.io_priority.CopyFrom(LinuxIOPriority(**fields))
        return self

    def set_scheduler(
        self,
        policy: str,
        *,
        nice: int = 0,
        priority: int = 0,
        flags: Sequence[str] = (),
        runtime: int = 0,
        deadline: int = 0,
        period: int = 0,
    ) -> Self:
        """Set the scheduling policy, such as ``SCHED_BATCH``, and what it takes; times are nanoseconds."""
        self.message.linux.scheduler.CopyFrom(
            LinuxScheduler(
                policy=policy,
                nice=nice,
                priority=priority,
                flags=flags,
                runtime=runtime,
                deadline=deadline,
                period=period,
            )
        )
        return self

    def set_memory_policy(self, mode: str, nodes: str = "", flags: Sequence[str] = ()) -> Self:
        """Set the NUMA memory policy: a mode such as ``MPOL_BIND``, and a list of memory nodes such as ``0-1``."""
        self.message.linux.memory_policy.CopyFrom(LinuxMemoryPolicy(mode=mode, nodes=nodes, flags=flags))
        return self

    def set_seccomp(self, policy: LinuxSeccomp) -> Self:
        """Set the seccomp policy, in place of the container's."""
        self.message.linux.seccomp_policy.CopyFrom(policy)
        return self

    def set_rdt(
        self,
        *,
        clos_id: str | None = None,
        schemata: Sequence[str] | None = None,
        enable_monitoring: bool | None = None,
    ) -> Self:
        """Set the resctrl group, the lines of its ``schemata``, and whether the container has a monitoring group."""
        rdt = self.message.linux.rdt
        put_optional(rdt, {"clos_id": clos_id, "enable_monitoring": enable_monitoring})
        if schemata is not None:
            rdt.schemata.SetInParent()
            rdt.schemata.value[:] = schemata
        return self

    def remove_rdt(self) -> Self:
        """Remove all RDT settings, those of earlier plugins too. :meth:`set_rdt` after it replaces them."""
        self.message.linux.rdt.Clear()
        self.message.linux.rdt.remove = True
        return self
