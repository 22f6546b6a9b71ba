"""The kubelet's part: slices for pods, and their properties, as its systemd driver sets them.

The calls are those of the kubelet 1.34 (``pkg/kubelet/cm``), which uses runc's cgroup manager for systemd.
"""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from tests.node.guest.shell import run

MANAGER = (
    "org.freedesktop.systemd1",
    "/org/freedesktop/systemd1",
    "org.freedesktop.systemd1.Manager",
)
INFINITY = str(2**64 - 1)


class PodSlice:
    """A pod's slice below ``kubepods-burstable.slice``.

    :param quota_us: microseconds of CPU time in a second; None for no limit.
    """

    def __init__(self, *, quota_us: int | None = None, weight: int = 20) -> None:
        self.uid = str(uuid4())
        self.name = f"kubepods-burstable-pod{self.uid.replace('-', '_')}.slice"
        self.path = f"/kubepods.slice/kubepods-burstable.slice/{self.name}"
        properties = [
            "Wants",
            "as",
            "1",
            "kubepods-burstable.slice",
            "DefaultDependencies",
            "b",
            "false",
        ]
        properties += [
            word
            for name in ("CPU", "Memory", "Tasks")
            for word in (f"{name}Accounting", "b", "true")
        ]
        signature = "ssa(sv)a(sa(sv))"
        run(
            "busctl",
            "call",
            *MANAGER,
            "StartTransientUnit",
            signature,
            self.name,
            "replace",
            "5",
            *properties,
            "0",
        )
        self.set(CPUWeight=weight, CPUQuotaPerSecUSec=INFINITY if quota_us is None else quota_us)

    def set(self, **properties: int | str) -> None:
        """Set properties of type ``t``, as the kubelet does whenever a pod's resources change."""
        set_properties(self.name, **properties)

    def knob(self, name: str) -> str:
        return knob(self.path, name)


def set_properties(unit: str, **properties: int | str) -> None:
    """Set a unit's properties of type ``t`` until it ends."""
    words = [word for name, value in properties.items() for word in (name, "t", str(value))]
    run(
        "busctl",
        "call",
        *MANAGER,
        "SetUnitProperties",
        "sba(sv)",
        unit,
        "true",
        str(len(properties)),
        *words,
    )


def scope(container: str) -> str:
    """Return the unit that containerd makes for a container."""
    return f"cri-containerd-{container}.scope"


def knob(path: str, name: str) -> str:
    """Return the text of a cgroup's file."""
    return Path(f"/sys/fs/cgroup{path}/{name}").read_text().strip()


def show(unit: str, name: str) -> str:
    """Return a unit's property, as systemctl prints it."""
    return run("systemctl", "show", "--value", "-p", name, unit).strip()
