"""The record of containers that have had their create, and a file that it cannot rely on."""

import errno
import json
import logging
import os
from collections.abc import Callable, Iterator
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
def loaded(path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], Record]]:
    """Make records of the path, as bridges do that are started one after the other."""
    caplog.set_level(logging.INFO, "nri.v1bridge")
    made: list[Record] = []

    def make() -> Record:
        made.append(Record())
        made[-1].load(str(path))
        return made[-1]

    yield make
    for each in made:
        each.close()


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def test_discarded_and_missing_ids_are_forgotten(path: Path, loaded: Callable[[], Record]) -> None:
    record = loaded()
    for each in ("aaa", "bbb", "aaa", "ccc"):
        record.add(each)
    assert lines(path) == ["aaa", "bbb", "ccc"]
    record.discard("aaa")
    assert "aaa" not in record
    record.discard("never")
    record.keep({"bbb", "other"})
    assert "ccc" not in record
    assert lines(path) == ["bbb"]
    record.add("ddd")
    assert lines(path) == ["bbb", "ddd"]
    again = loaded()
    assert ["aaa" in again, "bbb" in again, "ddd" in again, len(again)] == [False, True, True, 2]
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert path.stat().st_mode & 0o7777 == 0o600
    assert path.parent.stat().st_mode & 0o7777 == 0o700


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


def test_invalid_entries_are_ignored_and_the_oldest_beyond_the_limit_are_forgotten(
    path: Path, loaded: Callable[[], Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"id": "a", "pod": "p", "container": None, "plugin": None, "state": "create", "since": 1, "why": "w"}
    wrong = [entry | {"id": 1}, entry | {"plugin": 1}, entry | {"since": "x"}, {"id": "a"}, []]
    wrong += [{"setup": ["a"]}, {"id": "a", "setup": 1}, {"id": 1, "setup": []}, {"id": "a", "setup": [1]}]
    lines = [json.dumps(each) for each in (*wrong, entry | {"id": "right"})]
    write(path, "\n".join([*lines, "{", '{"id": ' * 20_000, ""]).encode())
    monkeypatch.setattr(module, "MAX_WITHOUT", 2)
    monkeypatch.setattr(module, "MAX_IDS", 3)
    record = loaded()
    assert [each[0] for each in without(record)] == ["right"]
    for id_ in "xyz":
        record.runs_without("default/web", missed(id_), "off")
    assert [each[0] for each in without(record)] == ["y", "z"]
    for each in "abcd":
        record.add(each)
        record.add_setup(each, ["x"])
    assert [each in record for each in "abcd"] == [bool(record.setups(each)) for each in "abcd"]
    assert ["a" in record, "b" in record, "d" in record, len(record)] == [False, True, True, 3]


def test_before_the_first_load_there_is_no_file() -> None:
    record = Record()
    record.runs_without("default/web", missed("aaa"), "off")
    record.discard("aaa")
    assert record.describe() == {"record": {"file": None, "fault": None}, "withoutPlugins": []}


def test_setup_is_known_by_itself(loaded: Callable[[], Record]) -> None:
    record = loaded()
    record.add_setup("aaa", ["x", "y"])
    record.add("bbb")
    again = loaded()
    again.keep({"aaa", "bbb"})
    assert [again.setups("aaa"), "aaa" in again, again.setups("bbb")] == [["x", "y"], False, []]
    assert loaded().setups("aaa") == ["x", "y"]
    again.discard("aaa")
    again.keep({"aaa", "bbb"})
    assert again.setups("aaa") == loaded().setups("aaa") == []


def test_memory_stays_when_a_file_is_read_again(path: Path, loaded: Callable[[], Record], tmp_path: Path) -> None:
    record = loaded()
    record.add("aaa")
    write(path, b"bbb\n")  # by another bridge
    record.load(str(path))
    assert ["aaa" in record, "bbb" in record] == [True, True]
    other = tmp_path / "other"
    record.load(str(other))
    record.add("ccc")
    assert lines(other) == ["bbb", "aaa", "ccc"]


def test_lines_that_are_no_ids_are_ignored(path: Path, loaded: Callable[[], Record]) -> None:
    write(path, b"aaa\n\n \x00\xff\n../x\nb b\n-c\n" + b"d" * 1000 + b"\nbbb\nto")
    record = loaded()
    assert ["aaa" in record, "bbb" in record] == [True, True]
    assert len(record) == 2  # not `to`, which may be the beginning of an id
    record.add("ccc")
    assert "ccc" in loaded()
    record.add("e e")
    assert "e e" in record
    assert "e e" not in loaded()


@pytest.mark.parametrize("kind", ["link", "directory", "FIFO"])
def test_path_that_is_no_file_counts_as_empty_and_stays(
    path: Path, loaded: Callable[[], Record], caplog: pytest.LogCaptureFixture, tmp_path: Path, kind: str
) -> None:
    write(tmp_path / "target", b"aaa\n")
    path.parent.mkdir(parents=True)
    make: dict[str, Callable[[], object]] = {
        "link": lambda: path.symlink_to(tmp_path / "target"),
        "directory": path.mkdir,
        "FIFO": lambda: os.mkfifo(path),
    }
    make[kind]()
    record = loaded()
    record.add("bbb")
    record.keep({"bbb"})
    assert ["aaa" in record, "bbb" in record] == [False, True]
    assert lines(tmp_path / "target") == ["aaa"]
    assert not path.is_file() or path.is_symlink()
    (message,) = caplog.messages
    reason = f"it is a {kind}, expected a regular file; which containers"
    assert message.startswith(f"the record {path} cannot be read: {reason}")


@pytest.mark.parametrize(
    ("mode", "size", "reason"),
    [
        (0o666, 4, "is writable by others (mode 0666"),
        (0o600, module.MAX_SIZE + 1, f"it has more than {module.MAX_SIZE} bytes"),
    ],
)
def test_untrusted_or_long_file_counts_as_empty(
    path: Path, loaded: Callable[[], Record], caplog: pytest.LogCaptureFixture, mode: int, size: int, reason: str
) -> None:
    write(path, b"aaa\n")
    os.truncate(path, size)
    path.chmod(mode)
    record = loaded()
    assert len(record) == 0
    assert f"the record {path} cannot be read: " in caplog.text
    assert reason in caplog.text
    record.add("bbb")
    assert lines(path) == ["bbb"]
    assert path.stat().st_mode & 0o7777 == 0o600


@pytest.mark.parametrize("is_refused", [False, True])
def test_untrusted_directory_keeps_the_record_in_memory(
    path: Path,
    loaded: Callable[[], Record],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    is_refused: bool,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    path.parent.mkdir(parents=True)
    path.parent.chmod(0o777)
    if is_refused:
        monkeypatch.setattr(os, "makedirs", refuse)
    record = loaded()
    record.add("aaa")
    record.keep({"aaa"})
    assert "aaa" in record
    assert [*path.parent.iterdir()] == []
    reason = "Permission denied" if is_refused else f"{path.parent} is writable by others"
    assert caplog.text.count(f"the record {path} cannot be written: {reason}") == 1


def test_failed_write_is_logged_once_and_the_id_is_kept(
    path: Path, loaded: Callable[[], Record], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    record, real = loaded(), os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        record.add("aaa")
        record.add("bbb")
        record.keep({"aaa", "bbb"})
        assert ["aaa" in record, "bbb" in record] == [True, True]
        fault = record.describe()["record"]["fault"]
        patch.setattr(os, "write", lambda fd, data: real(fd, data[:2]))
        record.add("half")
    means = "which containers have had their create is known only until the bridge ends"
    assert fault == f"the record {path} cannot be written: No space left on device"
    assert caplog.messages == [f"the record {path} cannot be written: No space left on device; {means}"]
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    record.add("ccc")
    assert lines(path) == ["aaa", "bbb", "half", "ccc"]  # what could not be written comes with the next line
    assert record.describe()["record"]["fault"] is None
    record.keep({"aaa", "ccc"})
    assert lines(path) == ["aaa", "ccc"]
    assert record.describe()["record"] == {"file": str(path), "fault": None}


def test_file_of_mostly_old_ids_is_rewritten(
    path: Path, loaded: Callable[[], Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SPARE", 3)
    record = loaded()
    record.add("stays")
    for number in range(10):
        record.add(f"id{number}")
        record.discard(f"id{number}")
    assert len(lines(path)) == 11
    record.tidy()
    assert lines(path) == ["stays"]
    inode = path.stat().st_ino
    record.tidy()
    assert path.stat().st_ino == inode


def test_many_threads_lose_no_id(path: Path, loaded: Callable[[], Record]) -> None:
    record = loaded()

    def add(name: str) -> None:
        for number in range(200):
            record.add(f"{name}{number}")

    with ThreadPoolExecutor(4) as threads:
        done = threads.map(add, "abcd")
        record.keep({f"{name}{number}" for name in "abcd" for number in range(200)})
    list(done)
    assert len(loaded()) == 800


def test_neither_of_two_bridges_forgets_what_the_other_one_has_done(path: Path, loaded: Callable[[], Record]) -> None:
    before, record = loaded(), loaded()
    before.add("aaa")
    record.add("bbb")
    before.add("ccc")
    assert lines(path) == ["aaa", "bbb", "ccc"]
    assert "aaa" in loaded()
