"""The configuration in use: what edits, missing files, restarts and other hosts make of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nri.config import ConfigError, Fault
from nri.config.site import Site
from nri.node import in_use
from nri.node.in_use import InUse, wait

BROKEN = '{"version": "0.1", "plugins": ['


def text(*types: str) -> str:
    return json.dumps({"version": "0.1", "plugins": [{"type": each} for each in types]})


def site_of(root: Path) -> Site:
    return Site(
        conf_dir=str(root / "conf"), conf_file="/nonexistent", record_dir=str(root / "record")
    )


class Place:
    """A directory, a single file and a record; each look is that of a new host unless it is kept."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.directory, self.file = root, root / "resource.d", root / "conf.json"
        self.directory.mkdir()
        self.now, self.changes = 1000.0, 0
        monkeypatch.setattr(in_use, "boottime", lambda: self.now)

    def host(self, *, check_owner: bool = True, **options: Any) -> InUse:
        site = Site(
            conf_dir=str(self.directory),
            conf_file=str(self.file),
            record_dir=str(self.root / "run/record"),
        )
        return InUse(site.replace(check_owner=check_owner), **options)

    def put(self, **files: str) -> None:
        """Files by their names, "a" for ``a.conf``; None removes one."""
        for name, content in files.items():
            (self.directory / f"{name}.conf").write_text(content)
        self.changed()

    def away(self, *names: str) -> None:
        for name in names:
            (self.directory / f"{name}.conf").rename(self.root / f"{name}.away")
        self.changed()

    def back(self, *names: str) -> None:
        for name in names:
            (self.root / f"{name}.away").rename(self.directory / f"{name}.conf")
        self.changed()

    def types(self, host: InUse | None = None) -> list[str] | None:
        """What a host uses now; None if it knows of no configuration."""
        host = host or self.host()
        host.look()
        return None if host.config is None else [plugin.type for plugin in host.config.plugins]

    def changed(self) -> None:
        """Give the directory another time of change, also in one tick of its clock."""
        self.changes += 1
        os.utime(self.directory, (self.changes, self.changes))

    def record(self) -> Path:
        (path,) = (self.root / "run/record").iterdir()
        return path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


def test_a_node_that_never_had_a_configuration_has_none(place: Place) -> None:
    assert place.types() == []
    assert not (place.root / "run").exists()
    place.put(a=text("a"))
    assert place.types() == ["a"]


def test_all_hosts_begin_with_the_last_valid_set(place: Place) -> None:
    place.put(a=text("a"), b=text("b"))
    assert place.types() == ["a", "b"]
    place.put(a=BROKEN)
    host = place.host()
    assert place.types(host) == ["a", "b"]
    assert host.rejected
    place.put(a=text("c"))
    assert place.types(host) == place.types() == ["c", "b"]
    assert not host.rejected


def test_directory_may_be_named_from_where_one_is(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.put(a=text("one"))
    assert place.types() == ["one"]
    monkeypatch.chdir(place.root)
    place.away("a")
    site = place.host().site.replace(conf_dir="resource.d", conf_file="conf.json")
    assert place.types(InUse(site)) == ["one"]


def test_missing_file_counts_as_removed_after_two_seconds_of_any_hosts_noting(place: Place) -> None:
    place.put(a=text("a"), b=text("b"))
    first = place.host()
    assert place.types(first) == ["a", "b"]
    place.away("a")
    assert place.types(first) == ["a", "b"]
    place.now += 1.9
    host = place.host()
    assert place.types(host) == ["a", "b"]
    assert host.is_waiting
    place.now += 0.1
    assert place.types() == ["b"]
    assert place.types(first) == ["b"]
    place.back("a")
    assert place.types() == ["a", "b"]


def test_file_that_comes_back_in_time_was_never_away(place: Place) -> None:
    place.put(a=text("a"), b=text("b"))
    host = place.host()
    for _ in range(3):
        assert place.types(host) == ["a", "b"]
        place.away("a")
        place.now += 1.9
        assert place.types(host) == ["a", "b"]
        place.back("a")
        assert place.types(host) == ["a", "b"]


@pytest.mark.parametrize("how", ["files", "directory", "empty directory"])
def test_the_last_file_is_never_removed_by_absence(place: Place, how: str) -> None:
    place.put(a=text("a"), b=text("b"))
    place.types()
    place.away("a", "b")
    if how == "directory":
        place.directory.rmdir()
    place.file.write_text(text("single"))
    for _ in range(3):
        host = place.host()
        assert place.types(host) == ["a", "b"]
        place.now += 1000.0
    if how != "directory":
        assert [*host.missing] == [f"{place.directory}/a.conf", f"{place.directory}/b.conf"]
        assert not host.is_waiting
    place.directory.mkdir(exist_ok=True)
    place.put(z=text())
    place.types()
    place.now += 2.0
    assert place.types() == []
    (place.directory / "z.conf").unlink()
    place.now += 2.0
    place.types()
    place.now += 2.0
    assert place.types() == []


def test_files_that_were_lost_may_come_back_one_by_one(place: Place) -> None:
    place.put(a=text("a"), b=text("b"))
    host = place.host()
    place.types(host)
    place.away("a", "b")
    for _ in range(5):
        assert place.types(host) == ["a", "b"]
        place.now += 1.0
    place.back("b")
    for _ in range(2):
        assert place.types(host) == place.types() == ["a", "b"]
        place.now += 0.9
    place.back("a")
    assert place.types(host) == place.types() == ["a", "b"]


def test_a_host_that_checks_no_owners_writes_and_reads_no_record(place: Place) -> None:
    place.put(a=text("a"))
    unchecked = place.host(check_owner=False)
    assert place.types(unchecked) == ["a"]
    assert not (place.root / "run/record").exists()
    place.away("a")
    assert place.types(unchecked) == ["a"]
    place.back("a")
    assert place.types() == ["a"]
    place.away("a")
    assert (place.types(), place.types(place.host(check_owner=False))) == (["a"], [])


def test_renamed_file_is_not_missed(place: Place) -> None:
    place.put(a=text("a"), b=text("b"))
    place.types()
    (place.directory / "a.conf").rename(place.directory / "c.conf")
    assert place.types() == ["b", "a"]


def test_single_file_gives_way_to_a_directory_and_is_missed_alone(place: Place) -> None:
    place.file.write_text(text("single"))
    assert place.types() == ["single"]
    place.file.rename(place.root / "away")
    assert place.types() == ["single"]
    (place.root / "away").rename(place.file)
    place.put(a=text("a"))
    assert place.types() == ["a"]


@pytest.mark.parametrize("jump", [-864_000, 864_000])
def test_the_clock_of_the_machine_does_not_count(
    place: Place, monkeypatch: pytest.MonkeyPatch, jump: int
) -> None:
    place.put(a=text("a"), b=text("b"))
    host = place.host()
    place.types(host)
    real = time.time()
    monkeypatch.setattr(time, "time", lambda: real + jump)
    monkeypatch.setattr(time, "time_ns", lambda: int((real + jump) * 1e9))
    place.away("a")
    os.utime(place.directory, (real + jump, real + jump))
    for _ in range(3):
        assert place.types(host) == place.types() == ["a", "b"]
    place.now += 2.0
    assert place.types(host) == ["b"]


def test_link_that_leads_nowhere_is_no_removal(place: Place) -> None:
    place.put(a=text("a"))
    (place.root / "b").write_text(text("b"))
    (place.directory / "b.conf").symlink_to(place.root / "b")
    assert place.types() == ["a", "b"]
    (place.root / "b").rename(place.root / "c")
    for _ in range(3):
        host = place.host()
        assert place.types(host) == ["a", "b"]
        place.now += 1000.0
    assert not host.is_waiting
    (place.directory / "b.conf").unlink()
    place.changed()
    place.types()
    place.now += 2.0
    assert place.types() == ["a"]


def test_record_that_was_removed_is_written_again(place: Place) -> None:
    place.put(a=text("a"))
    host = place.host()
    place.types(host)
    place.record().unlink()
    host.keep()
    place.away("a")
    assert place.types() == ["a"]


def test_noting_of_a_later_boot_time_counts_from_now(place: Place) -> None:
    """The record has outlived a boot."""
    place.put(a=text("a"), b=text("b"))
    place.types()
    place.away("a")
    place.types()
    place.now = 10.0
    assert place.types() == ["a", "b"]
    place.now = 12.0
    assert place.types() == ["b"]


@pytest.mark.parametrize("later", [0.1, 3.0, 1000.0])
def test_note_of_a_host_that_has_ended_is_over_when_the_file_was_back(
    place: Place, later: float
) -> None:
    place.put(a=text("a"), b=text("b"))
    place.types()
    place.away("a")
    place.types()
    place.back("a")  # and no host looks
    place.now += later
    place.away("a")
    assert place.types() == ["a", "b"]
    place.now += 2.0
    assert place.types() == ["b"]


def test_applied_set_counts_at_once_for_all_hosts(place: Place) -> None:
    place.put(a=text("a"), b=text("b"))
    running = place.host()
    place.types(running)
    place.away("a")
    place.host().use({f"{place.directory}/b.conf": text("b").encode()})
    assert place.types(running) == place.types() == ["b"]


def test_directories_have_records_of_their_own(place: Place, tmp_path: Path) -> None:
    place.put(a=text("a"))
    place.types()
    other = InUse(place.host().site.replace(conf_dir=str(tmp_path / "other.d")))
    assert place.types(other) is None
    assert other.rejected
    assert "other.d" in "".join(map(str, other.rejected))


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "cut":
        path.write_bytes(content[:-3])
    elif how == "longer":
        path.write_bytes(content + b" ")
    elif how == "not ours":
        path.write_bytes(b"{}\n")
    elif how == "no JSON":
        path.write_bytes(b"\xff\x00")
    elif how == "deep":
        path.write_bytes(b"[" * 100_000)
    elif how == "FIFO":
        path.unlink()
        os.mkfifo(path)
    elif how == "open":
        path.chmod(0o666)
    elif how == "of another build":
        path.write_bytes(content.replace(b'"plugins"', b'"pluginz"'))
    elif how == "too large":
        path.write_bytes(content.replace(b"null", b"1" + b"0" * 400, 1))


@pytest.mark.parametrize(
    "how",
    [
        "cut",
        "longer",
        "not ours",
        "no JSON",
        "deep",
        "FIFO",
        "open",
        "too large",
        "of another build",
    ],
)
def test_damaged_record_is_no_answer_and_is_written_anew(place: Place, how: str) -> None:
    place.put(a=text("a"))
    place.types()
    damage(place.record(), how)
    place.away("a")
    host = place.host()
    assert place.types(host) is None
    assert host.rejected
    assert "the record of those in use cannot be used: " in "".join(map(str, host.rejected))
    with pytest.raises(ConfigError):
        wait(host, 0, print)
    place.back("a")
    assert place.types(host) == ["a"]
    place.away("a")
    assert place.types() == ["a"]


def test_record_that_cannot_be_written_is_a_fault_and_stops_nothing(place: Place) -> None:
    (place.root / "run").write_text("")
    place.put(a=text("a"))
    host = place.host()
    assert place.types(host) == ["a"]
    assert "cannot be written" in host.fault
    assert "cannot be written" in in_use.why_not(host)[0]
    place.away("a")
    assert place.types(host) == ["a"]
    (place.root / "run").unlink()
    host.keep()
    assert host.fault == ""
    assert place.types() == ["a"]


def test_place_that_no_host_may_write_to_is_no_answer(place: Place) -> None:
    (place.root / "run").mkdir()
    (place.root / "run").chmod(0o777)
    host = place.host()
    assert place.types(host) is None
    assert "run is writable by others" in "".join(map(str, host.rejected))


def test_tool_reads_the_record_and_writes_nothing(place: Place) -> None:
    place.put(a=text("a"), b=text("b"))
    place.types()
    before = place.record().read_bytes()
    place.away("a")
    tool = place.host(writes=False)
    assert place.types(tool) == ["a", "b"]
    assert in_use.why_not(tool)[0].startswith(
        f"missing, and still in use for 2 seconds without any change: {place.directory}/a.conf"
    )
    assert place.record().read_bytes() == before


def test_names_that_are_not_utf_8_are_recorded(place: Place) -> None:
    (place.directory / "\udcff.conf").write_text(text("a"))
    assert place.types() == ["a"]
    (place.directory / "\udcff.conf").unlink()
    assert place.types() == ["a"]


# A process that runs one chain


def test_process_waits_for_a_file_until_it_is_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.put(a=text("a"))
    place.types()
    place.away("a")
    looks = iter(range(10))  # it is away, also when it is read again

    def sleep(_seconds: float) -> None:
        if next(looks) == 2:
            place.back("a")

    monkeypatch.setattr(time, "sleep", sleep)
    lines: list[str] = []
    assert [plugin.type for plugin in wait(place.host(), float("inf"), lines.append).plugins] == [
        "a"
    ]
    assert lines == []


def test_process_refuses_at_its_deadline(place: Place) -> None:
    place.put(a=text("a"), b=text("b"))
    place.types()
    place.away("a")
    with pytest.raises(ConfigError, match=r"a\.conf.*was in use, and is missing for a moment"):
        wait(place.host(), 0, print)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda place: place.put(a=BROKEN),
            "invalid configuration; still using the last valid one: ",
        ),
        (lambda place: place.away("a"), "missing, and still in use until "),
    ],
)
def test_process_goes_on_with_the_last_valid_set_and_says_so(
    place: Place, monkeypatch: pytest.MonkeyPatch, change: Callable[[Place], object], said: str
) -> None:
    place.put(a=text("a"))
    place.types()
    change(place)

    def sleep(seconds: float) -> None:
        place.now += seconds

    monkeypatch.setattr(time, "sleep", sleep)
    lines: list[str] = []
    assert [plugin.type for plugin in wait(place.host(), float("inf"), lines.append).plugins] == [
        "a"
    ]
    assert [line[: len(said)] for line in lines] == [said]


# A conf that its plugin refuses


class Answers:
    """Plugins of which some refuse their conf."""

    def __init__(self) -> None:
        self.refusing: set[str] = set()
        self.asked: list[str] = []
        self.is_other = False

    def faults(self, config: Any, used: Any) -> list[Fault]:
        known = {entry.key for entry in used.plugins}
        new = [entry.type for entry in config.plugins if entry.key not in known]
        self.asked += new
        return [Fault(file="f", message=f"{name} refuses") for name in new if name in self.refusing]

    def is_changed(self) -> bool:
        return self.is_other


def test_a_conf_that_its_plugin_refuses_leaves_the_set_in_use(tmp_path: Path) -> None:
    answers = Answers()
    file = tmp_path / "conf/10.conf"
    file.parent.mkdir()
    host = InUse(site_of(tmp_path), acceptance=answers)  # type: ignore[arg-type]
    answers.refusing = {"a", "b"}
    file.write_text(text("a"))
    host.look()
    assert (answers.asked, host.rejected) == ([], ())  # there is no other set that could stay
    file.write_text(text("a", "b"))
    for _ in range(3):
        host.look()
        assert answers.asked == ["b"]  # once: a has been accepted
        assert host.rejected
        assert [str(fault) for fault in host.rejected] == ["f:1:1: (document): b refuses"]
        assert host.config is not None
        assert [entry.type for entry in host.config.plugins] == ["a"]
    answers.refusing, answers.is_other = set(), True  # another executable
    host.look()
    assert not host.rejected
    assert host.config is not None
    assert [entry.type for entry in host.config.plugins] == ["a", "b"]


def test_what_nri_apply_has_recorded_is_not_asked_again(tmp_path: Path) -> None:
    answers = Answers()
    file = tmp_path / "conf/10.conf"
    file.parent.mkdir()
    file.write_text(text("a"))
    host = InUse(site_of(tmp_path), acceptance=answers)  # type: ignore[arg-type]
    host.look()
    answers.refusing = {"b"}
    file.write_text(text("a", "b"))
    InUse(site_of(tmp_path)).use({str(file): file.read_bytes()})
    host.look()
    assert (answers.asked, host.rejected) == ([], ())
