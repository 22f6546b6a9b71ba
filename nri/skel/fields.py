"""The fields of a plugin conf, ``nri.skel.Conf``: those of ``nri.types.fields``, and CPU lists."""

from __future__ import annotations

from nri.types.conf import REQUIRED, ConfField
from nri.types.fields import (
    NAMESPACES,
    array,
    choice,
    flag,
    integer,
    mapping,
    namespaces,
    number,
    path,
    section,
    text,
    value,
)
from nri.types.gojson import describe
from nri.types.table import Rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "CPU_LIST",
    "NAMESPACES",
    "array",
    "choice",
    "cpus",
    "flag",
    "integer",
    "mapping",
    "namespaces",
    "number",
    "path",
    "section",
    "text",
    "value",
]

MAX_CPU = 8191
"""The highest number of a CPU, ``nri.cgroups.MAX_CPU``."""

_CPU = "0*(819[01]|81[0-8][0-9]|80[0-9]{2}|[1-7][0-9]{3}|[0-9]{1,3})"  # 0 to MAX_CPU


def _parse(text: str) -> frozenset[int]:
    from nri.cgroups import parse_cpus

    return parse_cpus(text)


def _why(text: str) -> str:
    """Return the fault of a text that is not a CPU list; "" if it is one."""
    from nri.cgroups import CpuListError

    try:
        _parse(text)
    except CpuListError as error:
        return f'found {describe(text)}, expected a CPU list such as "0-3,8": {error.reason}'
    return ""


CPU_LIST = Rule(
    str,
    lambda value: not _why(value),
    'a CPU list such as "0-3,8"',
    {
        "type": "string",
        "maxLength": 65536,
        "title": f"A list of CPUs from 0 to {MAX_CPU}, such as 0-1,8",
        "pattern": rf"^\s*({_CPU}(-{_CPU})?\s*(,\s*{_CPU}(-{_CPU})?\s*)*)?$",
    },
    explain=_why,
)
"""The rule for a CPU list."""


def cpus(description: str = "", *, default: Any = REQUIRED, key: str = "") -> frozenset[int]:
    """Return a field for a CPU list such as ``0-3,8``."""
    return ConfField(CPU_LIST, description, default, _parse, key)  # type: ignore[return-value] # what it will be
