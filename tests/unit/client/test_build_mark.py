"""The mark of an executable: what is written is read again, and anything else is no mark."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nri.authoring.packing import mark_build
from nri.client import build_mark

BUILD = "0123456789abcdef" * 2
MODULE = "nri.plugins.clearcfs"


@pytest.mark.parametrize(
    ("build", "module"),
    [
        ("", MODULE),
        (BUILD[1:], MODULE),
        (BUILD + "0", MODULE),
        (BUILD, ""),
        (BUILD, "nri invoke"),
        (BUILD, "nri/plugins"),
        (BUILD, "a" * build_mark.SIZE),
    ],
)
def test_a_value_that_does_not_fit_is_not_written(build: str, module: str) -> None:
    with pytest.raises(ValueError, match="expected 32 digits and the name of a module"):
        build_mark.encode(build, module)


def test_mark_is_read_as_it_was_written() -> None:
    mark = build_mark.encode(BUILD, MODULE)
    assert len(mark) == build_mark.SIZE
    assert build_mark.decode(mark) == (BUILD, MODULE)
    for size in (0, 1, build_mark.SIZE - 1, build_mark.SIZE + 1):
        assert build_mark.decode((mark * 2)[:size]) == ("", "")


@given(st.integers(0, build_mark.SIZE - 1), st.integers(1, 255))
@example(at=75, change=60)  # a separator, which str.rstrip() takes for white space
def test_a_damaged_mark_is_ignored_or_names_another_module_or_build(at: int, change: int) -> None:
    mark = bytearray(build_mark.encode(BUILD, MODULE))
    mark[at] ^= change
    assert build_mark.decode(bytes(mark)) != (BUILD, MODULE)


def marks(folder: Path, **programs: bytes) -> dict[str, tuple[str, str]]:
    folder.mkdir()
    for name, program in programs.items():
        (folder / name).write_bytes(program)
    mark_build(str(folder), {"a": "nri.a", "b": "nri.b"})
    assert all(
        (folder / name).read_bytes().startswith(program) for name, program in programs.items()
    )
    return {
        name: build_mark.decode((folder / name).read_bytes()[-build_mark.SIZE :])
        for name in programs
    }


def test_executables_of_one_build_share_its_mark(tmp_path: Path) -> None:
    first = marks(tmp_path / "x", a=b"1", b=b"2")
    assert first["a"][0] == first["b"][0] != ""
    assert (first["a"][1], first["b"][1]) == ("nri.a", "nri.b")
    assert marks(tmp_path / "y", a=b"1", b=b"2") == first
    assert marks(tmp_path / "z", a=b"1", b=b"3")["a"] != first["a"]
    assert marks(tmp_path / "swapped", a=b"2", b=b"1")["a"] != first["a"]
