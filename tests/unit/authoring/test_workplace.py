"""A result appears in its place whole, or not at all; what is there before stays until then."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from nri.authoring import workplace
from nri.authoring.build_errors import BuildError
from nri.authoring.workplace import PREFIX, Workplace

if TYPE_CHECKING:
    from pathlib import Path


def make(folder: Path, text: str) -> Path:
    """Make a folder that looks like a result."""
    (folder / "_internal").mkdir(parents=True)
    (folder / "_internal/base_library.zip").touch()
    (folder / "plugin").write_text(text)
    (folder / "plugin").chmod(0o755)
    return folder


def test_a_result_is_moved_to_its_place_and_nothing_else_is_left(tmp_path: Path) -> None:
    with Workplace(str(tmp_path / "a/dist")) as work:
        built = make(tmp_path / "a/dist" / os.path.basename(work.folder) / "built", "new")
        work.install(str(built), work.target("plugin"))
    assert os.listdir(tmp_path / "a/dist") == ["plugin"]
    assert (tmp_path / "a/dist/plugin/plugin").read_text() == "new"


@pytest.mark.parametrize("error", [BuildError("refused"), KeyboardInterrupt(), SystemExit(143)])
def test_after_an_error_all_is_as_before(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)), Workplace(str(tmp_path / "a/b")) as work:
        make(tmp_path / "a/b" / os.path.basename(work.folder) / "built", "new")
        raise error
    assert os.listdir(tmp_path) == []


def test_after_an_error_the_earlier_result_stays(tmp_path: Path) -> None:
    make(tmp_path / "dist/plugin", "old")
    with pytest.raises(BuildError), Workplace(str(tmp_path / "dist")) as work:
        work.target("plugin")
        raise BuildError("refused")
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
        built = make(tmp_path / "dist" / os.path.basename(work.folder) / "built", "new")
        thread.start()
        for _ in range(501):  # each exchange undoes the one before
            work.install(str(built), str(target))
        over.set()
        thread.join()
    assert (target / "plugin").read_text() == "new"
    assert seen <= {"old", "new"}


def test_without_an_exchange_an_earlier_result_is_replaced_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workplace, "_exchange", lambda *_paths: False)
    target = make(tmp_path / "dist/plugin", "old")
    with Workplace(str(tmp_path / "dist")) as work:
        built = make(tmp_path / "dist" / os.path.basename(work.folder) / "built", "new")
        work.install(str(built), str(target))
    assert (target / "plugin").read_text() == "new"
    assert os.listdir(tmp_path / "dist") == ["plugin"]


def occupy(target: Path, kind: str) -> None:
    if kind == "a file":
        target.write_text("mine")
    elif kind == "a link":
        target.symlink_to(make(target.parent / "elsewhere", "mine"))
    elif kind == "a folder of sources":
        target.mkdir()
        (target / "plugin.py").write_text("mine")
    else:
        make(target, "mine")
        (target / "notes").write_text("mine")


@pytest.mark.parametrize("kind", ["a file", "a link", "a folder of sources", "a result with something else"])
def test_what_no_build_has_made_is_not_replaced(tmp_path: Path, kind: str) -> None:
    occupy(tmp_path / "plugin", kind)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BuildError, match="exists and is no result of nri build"), Workplace(str(tmp_path)) as work:
        work.target("plugin")
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
