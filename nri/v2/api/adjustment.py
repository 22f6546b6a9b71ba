"""Build the adjustment of a container that is about to be created."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from nri.v2.api.adjustment_pb2 import ContainerAdjustment, KeyValue
from nri.v2.api.container_pb2 import Hook, Mount
from nri.v2.api.convert import HOOK_KEYS
from nri.v2.api.linux_changes import LinuxChanges
from nri.v2.api.linux_pb2 import CDIDevice, POSIXRlimit
from nri.v2.api.removal import checked, drop, drop_keys, mark
from nri.v2.api.resource_changes import put_optional

__all__ = ["Adjustment"]


class Adjustment(LinuxChanges):
    """Builds the adjustment that answers CreateContainer.

        adjustment = api.Adjustment().add_env("GREETING", "hello").remove_mount("/data").set_cpu(shares=512)
        return api.CreateContainerResponse(adjust=adjustment.message)

    Calls take effect in their order. A later call for the same name replaces an earlier one, with one exception: a
    value after its removal keeps the removal. Both together replace what an earlier plugin has set, which without the
    removal is a conflict.

    Keys, names and paths are given without the minus that marks a removal in the message; one with a minus is a
    ValueError. A removal that has no effect (the entry does not exist) is no error.

    :param message: an adjustment to continue; it is changed. By default an empty one.
    :ivar message: the :class:`ContainerAdjustment` for the response.
    """

    def __init__(self, message: ContainerAdjustment | None = None) -> None:
        self.message = ContainerAdjustment() if message is None else message

    def add_annotation(self, key: str, value: str) -> Self:
        """Set an annotation of the container."""
        self.message.annotations[checked(key, "annotation")] = value
        return self

    def remove_annotation(self, key: str) -> Self:
        """Remove an annotation of the container. One that an earlier plugin has set stays."""
        marked = mark(checked(key, "annotation"))
        drop_keys(self.message.annotations, key)
        self.message.annotations[marked] = ""
        return self

    def add_env(self, name: str, value: str) -> Self:
        """Set an environment variable."""
        drop(self.message.env, lambda each: each.key, checked(name, "environment variable"))
        self.message.env.append(KeyValue(key=name, value=value))
        return self

    def remove_env(self, name: str) -> Self:
        """Remove an environment variable that an earlier plugin has set; the container keeps its own."""
        marked = mark(checked(name, "environment variable"))
        drop(self.message.env, lambda each: each.key, name, marked)
        self.message.env.append(KeyValue(key=marked))
        return self

    def add_mount(self, destination: str, source: str, *, type: str = "bind", options: Sequence[str] = ()) -> Self:
        """Add a mount, in place of one that the container has there.

        :param destination: absolute, in the container.
        :param source: a path of the host; for a file system without one, its name, such as ``tmpfs``.
        :param options: as of mount(8); a bind mount needs ``bind`` or ``rbind``.
        """
        drop(self.message.mounts, lambda each: each.destination, checked(destination, "mount"))
        self.message.mounts.append(Mount(destination=destination, type=type, source=source, options=options))
        return self

    def remove_mount(self, destination: str) -> Self:
        """Remove a mount: of an earlier plugin, or of the container.

        A runtime with NRI up to 0.6, as containerd before 1.7.26, keeps the container's own.
        """
        marked = mark(checked(destination, "mount"))
        drop(self.message.mounts, lambda each: each.destination, destination, marked)
        self.message.mounts.append(Mount(destination=marked))
        return self

    def set_args(self, args: Sequence[str]) -> Self:
        """Set the command line; it is a conflict if an earlier plugin has set one.

        :raises ValueError: for an empty one, which would change nothing; :meth:`replace_args` can set it.
        """
        if not args or args[0] == "":
            raise ValueError(f"command line: found {list(args)!r}, expected a program and its arguments")
        self.message.args[:] = args
        return self

    def replace_args(self, args: Sequence[str]) -> Self:
        """Set the command line, also in place of one that an earlier plugin has set."""
        self.message.args[:] = ["", *args]
        return self

    def add_hook(
        self,
        kind: str,
        path: str,
        *,
        args: Sequence[str] = (),
        env: Sequence[str] = (),
        timeout: int | None = None,
    ) -> Self:
        """Add an OCI hook, after those that are there; hooks can't be removed.

        :param kind: ``prestart``, ``create_runtime``, ``create_container``, ``start_container``, ``poststart`` or
            ``poststop``.
        :param args: the first is the program's name.
        :param env: its whole environment, ``NAME=VALUE``.
        :param timeout: seconds.
        :raises ValueError: for another kind.
        """
        if kind not in HOOK_KEYS:
            raise ValueError(f"hook: found the kind {kind!r}, expected one of {', '.join(HOOK_KEYS)}")
        hook = Hook(path=path, args=args, env=env)
        put_optional(hook, {"timeout": timeout})
        getattr(self.message.hooks, kind).append(hook)
        return self

    def add_rlimit(self, type: str, *, hard: int, soft: int) -> Self:
        """Set a resource limit, such as ``RLIMIT_NOFILE``; 2**64-1 is no limit."""
        drop(self.message.rlimits, lambda each: each.type, checked(type, "resource limit"))
        self.message.rlimits.append(POSIXRlimit(type=type, hard=hard, soft=soft))
        return self

    def add_cdi_device(self, name: str) -> Self:
        """Add a device by its CDI name, such as ``vendor.com/class=device``."""
        drop(self.message.CDI_devices, lambda each: each.name, checked(name, "CDI device"))
        self.message.CDI_devices.append(CDIDevice(name=name))
        return self
