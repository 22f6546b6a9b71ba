"""Batch and mid resources of Koordinator: CPUs and memory that pods request beside those of Kubernetes.

A webhook of Koordinator writes what each container requests to the annotation ``SPEC``, since runtimes do not see
extended resources: ``{"containers": {"main": {"limits": {"kubernetes.io/batch-cpu": "1500",
"kubernetes.io/batch-memory": "2Gi"}, "requests": {…}}}}``; CPUs are in thousandths. It lists no init containers; a
webhook of one's own may, under ``initContainers``.
"""

from __future__ import annotations

from nri.cgroups.knob_values import MAX_SHARES, MIN_SHARES
from nri.cgroups.quota import MAX_QUOTA_US
from nri.plugins import annotated
from nri.plugins.qos import SPEC
from nri.skel import Refusal
from nri.types.gojson import describe, shorten
from nri.types.table import ANYTHING, Key, Map, open_table, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Amounts = dict[tuple[str, str], int]
    """The amounts of one container; each key is (``requests`` or ``limits``, ``CPU`` or ``MEMORY``)."""

CPU = "kubernetes.io/batch-cpu"
MEMORY = "kubernetes.io/batch-memory"

_KINDS = {
    CPU: CPU,
    "kubernetes.io/mid-cpu": CPU,
    MEMORY: MEMORY,
    "kubernetes.io/mid-memory": MEMORY,
}
"""The kind of each resource: those of the mid tier have the units of the batch tier."""

PERIOD = 100_000
"""Microseconds, as the kubelet has it."""

_LEAST_QUOTA_US = 1000
_LEAST_MEMORY = 4096
_MOST = 2**63 - 1

_UNITS = {unit: (1000**power, 1) for power, unit in enumerate(("", "k", "M", "G", "T", "P", "E"))}
_UNITS |= {f"{unit}i": (1024**power, 1) for power, unit in enumerate("KMGTPE", 1)}
_UNITS |= {unit: (1, 1000**power) for power, unit in enumerate("mun", 1)}
"""The factor and the divisor of each unit."""

_AMOUNTS = Map(ANYTHING, text())
_CONTAINERS = Map(open_table(Key("requests", _AMOUNTS), Key("limits", _AMOUNTS)), text())
_DOCUMENT = open_table(
    Key("containers", _CONTAINERS, required=True), Key("initContainers", _CONTAINERS)
)
"""The rule for the annotation; ``quantity`` judges the amounts that count."""


class Batch:
    """The batch resources of one container, or of all containers of a pod.

    :ivar shares: of the CPU.
    :ivar quota: of the CPU, in microseconds of a ``PERIOD``; None for no limit.
    :ivar memory: its limit in bytes; None for none.
    :ivar request: of memory, in bytes; 0 for none.
    """

    __slots__ = ("memory", "quota", "request", "shares")

    def __init__(self, containers: list[Amounts], init: list[Amounts]) -> None:
        """Take the greatest of *init*, or the sum of *containers*, as in the kubelet.

        A container without a limit leaves its pod without one; a limit of 0 is the least that the kernel takes.
        """
        most = _total(("limits", CPU), containers, init)
        cpu = _total(("requests", CPU), containers, init) or most
        self.shares = min(max(cpu * 1024 // 1000, MIN_SHARES), MAX_SHARES)
        self.quota: int | None = None
        if _all_have(("limits", CPU), containers + init):
            self.quota = min(max(most * PERIOD // 1000, _LEAST_QUOTA_US), MAX_QUOTA_US)

        self.request = _total(("requests", MEMORY), containers, init)
        self.memory: int | None = None
        if _all_have(("limits", MEMORY), containers + init):
            memory = _total(("limits", MEMORY), containers, init)
            self.memory = min(max(memory, _LEAST_MEMORY), _MOST)

    def resources(self) -> dict[str, dict[str, int]]:
        """Return ``cpu`` and ``memory`` of the OCI runtime specification, without limits that are none."""
        cpu = {"shares": self.shares, "period": PERIOD}
        if self.quota is not None:
            cpu["quota"] = self.quota
        resources = {"cpu": cpu}
        if self.memory is not None:
            resources["memory"] = {"limit": self.memory}
        return resources


def _total(kind: tuple[str, str], containers: list[Amounts], init: list[Amounts]) -> int:
    total = 0
    for amounts in containers:
        total += amounts.get(kind, 0)
    for amounts in init:
        total = max(total, amounts.get(kind, 0))
    return total


def _all_have(kind: tuple[str, str], containers: list[Amounts]) -> bool:
    return all(kind in amounts for amounts in containers)


def read_batch(annotation: str, container: str | None) -> Batch | None:
    """Return the batch resources of a container, or with None of the pod; None if it requests none.

    :raises Refusal: the annotation is not as Koordinator writes it.
    """
    document = annotated.read(_DOCUMENT, annotation, SPEC)
    if document is None:
        return None
    containers = _containers(document, "containers", container)
    init = _containers(document, "initContainers", container)
    for amounts in containers + init:
        if amounts:
            return Batch(containers, init)
    return None


def _containers(document: dict[str, Any], kind: str, container: str | None) -> list[Amounts]:
    """Return what each container asks for; with *container*, that one alone."""
    containers = []
    for name, given in document.get(kind, {}).items():
        if container in (None, name):
            where = f"{SPEC}.{kind}.{shorten(name)}"
            containers.append(_amounts(given, "requests", where) | _amounts(given, "limits", where))
    return containers


def _amounts(given: dict[str, Any], key: str, where: str) -> Amounts:
    """Return the amounts of a container's requests or limits, of both tiers together."""
    amounts: Amounts = {}
    for name, amount in given.get(key, {}).items():
        kind = _KINDS.get(name)
        if kind is not None:
            more = quantity(amount, f"{where}.{key}.{name}")
            amounts[key, kind] = min(amounts.get((key, kind), 0) + more, _MOST)
    return amounts


def quantity(value: object, where: str) -> int:
    """Return a quantity of Kubernetes such as ``1500``, ``1.5k``, ``129e6`` or ``1Gi``, rounded up.

    Source: ``resource.Quantity`` of k8s.io/apimachinery.

    :raises Refusal: it is none, or negative, or more than 2**63 - 1.
    """
    shown = _text_of(value)
    unit = shown.lstrip("0123456789.")
    whole, _, part = shown.removesuffix(unit).partition(".")
    digits = f"{whole}{part}"
    factor = _factor(unit)
    if factor is None or not digits.isdigit():
        raise Refusal(
            f"{where}: found {describe(value)}, expected a quantity such as 1500, 129e6 or 2Gi"
        )
    times, over = factor
    amount: int = -(-int(digits) * times // (over * 10 ** len(part)))  # rounded up
    if amount > _MOST:
        raise Refusal(f"{where}: found {describe(value)}, expected at most 2**63 - 1")
    return amount


def _text_of(value: object) -> str:
    """Return a number, or a string of a number's length, without a plus; "" for any other value."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    shown = str(value).removeprefix("+")
    return shown if len(shown) < 40 else ""


def _factor(unit: str) -> tuple[int, int] | None:
    """Return what a number with a unit or an exponent is multiplied with, and divided by; None for another text."""
    if unit in _UNITS:
        return _UNITS[unit]
    sign = unit[1:2]
    digits = unit[1:]
    if sign in ("+", "-"):
        digits = digits[1:]
    if unit[:1] not in ("e", "E") or not digits.isascii() or not digits.isdigit():
        return None
    power = 10 ** min(int(digits), 99)
    return (1, power) if sign == "-" else (power, 1)
