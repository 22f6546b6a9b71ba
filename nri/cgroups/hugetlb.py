"""The knobs of huge pages, whose names have the size of a page: ``hugetlb.2MB.max``.

Source: the kernel's ``Documentation/admin-guide/cgroup-v1/hugetlb.rst`` and ``cgroup-v2.rst`` ("HugeTLB Interface
Files"), ``mm/hugetlb_cgroup.c`` (mem_fmt: sizes are in KB, MB or GB; limits are rounded down to whole pages).
"""

from __future__ import annotations

from .knob_forms import OneFile
from .knob_kinds import BytesKind
from .knob_row import COUNT, LIMIT, SCOPE, Knob, shown

NAMES = ("hugetlb.SIZE.max", "hugetlb.SIZE.rsvd.max", "hugetlb.SIZE.current", "hugetlb.SIZE.rsvd.current")
"""The names, where SIZE is a size such as 2MB."""

_SIZES = ("KB", "MB", "GB")


def knob(name: str) -> Knob | None:
    """Return the knob of huge pages with this name; None if it is none of :data:`NAMES`."""
    parts = name.split(".", 2)
    if len(parts) != 3 or f"hugetlb.SIZE.{parts[2]}" not in NAMES or parts[0] != "hugetlb":
        return None
    digits, unit = parts[1][:-2], parts[1][-2:]
    if unit not in _SIZES or not (digits.isascii() and digits.isdigit()) or len(digits) > 4 or digits[0] == "0":
        return None
    old = f"hugetlb.{parts[1]}.{'rsvd.' if 'rsvd' in parts[2] else ''}"
    needs = f"CONFIG_CGROUP_HUGETLB and huge pages of {parts[1]}" + (", Linux 5.7" if "rsvd" in parts[2] else "")
    if name.endswith("current"):
        return shown(name, COUNT, SCOPE, OneFile(f"{old}usage_in_bytes", COUNT), needs)
    step = int(digits) << 10 * (_SIZES.index(unit) + 1)
    kinds = {version: BytesKind(step, version) for version in (1, 2)}
    v1 = OneFile(f"{old}limit_in_bytes", kinds[1])
    return Knob(name, kinds[2], LIMIT, OneFile(name, kinds[2]), v1, needs=needs)
