"""CPU lists: a text gives the set of its numbers and ranges, or a CpuListError of one printable line. No CPU is
outside of a kernel's range. The canonical text of a set gives that set, and is written the same again.
"""

from __future__ import annotations

from nri.cgroups import MAX_CPU, CpuListError, parse_cpus, render_cpus


def check(data: bytes) -> None:
    """Parse the bytes as a list."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        cpus = parse_cpus(text)
    except CpuListError as error:
        assert str(error).isprintable()
        assert len(str(error)) < 2000, "an error carries the list"
        return
    assert all(0 <= cpu <= MAX_CPU for cpu in cpus)
    assert cpus == _model(text)
    canonical = render_cpus(cpus)
    assert parse_cpus(canonical) == cpus
    assert render_cpus(parse_cpus(canonical)) == canonical


def _model(text: str) -> set[int]:
    cpus: set[int] = set()
    for item in text.split(",") if text.strip() else ():
        ends = [int(end) for end in item.strip().split("-")]
        cpus.update(range(ends[0], ends[-1] + 1))
    return cpus


SEEDS = (
    b"0-3,8\n",
    b" 0-1 , 3\n",
    b"",
    b"8191",
    b"0-8191",
    b"0-8192",
    b"3-1",
    b"0,,1",
    b"0-9:1/2",
    b"007",
    b"0" * 400,
    "٣,²".encode(),
    b"\xff",
    b",".join([b"0-8191"] * 500),
)
WORDS = (b"0-", b"8191", b",", b"-", b"4294967295")
