"""Files with a number for each of many keys: ``memory.stat``, ``cpu.stat``, events; and ``io.stat``, by device.

The keys are the kernel's, which differ between v1 and v2 and grow with each release. What is not a whole number, such
as ``depth=max`` in io.stat, is left out.

Sources: the kernel's ``Documentation/admin-guide/cgroup-v2.rst``, "Format" (flat keyed, nested keyed) and the files
of each controller; for v1 ``admin-guide/cgroup-v1/memory.rst`` (5.2), ``cpuacct.rst`` and ``blkio-controller.rst``.
"""

from __future__ import annotations

from . import hugetlb, knobs
from .errors import CgroupError, KnobValueError, quoted
from .knob_devices import is_device, parse_nested

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .resolve import Place

FILES = {
    "cpu.stat": {1: "cpu.stat", 2: "cpu.stat"},
    "cpu.stat.local": {1: "cpu.stat.local", 2: "cpu.stat.local"},
    "cpuacct.stat": {1: "cpuacct.stat"},
    "memory.stat": {1: "memory.stat", 2: "memory.stat"},
    "memory.events": {2: "memory.events"},
    "memory.events.local": {2: "memory.events.local"},
    "memory.swap.events": {2: "memory.swap.events"},
    "io.stat": {1: "blkio.throttle.io_service_bytes_recursive", 2: "io.stat"},
    "pids.events": {1: "pids.events", 2: "pids.events"},
    "hugetlb.SIZE.events": {2: "hugetlb.SIZE.events"},
}
"""The files by their names here, with those by version of the hierarchy; SIZE is a size of huge pages such as 2MB."""

_IO_V1 = (("blkio.throttle.io_service_bytes_recursive", "bytes"), ("blkio.throttle.io_serviced_recursive", "ios"))
_WAYS = {"Read": "r", "Write": "w", "Discard": "d"}


def controller(name: str) -> str:
    """Return the controller of a file.

    :raises KnobValueError: there is no file with this name.
    """
    if _files(name) is None:
        raise KnobValueError(f"there are no statistics {quoted(str(name))}: expected one of {', '.join(FILES)}")
    return name.partition(".")[0]


def read(name: str, place: Place) -> dict[str, Any]:
    """Return the numbers of a file in a container's cgroup; of a scope with crun's child those of the scope."""
    version = place.mount.version
    file = (_files(name) or {}).get(version)
    if file is None:
        raise CgroupError(f"{place.directory} has no {name}: only cgroup v{3 - version} has these statistics")
    if name == "io.stat":
        return _io_v1(place.directory) if version == 1 else _parsed(place.directory, file, is_nested=True)
    return _parsed(place.directory, file)


def parse_flat(text: str) -> dict[str, int]:
    """Return the numbers in a text with a key and a number in each line; raise ValueError for another line."""
    found = {}
    for line in text.splitlines():
        key, blank, word = line.partition(" ")
        if not blank:
            raise ValueError(line)
        if _is_whole(word):
            found[key] = int(word)
    return found


def parse_io(text: str) -> dict[str, dict[str, int]]:
    """Return the numbers in the text of io.stat, by device; raise ValueError if it is none."""
    return {
        device: {key: int(word) for key, word in words.items() if _is_whole(word)}
        for device, words in parse_nested(text).items()
    }


def parse_io_v1(text: str, unit: str) -> dict[str, dict[str, int]]:
    """Return the numbers in a file of v1's throttling, by device, with io.stat's keys; *unit* ends these."""
    found: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        device, *words = line.split(" ")
        if device == "Total" and len(words) == 1:
            continue
        if not is_device(device) or len(words) != 2 or not _is_whole(words[1]):
            raise ValueError(line)
        if words[0] in _WAYS:
            found.setdefault(device, {})[_WAYS[words[0]] + unit] = int(words[1])
    return found


def _files(name: str) -> dict[int, str] | None:
    if name.endswith(".events") and hugetlb.knob(f"{name.removesuffix('.events')}.max") is not None:
        return {2: name}
    return FILES.get(name) if "SIZE" not in name else None


def _parsed(directory: str, file: str, *, is_nested: bool = False) -> dict[str, Any]:
    path = f"{directory}/{file}"
    text = knobs.read(path, f"the kernel lacks it, or {file.partition('.')[0]} is not enabled for this cgroup")
    try:
        return parse_io(text) if is_nested else parse_flat(text)
    except ValueError as error:
        lines = "'MAJOR:MINOR KEY=NUMBER …'" if is_nested else "'KEY NUMBER'"
        raise CgroupError(f"{path} holds {quoted(text)}: expected lines of {lines}") from error


def _io_v1(directory: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for file, unit in _IO_V1:
        path = f"{directory}/{file}"
        text = knobs.read(path, "the kernel lacks it, which needs CONFIG_BLK_DEV_THROTTLING")
        try:
            for device, numbers in parse_io_v1(text, unit).items():
                found.setdefault(device, {}).update(numbers)
        except ValueError as error:
            raise CgroupError(f"{path} holds {quoted(text)}: expected lines of 'MAJOR:MINOR Read NUMBER'") from error
    return found


def _is_whole(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= 20  # 64 bits have at most 20 digits
