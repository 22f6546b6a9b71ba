"""The record: a file for each pod and container, in a directory that it cannot rely on."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nri.node.record import Facts
from nri.v1bridge.memory import Memory, Row
from nri.v1bridge.record import Record
from tests.unit.node.builders import facts, had


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run/nri/v1bridge.record"


@pytest.fixture
def loaded(
    path: Path, caplog: pytest.LogCaptureFixture
) -> Callable[[], tuple[Record, dict[str, Any]]]:
    """Make records of the path, as bridges do that are started one after the other; with what is in them."""
    caplog.set_level(logging.INFO, "nri.v1bridge")

    def make() -> tuple[Record, dict[str, Any]]:
        record = Record()
        return record, {id_: about.name for id_, about in record.load(str(path)).items()}

    return make


def of(name: object) -> Facts:
    about = facts(had("a", 1))
    about.name = str(name)
    return about


Loaded = Callable[[], tuple[Record, dict[str, Any]]]


def names(path: Path) -> list[str]:
    return sorted(os.listdir(path))


def test_values_are_written_replaced_and_removed(path: Path, loaded: Loaded) -> None:
    record, values = loaded()
    assert values == {}
    for id_, x in (("aaa", 1), ("bbb", 2), ("aaa", 3)):
        record.put(id_, of(x))
    assert loaded()[1] == {"aaa": "3", "bbb": "2"}
    record.put("aaa", Facts())
    record.put("never", Facts())
    assert (loaded()[1], names(path)) == ({"bbb": "2"}, ["bbb.json"])
    assert (path / "bbb.json").stat().st_mode & 0o7777 == 0o600
    assert path.stat().st_mode & 0o7777 == 0o700
    record, _ = loaded()
    record.put("bbb", of(4))
    assert loaded()[1] == {"bbb": "4"}


def test_damaged_files_and_those_of_others_count_as_nothing(path: Path, loaded: Loaded) -> None:
    path.mkdir(parents=True)
    texts = ["{", "", "[" * 20_000, "[]", "null", '{"x"', "\xff", '{"seen": [1e999]}']
    for number, text in enumerate(texts):
        (path / f"wrong{number}.json").write_bytes(text.encode("latin-1"))
    (path / "right.json").write_text('{"name": "1"}')
    os.mkfifo(path / "fifo.json")
    (path / "directory.json").mkdir()
    for each in ("README", "-a.json", "b c.json", ".json", ".in-use.0"):
        (path / each).touch()
    before = names(path)
    assert loaded()[1] == {"right": "1"}
    assert names(path) == before


def test_before_the_first_load_there_is_no_directory() -> None:
    memory = Memory()
    memory.record.put("aaa", of(1))
    memory.retry()
    assert (memory.record.directory, memory.record.fault, memory.lacking()[0]) == ("", "", [])


@pytest.mark.parametrize("id_", ["e e", "../x", "x" * 300, "", "a\0b", "\udce9", ".in-use.1"])
def test_ids_that_are_no_names_have_no_file(path: Path, loaded: Loaded, id_: str) -> None:
    record, _ = loaded()
    record.put(id_, of(1))
    assert (record.fault, names(path)) == ("", [])


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda path: path.write_text("aaa\n"), "{path} is no directory"),
        (os.mkfifo, "{path} is no directory"),
        (lambda path: path.symlink_to("nowhere"), "{path} is no directory"),
        (lambda path: (path.mkdir(), path.chmod(0o777)), "{path} is writable by others (mode 0777"),
        (lambda path: path.parent.chmod(0o777), "{path.parent} is writable by others (mode 0777"),
    ],
    ids=["file", "FIFO", "link", "mode", "parent"],
)
def test_unreliable_directory_stays_and_is_reported_once(
    path: Path,
    loaded: Loaded,
    caplog: pytest.LogCaptureFixture,
    spoil: Callable[[Path], object],
    reason: str,
) -> None:
    path.parent.mkdir(parents=True)
    spoil(path)
    before = (os.lstat(path).st_ino, os.lstat(path).st_mode) if os.path.lexists(path) else None
    record, values = loaded()
    assert values == {}
    for _ in range(2):
        record.put("aaa", of(1))
    assert [*path.parent.glob("*/aaa*")] == []
    after = os.lstat(path)
    assert before in (None, (after.st_ino, after.st_mode))
    assert record.unwritten == {"aaa"}
    (message,) = caplog.messages
    assert message.startswith(f"the record {path} cannot be used: {reason.format(path=path)}")


def test_a_write_that_failed_is_made_up_for(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    memory = Memory()
    memory.load(str(path))
    record = memory.record
    record.put("before", of(1))
    path.rename(path.with_name("aside"))
    path.touch()  # opening a file in it fails
    record.put("before", Facts())
    record.put("gone", of(1))
    assert record.fault == f"the record {path} cannot be used: {path} is no directory"
    means = "what containers have had is known only until the bridge ends"
    assert caplog.messages[-1] == f"{record.fault}; {means}"
    path.unlink()
    path.with_name("aside").rename(path)
    memory.retry()
    assert (record.fault, names(path)) == ("", [])


def test_a_removed_directory_is_made_again(path: Path, loaded: Loaded) -> None:
    record, _ = loaded()
    record.put("aaa", of(1))
    path.rename(path.with_name("aside"))
    record.put("aaa", of(2))
    record.put("bbb", of(3))
    assert loaded()[1] == {"aaa": "2", "bbb": "3"}


@pytest.mark.parametrize("is_made_again", [False, True])
def test_all_is_written_again_when_the_directory_was_removed(
    path: Path, is_made_again: bool
) -> None:
    memory = Memory()
    memory.load(str(path))
    for id_ in ("aaa", "bbb"):
        memory.rows[id_] = Row(id_, of(1))
        memory.lack(memory.rows[id_], "no", "failed")
    before = names(path)
    path.rename(path.with_name("aside"))
    if is_made_again:
        path.mkdir(mode=0o700)
    memory.retry()
    assert names(path) == before == ["aaa.json", "bbb.json"]
    assert memory.record.unwritten == set()
