"""Files of a cgroup: any bytes in the place of a knob are a value of its type, or a CgroupError of one printable line
that names the file. A value that may be written is rendered as a text that is read as the same value.

The first byte chooses the knob, the rest is what the kernel shows.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

from fuzz.targets import split
from nri.cgroups import CgroupError, knobs
from nri.cgroups.cpuset import Numbers
from nri.cgroups.knob_table import TABLE, find
from nri.cgroups.knob_values import DefaultWeight
from nri.cgroups.quota import Quotas

NAMES = [*TABLE]
CHOICES = len(NAMES)


def check(data: bytes) -> None:
    """Read the bytes as the files of one knob in both versions."""
    choice, shown = split(data, CHOICES)
    knob, text = find(NAMES[choice]), shown.decode("ascii", "backslashreplace").strip()
    with mock.patch.multiple(knobs, read_optional=lambda _: text, exists=lambda _: True):
        for file in knob.files.values():
            try:
                value = file.read("/cgroup")
            except CgroupError as error:
                assert str(error).startswith("/cgroup/")
                assert str(error).isprintable()
                assert len(str(error)) < 1000, "an error carries the file"
                continue
            _round_trip(file.values, value)


def _round_trip(values: Any, value: Any) -> None:
    if not isinstance(values, Quotas | DefaultWeight | Numbers) and values.accepts(value):
        assert values.same(values.parse(values.word(value)), value)


def _seed(name: str, text: str) -> bytes:
    return bytes([NAMES.index(name)]) + text.encode()


SEEDS = (
    _seed("cpu.weight", "100\n"),
    _seed("cpu.max", "max 100000\n"),
    _seed("cpu.max", "50000 100000\n"),
    _seed("cpuset.mems", "0-3,8\n"),
    _seed("memory.max", "9223372036854771712\n"),
    _seed("memory.swap.max", "max\n"),
    _seed("memory.oom.group", "1\n"),
    _seed("io.weight", "default 100\n8:0 200\n"),
)
WORDS = (
    b"max",
    b"default ",
    b"8:0 ",
    b"rbps=",
    b"target=",
    b"9223372036854771712",
    b"-1",
    b"\n",
    b"0-3",
)
