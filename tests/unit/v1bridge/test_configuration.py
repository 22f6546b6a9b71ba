"""The host configuration as its files change: a change counts at the next event."""

from __future__ import annotations

import logging
import os
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from nri.v1bridge import configuration as module
from nri.v1bridge.configuration import Configuration
from tests.unit.v1bridge.configured import Node, logged, text

if TYPE_CHECKING:
    from pathlib import Path


def test_where_there_is_nothing_no_plugin_runs_and_that_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "nri.v1bridge")
    configuration = Configuration(str(tmp_path / "none.d"), str(tmp_path / "none.json"))
    assert [configuration.current().plugins, configuration.current().plugins] == [(), ()]
    assert logged(caplog) == ["configuration: no plugins"]


def test_a_change_counts_at_the_next_call_and_is_said(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    node.put("10.conf", "b", "c")
    assert node.plugins == ["b", "c"]
    node.put("10.conf")
    assert node.plugins == []
    assert logged(caplog) == ["configuration: a", "configuration: b, c", "configuration: no plugins"]


def test_files_are_added_and_removed(node: Node) -> None:
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    node.put("20.conf", "b")
    assert node.plugins == ["a", "b"]
    node.put("05.conf", "c")
    assert node.plugins == ["c", "a", "b"]
    (node.directory / "10.conf").unlink()
    node.wait()
    assert node.plugins == ["c", "b"]
    (node.directory / "05.conf").rename(node.directory / "30.conf")
    assert node.plugins == ["b", "c"]
    (node.directory / "20.conf").rename(node.directory / "20.conf.off")
    node.wait()
    assert node.plugins == ["c"]


def test_the_directory_appears_and_vanishes(node: Node) -> None:
    node.directory.rmdir()
    assert node.plugins == []
    node.directory.mkdir()
    assert node.plugins == []
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    shutil.rmtree(node.directory)
    node.wait()
    assert node.plugins == []
    node.directory.mkdir()
    node.put("10.conf", "b")
    assert node.plugins == ["b"]


def test_the_file_stands_in_for_a_directory_without_any_and_no_longer(node: Node) -> None:
    node.file.write_text(text("f"))
    assert node.plugins == ["f"]
    assert node.configuration.current().plugins[0].source == str(node.file)
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    node.file.write_text(text("g"))
    assert node.plugins == ["a"]
    (node.directory / "10.conf").unlink()
    node.wait()
    assert node.plugins == ["g"]
    node.directory.rmdir()
    assert node.plugins == ["g"]
    node.file.unlink()
    node.wait()
    assert node.plugins == []


def test_the_same_plugins_out_of_another_file_have_that_source(node: Node, old: None) -> None:
    node.file.write_text(text("a"))
    assert node.plugins == ["a"]
    node.put("10.conf", "a")
    assert node.configuration.current().plugins[0].source == str(node.directory / "10.conf")


def test_files_may_be_links_to_what_changes_elsewhere(node: Node) -> None:
    (node.root / "one.json").write_text(text("a"))
    (node.root / "two.json").write_text(text("b"))
    (node.directory / "10.conf").symlink_to(node.root / "one.json")
    assert node.plugins == ["a"]
    (node.directory / "10.part").symlink_to(node.root / "two.json")
    (node.directory / "10.part").rename(node.directory / "10.conf")
    assert node.plugins == ["b"]
    (node.root / "two.json").write_text(text("c"))
    assert node.plugins == ["c"]


def test_a_file_written_over_in_place_within_one_tick_of_the_clock_is_read_again(node: Node) -> None:
    path = node.directory / "10.conf"
    path.write_text(text("aa"))
    status = path.stat()
    for name in ("bb", "cc", "dd", "ee") * 50:
        with open(path, "r+", encoding="utf-8") as file:
            file.write(text(name))
        assert path.stat().st_size == status.st_size
        assert path.stat().st_ino == status.st_ino
        assert node.plugins == [name]


def test_a_change_that_leaves_no_trace_is_found_while_the_file_is_young_and_not_looked_for_later(
    node: Node, monkeypatch: pytest.MonkeyPatch, reads: list[Any]
) -> None:
    path = node.directory / "10.conf"
    path.write_text(text("aa"))
    now = os.stat(path).st_ctime_ns
    monkeypatch.setattr(time, "time_ns", lambda: now + module.RECENT_NS // 2)
    assert [node.plugins, node.plugins] == [["aa"], ["aa"]]
    assert len(reads) == 2
    monkeypatch.setattr(time, "time_ns", lambda: now + 2 * module.RECENT_NS)
    assert [node.plugins, node.plugins, node.plugins] == [["aa"]] * 3
    assert len(reads) == 3


def test_a_file_that_is_added_within_one_tick_of_the_clock_is_watched_from_then_on(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory's time does not show it: so it is listed again while that time is recent."""
    node.put("10.conf", "a")
    stat, as_before = os.stat, os.stat(node.directory)
    recent = as_before.st_ctime_ns + module.RECENT_NS // 2
    added = node.directory / "20.conf"
    seen = []
    with monkeypatch.context() as patched:
        patched.setattr(time, "time_ns", lambda: recent)
        patched.setattr(
            os, "stat", lambda path, **how: as_before if path == str(node.directory) else stat(path, **how)
        )
        seen.append(node.plugins)
        added.write_text(text("b"))
        seen.append(node.plugins)
        patched.setattr(time, "time_ns", lambda: stat(added).st_ctime_ns + 2 * module.RECENT_NS)
        seen.append(node.plugins)
        added.write_text(text("bb"))
        seen.append(node.plugins)
    assert seen == [["a"], ["a", "b"], ["a", "b"], ["a", "bb"]]


def test_a_clock_that_was_set_back_costs_time_and_no_change(
    node: Node, monkeypatch: pytest.MonkeyPatch, reads: list[Any]
) -> None:
    node.put("10.conf", "a")
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert [node.plugins, node.plugins] == [["a"], ["a"]]
    assert len(reads) == 2


def test_what_has_not_changed_is_not_read_again(node: Node, old: None, reads: list[Any]) -> None:
    node.put("10.conf", "a")
    first = node.configuration.current()
    assert all(node.configuration.current() is first for _ in range(10))
    assert len(reads) == 1
    os.utime(node.directory / "10.conf")
    assert node.plugins == ["a"]
    assert len(reads) == 2


@pytest.mark.parametrize("middle", [False, True])
def test_a_directory_of_a_chain_that_is_put_right_or_wrong_is_seen(
    node: Node, caplog: pytest.LogCaptureFixture, old: None, middle: bool
) -> None:
    """Its link may be given to anybody: nothing of the file itself changes with that."""
    (node.root / "user").mkdir()
    (node.root / "end").mkdir()
    (node.root / "end/10.conf").write_text(text("a"))
    if middle:
        node.directory.rmdir()
        (node.root / "user/cur").symlink_to("../end")
        node.directory.symlink_to("user/cur")
    else:
        (node.root / "user/cur").symlink_to("../end/10.conf")
        (node.directory / "10.conf").symlink_to("../user/cur")
    (node.root / "user").chmod(0o757)
    assert [node.plugins, node.plugins] == [[], []]
    (node.root / "user").chmod(0o755)
    assert node.plugins == ["a"]
    (node.root / "end/10.conf").write_text(text("b"))
    (node.root / "user").chmod(0o757)
    assert node.plugins == ["a"]
    (node.root / "user").chmod(0o755)
    assert node.plugins == ["b"]
    caplog.clear()
    (node.root / "user").chmod(0o757)  # alone: no file changes with it
    assert node.plugins == ["b"]
    (line,) = logged(caplog, logging.ERROR)
    assert f"{node.root}/user:1:1: (document): is writable by others (mode 0757" in line


def test_a_link_in_the_middle_that_leads_elsewhere_is_seen(node: Node, old: None) -> None:
    for name in ("one", "two"):
        (node.root / name).mkdir()
        (node.root / name / "10.conf").write_text(text(name))
    (node.root / "cur").symlink_to("one")
    (node.directory / "10.conf").symlink_to("../cur/10.conf")
    assert node.plugins == ["one"]
    (node.root / "new").symlink_to("two")
    (node.root / "new").rename(node.root / "cur")
    assert node.plugins == ["two"]


def test_a_chain_of_thousands_keeps_the_last_valid_one(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    before = node.directory / "10.conf"
    for number in range(3000):
        link = node.root / f"link{number}"
        link.symlink_to(before)
        before = link
    (node.directory / "20.conf").symlink_to(before)
    assert node.plugins == ["a"]
    (line,) = logged(caplog, logging.ERROR)
    assert f"{node.directory}/20.conf:1:1: (document): cannot be read: too many levels of symbolic links" in line
