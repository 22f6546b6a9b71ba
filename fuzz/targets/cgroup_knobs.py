"""Files of a cgroup: any bytes in the place of a knob are a value of its type, or a CgroupError of one printable line
that names the file. So it is with pressure and statistics. A value that may be written is rendered as a text that is
read as the same value.

The first byte chooses the knob, the rest is what the kernel shows.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

from fuzz.targets import split
from nri.cgroups import CgroupError, keyed, knobs, pressure
from nri.cgroups.knob_devices import DeviceKind, LimitsKind
from nri.cgroups.knob_kinds import QuotaKind
from nri.cgroups.knob_table import TABLE, find

NAMES = [*TABLE, "hugetlb.2MB.max", "hugetlb.1GB.rsvd.current"]
CHOICES = len(NAMES)


def check(data: bytes) -> None:
    """Read the bytes as the files of one knob in both versions, as pressure and as statistics."""
    choice, shown = split(data, CHOICES)
    knob, text = find(NAMES[choice]), shown.decode("ascii", "backslashreplace").strip()
    with mock.patch.multiple(knobs, read_optional=lambda _: text, exists=lambda _: True):
        for form in knob.forms.values():
            value = _value(lambda form=form: form.read("/cgroup"))
            if value is not None:
                _round_trip(form.kind, value)
        _value(lambda: pressure.read("/cgroup", "cpu"))
    for parse in (keyed.parse_flat, keyed.parse_io, lambda each: keyed.parse_io_v1(each, "bytes")):
        try:
            numbers = parse(text)
        except ValueError:
            continue
        assert len(numbers) <= len(text)


def _value(read: Any) -> Any:
    try:
        return read()
    except CgroupError as error:
        assert str(error).startswith("/cgroup/")
        assert str(error).isprintable()
        assert len(str(error)) < 1000, "an error carries the file"
        return None


def _round_trip(kind: Any, value: Any) -> None:
    if not isinstance(kind, QuotaKind | DeviceKind | LimitsKind) and kind.accepts(value):
        assert kind.same(kind.parse(kind.render(value).strip()), value)


def _seed(name: str, text: str) -> bytes:
    return bytes([NAMES.index(name)]) + text.encode()


SEEDS = (
    _seed("cpu.weight", "100\n"),
    _seed("cpu.weight.nice", "-20\n"),
    _seed("cpu.max", "max 100000\n"),
    _seed("cpu.max", "50000 100000\n"),
    _seed("cpu.uclamp.max", "12.34\n"),
    _seed("cpu.uclamp.max", "12.-4\n"),
    _seed("cpuset.cpus.partition", "root invalid (Parent is not a partition root)\n"),
    _seed("cpuset.mems", "0-3,8\n"),
    _seed("memory.max", "9223372036854771712\n"),
    _seed("memory.swap.max", "max\n"),
    _seed("memory.oom.group", "1\n"),
    _seed("io.weight", "default 100\n8:0 200\n"),
    _seed("io.max", "8:0 rbps=1048576 wbps=max riops=max wiops=120\n"),
    _seed("io.latency", "8:0 target=75000\n"),
    _seed("hugetlb.2MB.max", "9223372036852678656\n"),
    _seed(
        "pids.max", "some avg10=0.00 avg60=1.50 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n"
    ),
    _seed("pids.max", "8:0 Read 10\n8:0 Write 20\nTotal 30\n"),
    _seed("pids.max", "8:0 rbytes=1 depth=max\n"),
    _seed("pids.max", "nr_periods 0\nnr_throttled 1\n"),
)
WORDS = (
    b"max",
    b"default ",
    b"8:0 ",
    b"rbps=",
    b"target=",
    b"some avg10=",
    b"9223372036854771712",
    b"-1",
    b"\n",
    b"0-3",
)
