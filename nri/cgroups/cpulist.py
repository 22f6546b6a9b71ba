"""CPU lists such as ``0-3,8``: the kernel's text format for sets of CPUs.

Source: the kernel's ``Documentation/admin-guide/cgroup-v2.rst`` (``cpuset.cpus``) and ``cpuset(7)``, "List
format". Only plain lists are accepted. Strides (``0-9:1/2``) and words (``all``, ``N``), which newer kernels
read, are refused: no kernel writes them, and only CPUs that a person named may be set.
"""

from __future__ import annotations

from .errors import CpuListError, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_CPU = 8191
"""The greatest CPU number: the largest ``NR_CPUS`` that Linux can be built with is 8192 (x86, MAXSMP)."""

MAX_TEXT = 65536
"""The maximum length of a text in characters. All 8192 CPUs, one by one, take 39850."""

_EXPECTED = "; expected numbers and ranges with commas between them, such as '0-3,8'"


def parse(text: str) -> frozenset[int]:
    """Return the CPUs that *text* names; blanks around it and its items are ignored, and an empty text means none.

    Work and memory are bounded by the text's length: a range is expanded only after both of its ends are checked.

    :raises CpuListError: an item is not ``N`` or ``N-M`` with 0 <= N <= M <= MAX_CPU.
    """
    if len(text) > MAX_TEXT:
        raise CpuListError(f"it is too long: at most {MAX_TEXT} characters are read", text)
    if not text.strip():
        return frozenset()
    mask = 0  # one bit per CPU: repeating "0-8191" costs nothing
    for item in text.split(","):
        first, dash, last = item.strip().partition("-")
        low = _number(first, item, text)
        high = _number(last, item, text) if dash else low
        if low > high:
            raise CpuListError(
                f"range {quoted(item)} is reversed, '{high}-{low}' would be right", text
            )
        mask |= ((1 << (high - low + 1)) - 1) << low
    return of_mask(mask)


def of_mask(mask: int) -> frozenset[int]:
    """Return the numbers of the bits that are set."""
    return frozenset([cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1])


def render(cpus: Iterable[int]) -> str:
    """Return the canonical list: ascending, without duplicates, neighbours joined; "" for no CPU.

    :raises CpuListError: a number is outside of 0..MAX_CPU.
    """
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if not 0 <= cpu <= MAX_CPU:
            raise CpuListError(f"CPU number {cpu} is outside of 0-{MAX_CPU}")
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    items = []
    for low, high in ranges:
        items.append(f"{low}-{high}" if low < high else str(low))
    return ",".join(items)


def _number(digits: str, item: str, text: str) -> int:
    if not digits.encode("ascii", "replace").isdigit():
        raise CpuListError(f"{quoted(item)} is no CPU and no range", text, _EXPECTED)
    # It may have thousands of digits: the first five show that it is too great.
    number = int("0" + digits.lstrip("0")[:5])
    if number > MAX_CPU:
        raise CpuListError(f"there is no CPU {quoted(digits)}, the greatest is {MAX_CPU}", text)
    return number
