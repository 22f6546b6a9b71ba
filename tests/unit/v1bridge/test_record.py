"""The record of containers that have had their create, and a directory that it cannot rely on."""

import json
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nri.types.v1 import Request
from nri.v1bridge import record as module
from nri.v1bridge.record import Record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run/nri/v1bridge.record"


@pytest.fixture
def loaded(path: Path, caplog: pytest.LogCaptureFixture) -> Callable[[], Record]:
    """Make records of the path, as bridges do that are started one after the other."""
    caplog.set_level(logging.INFO, "nri.v1bridge")

    def make() -> Record:
        made = Record()
        made.load(str(path))
        return made

    return make


def names(path: Path) -> list[str]:
    return sorted(os.listdir(path))


def test_discarded_and_missing_ids_are_forgotten(path: Path, loaded: Callable[[], Record]) -> None:
    record = loaded()
    for each in ("aaa", "bbb", "aaa", "ccc"):
        record.add(each)
    assert names(path) == ["aaa.created", "bbb.created", "ccc.created"]
    record.discard("aaa")
    assert "aaa" not in record
    record.discard("never")
    record.keep({"bbb", "other"})
    assert "ccc" not in record
    record.add("ddd")
    again = loaded()
    assert [each in again for each in ("aaa", "bbb", "ccc", "ddd")] == [False, True, False, True]
    assert names(path) == ["bbb.created", "ddd.created"]
    assert (path / "bbb.created").stat().st_mode & 0o7777 == 0o600
    assert path.stat().st_mode & 0o7777 == 0o700


def missed(id_: str, state: str = "create") -> Request:
    return Request(state=state, id=id_, sandbox_id="p")


def without(record: Record) -> list[tuple[str, str, str | None, str]]:
    found = record.describe()["withoutPlugins"]
    return [(each["id"], each["state"], each["plugin"], each["why"]) for each in found]


def test_ids_without_plugins_are_known_to_the_next_bridge(path: Path, loaded: Callable[[], Record]) -> None:
    record = loaded()
    record.add("aaa")
    record.runs_without("default/web/app", missed("aaa"), "its failure is ignored: \x1b no", "x")
    record.runs_without("default/web/app", missed("aaa"), "another reason", "x")
    record.runs_without("default/web/app", missed("aaa"), "a reason for all plugins")
    record.runs_without("default/web/app", missed("aaa", "setup"), "missed", "y")
    record.runs_without("default/web", missed("bbb"), "off")
    expected = [
        ("aaa", "create", "x", "its failure is ignored: \\x1b no"),
        ("aaa", "setup", "y", "missed"),
        ("bbb", "create", None, "off"),
    ]
    assert without(record) == expected
    again = loaded()
    assert without(again) == expected
    entry = again.describe()["withoutPlugins"][0]
    assert (entry["pod"], entry["container"], entry["since"] > 0) == ("default/web", "app", True)
    again.has_run(missed("aaa"), ["x"])
    again.has_run(missed("bbb"), ["z"])
    assert without(again) == without(loaded()) == expected[1:2]
    again.runs_without("default/web", missed("bbb"), "off")
    again.discard("aaa")
    assert [each[0] for each in without(again)] == [each[0] for each in without(loaded())] == ["bbb"]
    again.keep(["ccc"])
    assert without(again) == without(loaded()) == []
    assert names(path) == []


def test_files_of_others_are_ignored_and_stay(path: Path, loaded: Callable[[], Record]) -> None:
    entry = {"pod": "p", "container": None, "plugin": None, "state": "create", "since": 1, "why": "w"}
    right = {"setup": ["x"], "without": [entry]}
    wrong = [[], {"setup": ["a"]}, {"setup": 1, "without": []}, right | {"without": [entry | {"since": "x"}]}]
    path.mkdir(parents=True)
    texts = ["{", "", "[" * 20_000, *map(json.dumps, wrong)]
    for number, text in enumerate(texts):
        (path / f"wrong{number}.notes").write_text(text)
    (path / "right.notes").write_text(json.dumps(right))
    os.mkfifo(path / "fifo.notes")
    for each in ("README", "-a.created", "b c.created", ".created"):
        (path / each).touch()
    before = names(path)
    record = loaded()
    assert without(record) == [("right", "create", None, "w")]
    assert [record.setups("right"), record.setups("wrong0")] == [["x"], []]
    record.keep({"right"})
    assert names(path) == before


def test_the_oldest_beyond_the_limit_are_forgotten(
    loaded: Callable[[], Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WITHOUT", 2)
    record = loaded()
    for id_ in "xyz":
        record.runs_without("default/web", missed(id_), "off")
    assert [each[0] for each in without(record)] == [each[0] for each in without(loaded())] == ["y", "z"]


def test_before_the_first_load_there_is_no_directory() -> None:
    record = Record()
    record.runs_without("default/web", missed("aaa"), "off")
    record.discard("aaa")
    assert "bbb" not in record
    assert record.describe() == {"record": {"directory": None, "fault": None}, "withoutPlugins": []}


def test_setup_is_known_by_itself(loaded: Callable[[], Record]) -> None:
    record = loaded()
    record.add_setup("aaa", ["x", "y"])
    record.add("bbb")
    again = loaded()
    again.keep({"aaa", "bbb"})
    assert [again.setups("aaa"), "aaa" in again, again.setups("bbb")] == [["x", "y"], False, []]
    assert loaded().setups("aaa") == ["x", "y"]
    again.discard("aaa")
    assert again.setups("aaa") == loaded().setups("aaa") == []


def test_memory_goes_to_another_directory(path: Path, loaded: Callable[[], Record], tmp_path: Path) -> None:
    record = loaded()
    record.add("aaa")
    record.add_setup("aaa", ["x"])
    record.load(str(tmp_path / "other"))
    record.add("bbb")
    assert names(tmp_path / "other") == ["aaa.created", "aaa.notes", "bbb.created"]
    assert names(path) == ["aaa.created", "aaa.notes"]


@pytest.mark.parametrize("id_", ["e e", "../x", "x" * 300, "", "a\0b", "\udce9"])
def test_ids_that_are_no_names_are_in_memory_alone(path: Path, loaded: Callable[[], Record], id_: str) -> None:
    record = loaded()
    record.add(id_)
    record.add_setup(id_, ["x"])
    assert id_ in record
    assert [id_ in loaded(), record.describe()["record"]["fault"]] == [False, None]
    assert names(path) == []


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
def test_what_cannot_be_relied_on_stays_and_keeps_the_record_in_memory(
    path: Path,
    loaded: Callable[[], Record],
    caplog: pytest.LogCaptureFixture,
    spoil: Callable[[Path], object],
    reason: str,
) -> None:
    path.parent.mkdir(parents=True)
    spoil(path)
    before = (os.lstat(path).st_ino, os.lstat(path).st_mode) if os.path.lexists(path) else None
    record = loaded()
    record.add("aaa")
    record.add("bbb")
    record.keep({"aaa"})
    assert ["aaa" in record, "bbb" in record] == [True, False]
    assert [*path.parent.glob("*/aaa*")] == []
    after = os.lstat(path)
    assert before in (None, (after.st_ino, after.st_mode))
    (message,) = caplog.messages
    assert message.startswith(f"the record {path} cannot be used: {reason.format(path=path)}")


def test_a_write_that_failed_is_made_up_for(
    path: Path, loaded: Callable[[], Record], caplog: pytest.LogCaptureFixture
) -> None:
    record = loaded()
    record.add("before")
    path.rename(path.with_name("aside"))
    path.touch()  # opening a file in it fails
    record.add("aaa")
    record.discard("before")
    record.add_setup("aaa", ["x"])
    fault = f"the record {path} cannot be used: {path} is no directory"
    assert record.describe()["record"] == {"directory": str(path), "fault": fault}
    means = "which containers have had their create is known only until the bridge ends"
    assert caplog.messages[1:] == [f"{fault}; {means}"]  # the first one: Not a directory
    path.unlink()
    path.with_name("aside").rename(path)
    record.retry()
    assert record.describe()["record"]["fault"] is None
    assert names(path) == ["aaa.created", "aaa.notes"]


def test_a_removed_directory_is_made_again(path: Path, loaded: Callable[[], Record]) -> None:
    record = loaded()
    record.add("aaa")
    record.add_setup("aaa", ["x"])
    path.rename(path.with_name("aside"))
    record.add("bbb")
    assert names(path) == ["aaa.created", "aaa.notes", "bbb.created"]


def test_many_threads_lose_no_id(loaded: Callable[[], Record]) -> None:
    record = loaded()
    ids = [f"{name}{number}" for name in "abcd" for number in range(200)]
    with ThreadPoolExecutor(4) as threads:
        done = threads.map(record.add, ids)
        record.keep(ids)
    list(done)
    again = loaded()
    assert all(id_ in again for id_ in ids)


def test_neither_of_two_bridges_forgets_what_the_other_one_has_done(loaded: Callable[[], Record]) -> None:
    before, record = loaded(), loaded()
    before.add("aaa")
    record.add("bbb")
    record.keep({"aaa", "bbb"})
    assert ["aaa" in record, "bbb" in before, "aaa" in loaded()] == [True, True, True]
