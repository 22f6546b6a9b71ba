"""CPU lists, ``0-3,8``: the form in which the kernel reads and writes sets of CPUs.

Source: the kernel's ``Documentation/admin-guide/cgroup-v2.rst`` (``cpuset.cpus``) and ``cpuset(7)``, "List
format". Only plain lists: the strides (``0-9:1/2``) and the words (``all``, ``N``) that newer kernels read
are refused, since no kernel writes them and no CPU that a person did not name should ever be set.
"""

from __future__ import annotations

from .errors import CpuListError, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_CPU = 8191
"""The greatest CPU number: the largest ``NR_CPUS`` that Linux can be built with is 8192 (x86, MAXSMP)."""

MAX_TEXT = 65536
"""The longest text, in characters, that is looked at. All 8192 CPUs, each by itself, take 39850."""

_EXPECTED = "expected numbers and ranges with commas between them, such as '0-3,8'"


def parse(text: str) -> frozenset[int]:
    """Return the CPUs that *text* names; blanks around it and its items do not count, empty means none.

    Work and memory are bounded by the text's length: no range is expanded before both its ends are checked.
    Raises CpuListError for everything but ``N`` and ``N-M`` with 0 <= N <= M <= MAX_CPU.
    """
    if len(text) > MAX_TEXT:
        raise CpuListError(f"CPU list {quoted(text)} is too long: at most {MAX_TEXT} characters are read")
    mask = 0  # a bit per CPU: ten thousand times "0-8191" costs no more than once
    if not text.strip():
        return frozenset()
    for item in text.split(","):
        first, dash, last = item.strip().partition("-")
        low = _number(first, item, text)
        high = _number(last, item, text) if dash else low
        if low > high:
            raise CpuListError(
                f"CPU list {quoted(text)}: range {quoted(item)} is reversed, '{high}-{low}' would be right"
            )
        mask |= ((1 << (high - low + 1)) - 1) << low
    return frozenset(cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1)


def render(cpus: Iterable[int]) -> str:
    """Return the canonical list: ascending, no CPU twice, neighbours joined; the empty string for no CPU.

    Raises CpuListError for a number outside of 0..MAX_CPU.
    """
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if not 0 <= cpu <= MAX_CPU:
            raise CpuListError(f"CPU number {cpu} is outside of 0-{MAX_CPU}")
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(f"{low}-{high}" if low < high else str(low) for low, high in ranges)


def _number(digits: str, item: str, text: str) -> int:
    if not (digits.isascii() and digits.isdigit()):  # isdigit alone takes Arabic digits and superscripts
        raise CpuListError(f"CPU list {quoted(text)}: {quoted(item)} is no CPU and no range; {_EXPECTED}")
    significant = digits.lstrip("0") or "0"
    if len(significant) > len(str(MAX_CPU)) or int(significant) > MAX_CPU:
        raise CpuListError(f"CPU list {quoted(text)}: there is no CPU {quoted(digits)}, the greatest is {MAX_CPU}")
    return int(significant)
