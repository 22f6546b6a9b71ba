"""An invalid configuration: the last valid one stays in use, and each fault is logged once."""

from __future__ import annotations

import logging
import os

import pytest

from tests.unit.v1bridge.configured import BROKEN, Node, logged, text


def test_what_is_broken_from_the_start_runs_no_plugin_and_is_said_once(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    (node.directory / "10.conf").write_text(BROKEN)
    assert [node.plugins, node.plugins, node.plugins] == [[], [], []]
    (line,) = logged(caplog)
    assert line.startswith("invalid configuration; still using the last valid one (no plugins): ")
    assert f"{node.directory}/10.conf:1:" in line
    node.put("10.conf", "a")
    assert node.plugins == ["a"]


def test_the_last_good_one_stays_and_each_fault_is_said_once(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    caplog.clear()
    (node.directory / "10.conf").write_text(text("b", tpye=1, stats=[]))
    assert [node.plugins, node.plugins] == [["a"], ["a"]]
    os.utime(node.directory / "10.conf")
    assert node.plugins == ["a"]
    lines = logged(caplog, logging.ERROR)
    assert len(lines) == 2
    assert all(line.startswith("invalid configuration; still using the last valid one (a): ") for line in lines)
    assert 'plugins[0].tpye: unknown key, did you mean "type"?' in lines[0]
    assert 'plugins[0].stats: unknown key, did you mean "states"?' in lines[1]


def test_another_fault_is_said_again_and_so_is_the_mending(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    caplog.clear()
    for content in (BROKEN, "", text("../b"), BROKEN):
        (node.directory / "10.conf").write_text(content)
        assert node.plugins == ["a"]
    assert len(logged(caplog, logging.ERROR)) == 4
    caplog.clear()
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    assert logged(caplog) == ["configuration: a"]
    caplog.clear()
    (node.directory / "10.conf").write_text(BROKEN)
    assert node.plugins == ["a"]
    assert len(logged(caplog, logging.ERROR)) == 1


@pytest.mark.parametrize("what", ["10.conf", "", "../conf.json", ".."])
def test_what_others_can_write_to_is_broken_until_it_is_put_right(
    node: Node, caplog: pytest.LogCaptureFixture, old: None, what: str
) -> None:
    single = what.startswith("..")
    if single:
        node.file.write_text(text("a"))
    else:
        node.put("10.conf", "a")
    assert node.plugins == ["a"]
    path = node.directory / what if what else node.directory
    mode = path.stat().st_mode
    path.chmod(mode | 0o002)
    caplog.clear()
    assert [node.plugins, node.plugins] == [["a"], ["a"]]
    (line,) = logged(caplog)
    assert line.startswith("invalid configuration; still using the last valid one (a): ")
    assert "is writable by others (mode 0" in line
    path.chmod(mode)
    (node.file if single else node.directory / "10.conf").write_text(text("b"))
    assert node.plugins == ["b"]


def test_a_directory_that_is_put_right_is_seen_although_no_file_has_changed(
    node: Node, caplog: pytest.LogCaptureFixture, old: None
) -> None:
    end = node.root / "end"
    end.mkdir()
    (end / "10.conf").write_text(text("a"))
    (node.directory / "10.conf").symlink_to(end / "10.conf")
    end.chmod(0o757)
    assert [node.plugins, node.plugins] == [[], []]
    end.chmod(0o755)
    assert node.plugins == ["a"]


def test_whether_it_matters_may_change(node: Node, old: None) -> None:
    node.put("10.conf", "a")
    (node.directory / "10.conf").chmod(0o666)
    read = node.configuration.current
    assert [plugin.type for plugin in read(check_owner=False).plugins] == ["a"]
    node.put("20.conf", "b")
    (node.directory / "10.conf").chmod(0o666)
    assert [plugin.type for plugin in read().plugins] == ["a"]
    assert [plugin.type for plugin in read(check_owner=False).plugins] == ["a", "b"]


def test_one_broken_file_keeps_the_others_changes_out_too(node: Node) -> None:
    node.put("10.conf", "a")
    node.put("20.conf", "b")
    assert node.plugins == ["a", "b"]
    (node.directory / "10.conf").write_text(BROKEN)
    node.put("20.conf", "c")
    assert node.plugins == ["a", "b"]
    node.put("10.conf", "d")
    assert node.plugins == ["d", "c"]
