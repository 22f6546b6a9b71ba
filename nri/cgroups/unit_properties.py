"""The property of a unit that has a knob, and telling the unit. A knob without one is written to the file only.

systemd writes a property's value when another one of the same controller changes; a file that it has no property for
it leaves alone. On cgroup v1 it knows the older properties CPUShares, BlockIOWeight and MemoryLimit, and none for
cpusets; systemd 258 has dropped v1.

Sources: ``systemd.resource-control(5)``, ``org.freedesktop.systemd1(5)``, systemd's ``src/core/dbus-cgroup.c``
(types) and ``src/core/cgroup.c`` (which are applied on v1).
"""

from __future__ import annotations

from .conversion import blkio_of_io_weight, shares_of_weight
from .quota import Quota
from .units import INFINITY, Unit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROPERTIES = {
    1: {
        "cpu.weight": "CPUShares",
        "cpu.max": "CPUQuotaPerSecUSec",
        "memory.max": "MemoryLimit",
        "io.weight": "BlockIOWeight",
        "pids.max": "TasksMax",
    },
    2: {
        "cpu.weight": "CPUWeight",
        "cpu.max": "CPUQuotaPerSecUSec",
        "cpuset.cpus": "AllowedCPUs",
        "cpuset.mems": "AllowedMemoryNodes",
        "memory.min": "MemoryMin",
        "memory.low": "MemoryLow",
        "memory.high": "MemoryHigh",
        "memory.max": "MemoryMax",
        "memory.swap.max": "MemorySwapMax",
        "io.weight": "IOWeight",
        "pids.max": "TasksMax",
    },
}
"""The property of each knob that has one, by the version of the hierarchy."""

_SECOND = 1_000_000  # microseconds
_PERIOD = 100_000  # systemd's own, in microseconds


def property_of(name: str, version: int, value: Any) -> str:
    """Return the property that has this value of a knob; "" if there is none."""
    if name == "io.weight" and "default" not in value:  # the weights of single devices are left to the file
        return ""
    return PROPERTIES[version].get(name, "")


def tell(unit: Unit, name: str, version: int, value: Any) -> bool:
    """Give the unit this value of a knob that has a property, if it has another; return whether it had another."""
    wanted = PROPERTIES[version][name]
    if isinstance(value, frozenset):
        return unit.set_numbers(wanted, value)
    if isinstance(value, Quota):
        return _tell_quota(unit, wanted, value)
    if name == "io.weight":
        value = value["default"]
    if version == 1 and name in ("cpu.weight", "io.weight"):
        value = shares_of_weight(value) if name == "cpu.weight" else blkio_of_io_weight(value)
    return unit.set_number(wanted, INFINITY if value is None else value)


def _tell_quota(unit: Unit, wanted: str, quota: Quota) -> bool:
    """Give the unit this quota per second, rounded up, and its period if that is not systemd's own."""
    if quota.quota_us is None:
        return unit.set_number(wanted, INFINITY)
    had_another = unit.set_number(wanted, -(-quota.quota_us * _SECOND // quota.period_us))
    if quota.period_us != _PERIOD:
        had_another = unit.set_number("CPUQuotaPeriodUSec", quota.period_us) or had_another
    return had_another
