"""Batch resources of Koordinator: CPUs and memory that pods request beside those of Kubernetes.

A webhook of Koordinator writes what each container requests to the annotation :data:`SPEC`, since runtimes do not see
extended resources: ``{"containers": {"main": {"limits": {"kubernetes.io/batch-cpu": "1500",
"kubernetes.io/batch-memory": "2Gi"}, "requests": {…}}}}``; CPUs are in thousandths.
"""

from __future__ import annotations

from nri.cgroups.conversion import MAX_SHARES, MIN_SHARES
from nri.types import DecodeError, gojson
from nri.types.gojson import describe, shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SPEC = "node.koordinator.sh/extended-resource-spec"
CPU, MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
PERIOD = 100_000
"""Microseconds, as the kubelet has it."""

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {f"{unit}i": 1024**power for power, unit in enumerate("KMGT", 1)}
_MOST = 2**62


class Batch:
    """The batch resources of one container, or of all containers of a pod.

    :ivar request: of memory, in bytes; 0 for none.
    :ivar resources: ``cpu`` and ``memory`` of the OCI runtime specification, in its units; -1 is no limit.
    """

    def __init__(self, items: list[dict[str, Any]]) -> None:
        requests, limits = ([item.get(name, {}) for item in items] for name in ("requests", "limits"))
        asked, most = (sum([amounts.get(CPU, 0) for amounts in kind]) for kind in (requests, limits))
        memory = sum([limit.get(MEMORY, 0) for limit in limits])
        self.request = sum([request.get(MEMORY, 0) for request in requests])
        shares = min(max((asked or most) * 1024 // 1000, MIN_SHARES), MAX_SHARES)
        # A container without a limit leaves its pod without one.
        quota = max(most * PERIOD // 1000, 1000) if all(limit.get(CPU) for limit in limits) else -1
        self.resources: dict[str, Any] = {
            "cpu": {"shares": shares, "quota": quota, "period": PERIOD},
            "memory": {"limit": memory if all(limit.get(MEMORY) for limit in limits) else -1},
        }


def read(text: str, container: str | None) -> Batch | None:
    """Return the batch resources of a container, or with None of the pod; None if it requests none.

    :raises DecodeError: the annotation is not as Koordinator writes it.
    """
    try:
        value: Any = gojson.loads(text)
    except DecodeError as error:
        raise DecodeError(f"{SPEC}: {error}") from error
    listed = value.get("containers") if isinstance(value, dict) else None
    if not isinstance(listed, dict):
        raise DecodeError(f"{SPEC}: found {describe(listed)} for containers, expected an object")
    names = listed if container is None else [name for name in listed if name == container]
    items = [_read_container(listed[name], f"{SPEC}: containers.{shorten(name)}") for name in names]
    return Batch(items) if any(items) else None


def _read_container(value: Any, where: str) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    for kind in ("requests", "limits"):
        given = value.get(kind) if isinstance(value, dict) else value
        if given is not None and not isinstance(given, dict):
            raise DecodeError(f"{where}.{kind}: found {describe(given)}, expected an object")
        for name in (CPU, MEMORY):
            if given and name in given:
                resources.setdefault(kind, {})[name] = quantity(given[name], f"{where}.{kind}.{name}")
    return resources


def quantity(value: object, where: str) -> int:
    """Return a whole quantity of Kubernetes, such as ``1500``, ``2k`` or ``1Gi``.

    :raises DecodeError: it is none, or negative.
    """
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    digits = text.rstrip("kKMGTi") if isinstance(text, str) else ""
    unit = _UNITS.get(text[len(digits) :]) if isinstance(text, str) else None
    if unit is None or not (digits.isascii() and digits.isdigit()) or len(digits) > 19:
        raise DecodeError(f"{where}: found {describe(value)}, expected a whole quantity such as 1500 or 2Gi")
    if (amount := int(digits) * unit) > _MOST:
        raise DecodeError(f"{where}: found {describe(value)}, expected at most 2**62")
    return amount
