"""The marks of a build: the same build for all executables, another one as soon as one of them differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri import build_mark
from nri.authoring.marking import mark_build

if TYPE_CHECKING:
    from pathlib import Path

MODULES = {"a": "nri.a", "b": "nri.b"}


def marks(folder: Path, **programs: bytes) -> dict[str, tuple[str, str]]:
    folder.mkdir()
    for name, program in programs.items():
        (folder / name).write_bytes(program)
    mark_build(str(folder), MODULES)
    assert all((folder / name).read_bytes().startswith(program) for name, program in programs.items())
    return {name: build_mark.decode((folder / name).read_bytes()[-build_mark.SIZE :]) for name in programs}


def test_all_executables_have_the_same_build_and_their_own_module(tmp_path: Path) -> None:
    found = marks(tmp_path / "x", a=b"1", b=b"2")
    assert found["a"][0] == found["b"][0] != ""
    assert (found["a"][1], found["b"][1]) == ("nri.a", "nri.b")


def test_equal_builds_have_equal_marks_and_others_do_not(tmp_path: Path) -> None:
    first = marks(tmp_path / "x", a=b"1", b=b"2")
    assert marks(tmp_path / "y", a=b"1", b=b"2") == first
    assert marks(tmp_path / "z", a=b"1", b=b"3")["a"] != first["a"]
    assert marks(tmp_path / "swapped", a=b"2", b=b"1")["a"] != first["a"]
