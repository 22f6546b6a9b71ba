"""A result appears in its place whole, or not at all; what is there before stays until then."""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path

import pytest

from nri.authoring.build_errors import BuildError
from nri.authoring.workplace import PREFIX, Workplace


def make(folder: Path, text: str) -> Path:
    """Make a folder that looks like a result."""
    (folder / "_internal").mkdir(parents=True)
    (folder / "_internal/base_library.zip").touch()
    (folder / "plugin").write_text(text)
    (folder / "plugin").chmod(0o755)
    return folder


def build(work: Workplace) -> str:
    """Make a new result in a temporary folder."""
    return str(make(Path(work.folder) / "built", "new"))


def test_a_result_is_moved_to_its_place_and_nothing_else_is_left(tmp_path: Path) -> None:
    with Workplace(str(tmp_path / "a/dist")) as work:
        work.install(build(work), work.target("plugin"))
    assert os.listdir(tmp_path / "a/dist") == ["plugin"]
    assert (tmp_path / "a/dist/plugin/plugin").read_text() == "new"


@pytest.mark.parametrize("error", [BuildError("refused"), KeyboardInterrupt()])
def test_after_an_error_all_is_as_before(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)), Workplace(str(tmp_path / "a/b")) as work:
        build(work)
        raise error
    assert os.listdir(tmp_path) == []
    make(tmp_path / "dist/plugin", "old")
    with pytest.raises(type(error)), Workplace(str(tmp_path / "dist")) as work:
        work.target("plugin")
        raise error
    assert os.listdir(tmp_path / "dist") == ["plugin"]
    assert (tmp_path / "dist/plugin/plugin").read_text() == "old"


def test_an_earlier_result_is_replaced_in_one_step(tmp_path: Path) -> None:
    target = make(tmp_path / "dist/plugin", "old")
    seen: set[str] = set()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            try:
                seen.add((target / "plugin").read_text())
            except FileNotFoundError:
                seen.add("nothing")

    thread = threading.Thread(target=look)
    with Workplace(str(tmp_path / "dist")) as work:
        built = build(work)
        thread.start()
        for _ in range(501):  # each exchange undoes the one before
            work.install(built, str(target))
        over.set()
        thread.join()
    assert (target / "plugin").read_text() == "new"
    assert seen <= {"old", "new"}


def test_without_an_exchange_an_earlier_result_is_replaced_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_args, **_options: object())  # a libc without renameat2
    target = make(tmp_path / "dist/plugin", "old")
    with Workplace(str(tmp_path / "dist")) as work:
        work.install(build(work), str(target))
    assert (target / "plugin").read_text() == "new"
    assert os.listdir(tmp_path / "dist") == ["plugin"]


def test_a_result_that_cannot_be_moved_leaves_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_args, **_options: object())
    target = make(tmp_path / "dist/plugin", "old")
    with (
        pytest.raises(BuildError, match="plugin: can't be written: No such file"),
        Workplace(str(tmp_path / "dist")) as work,
    ):
        work.install(work.path("missing"), str(target))
    assert (target / "plugin").read_text() == "old"


def test_other_files_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(make(tmp_path / "elsewhere", "mine"))
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources/plugin.py").write_text("mine")
    (make(tmp_path / "more", "mine") / "notes").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    for name in ("file", "link", "sources", "more"):
        with (
            pytest.raises(BuildError, match="exists and is no result of nri build"),
            Workplace(str(tmp_path)) as work,
        ):
            work.target(name)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_a_killed_build_left_is_removed_and_that_of_a_running_one_is_not(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}killed/work").mkdir(parents=True)
    with Workplace(str(tmp_path)) as running:
        with Workplace(str(tmp_path)):
            assert os.path.isdir(running.folder)
        assert os.listdir(tmp_path) == [os.path.basename(running.folder)]
    assert os.listdir(tmp_path) == []


def test_a_place_where_nothing_can_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (str(tmp_path / "file"), str(tmp_path / "file/dist"), "/proc/nri-build"):
        with pytest.raises(BuildError, match=r"can't be written: .*expected a folder"), Workplace(place):
            pass
    assert os.listdir(tmp_path) == ["file"]
