"""Build changes of a container's resources: of the container that is created, and updates of others."""

from __future__ import annotations

from typing import Any, Self

from google.protobuf.message import Message

from nri.v2.api.adjustment_pb2 import ContainerAdjustment, ContainerUpdate
from nri.v2.api.linux_pb2 import HugepageLimit
from nri.v2.api.removal import drop

__all__ = ["Update"]


class ResourceChanges:
    """The resources of an adjustment or an update. Each method returns the object, so that calls can be chained.

    A later call replaces what an earlier one has set in the same field. A value of None leaves a field as it is.
    The ranges are those of OCI's ``linux.resources``, which the runtime checks.

    :ivar message: the message for the response.
    """

    message: ContainerAdjustment | ContainerUpdate

    def set_memory(
        self,
        *,
        limit: int | None = None,
        reservation: int | None = None,
        swap: int | None = None,
        kernel: int | None = None,
        kernel_tcp: int | None = None,
        swappiness: int | None = None,
        disable_oom_killer: bool | None = None,
        use_hierarchy: bool | None = None,
    ) -> Self:
        """Set limits of memory in bytes; ``swap`` is memory and swap together, ``swappiness`` 0 to 100."""
        values = {
            "limit": limit,
            "reservation": reservation,
            "swap": swap,
            "kernel": kernel,
            "kernel_tcp": kernel_tcp,
            "swappiness": swappiness,
            "disable_oom_killer": disable_oom_killer,
            "use_hierarchy": use_hierarchy,
        }
        put_optional(self.message.linux.resources.memory, values)
        return self

    def set_cpu(
        self,
        *,
        shares: int | None = None,
        quota: int | None = None,
        period: int | None = None,
        realtime_runtime: int | None = None,
        realtime_period: int | None = None,
        cpus: str = "",
        mems: str = "",
    ) -> Self:
        """Set the CPU weight (2 to 262144), quota and period (microseconds; a quota of -1 is none), and the CPU set.

        :param cpus: a list such as ``0-3,8``; ``mems`` likewise, of memory nodes. Empty: not set.
        """
        values = {
            "shares": shares,
            "quota": quota,
            "period": period,
            "realtime_runtime": realtime_runtime,
            "realtime_period": realtime_period,
        }
        cpu = self.message.linux.resources.cpu
        put_optional(cpu, values)
        if cpus:
            cpu.cpus = cpus
        if mems:
            cpu.mems = mems
        return self

    def set_pids_limit(self, limit: int) -> Self:
        """Set the number of processes and threads; -1 for no limit. In an update, NRI ignores it."""
        pids = self.message.linux.resources.pids
        pids.SetInParent()
        pids.limit = limit
        return self

    def set_hugepage_limit(self, page_size: str, limit: int) -> Self:
        """Set the bytes in huge pages of a size, spelt as in the cgroup's files: ``2MB``, ``1GB``."""
        limits = self.message.linux.resources.hugepage_limits
        drop(limits, lambda each: each.page_size, page_size)
        limits.append(HugepageLimit(page_size=page_size, limit=limit))
        return self

    def set_unified(self, file: str, value: str) -> Self:
        """Set a file of a cgroup v2, such as ``memory.high``, to a text."""
        self.message.linux.resources.unified[file] = value
        return self

    def set_blockio_class(self, name: str) -> Self:
        """Set the block I/O class, one that the runtime's configuration defines; "" for none."""
        put_optional(self.message.linux.resources, {"blockio_class": name})
        return self

    def set_rdt_class(self, name: str) -> Self:
        """Set the RDT class, one that the runtime's configuration defines; "" for none."""
        put_optional(self.message.linux.resources, {"rdt_class": name})
        return self


class Update(ResourceChanges):
    """Builds the update of a container that exists.

        api.Update(container.id).set_cpu(shares=512).ignore_failure().message

    :ivar message: the :class:`ContainerUpdate` for a response, or for ``update_containers`` of the stub.
    :raises ValueError: for an empty id.
    """

    message: ContainerUpdate

    def __init__(self, container_id: str) -> None:
        if not container_id:
            raise ValueError("an update without a container: found an empty id")
        self.message = ContainerUpdate(container_id=container_id)

    def ignore_failure(self) -> Self:
        """Let the event that the update answers go on when the update fails."""
        self.message.ignore_failure = True
        return self


def put_optional(message: Message, values: dict[str, Any]) -> None:
    """Set the fields of ``message`` that are Optional... messages; None leaves a field as it is.

    :raises ValueError: for a value of another type, or out of the field's range.
    """
    for field, value in values.items():
        if value is not None:
            try:
                getattr(message, field).value = value
            except (TypeError, ValueError) as error:
                raise ValueError(f"{field}: found {value!r}: {error}") from error
