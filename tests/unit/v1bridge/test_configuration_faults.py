"""An invalid or unreadable configuration: the last valid one stays in use, and each fault is logged once."""

import errno
import os
from typing import Any

import pytest

from tests.unit.v1bridge.configured import BROKEN, Configured, diagnostics, loading, text

KEPT = "invalid configuration; still using the last valid one (a): "


def test_invalid_first_configuration_runs_no_plugin(node: Configured) -> None:
    node.spoil(content='{"version": "0.1", "plugins": [}')
    assert [node.plugins, node.plugins, node.plugins] == [[], [], []]
    (line,) = node.logged()
    start = "invalid configuration; there has been no valid one, so no plugin runs: "
    assert line.startswith(f"{start}{node.directory}/10.conf:1:32: ")
    node.start("a")


def test_each_fault_and_its_fix_are_logged_once(node: Configured) -> None:
    node.start("a")
    node.spoil(content=text("b", tpye=1, stats=[]))
    assert [node.plugins, node.plugins] == [["a"], ["a"]]
    os.utime(node.directory / "10.conf")
    assert node.plugins == ["a"]
    first, second = node.faults()
    assert first.startswith(KEPT)
    assert "plugins[0].tpye: unknown key, did you mean type?" in first
    assert "plugins[0].stats: unknown key, did you mean states?" in second
    for content in (BROKEN, "", BROKEN):
        node.spoil(content=content)
        assert node.plugins == ["a"]
        assert len(node.faults()) == 1
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    assert node.logged() == ["configuration: a"]
    node.spoil()
    assert node.plugins == ["a"]
    assert len(node.faults()) == 1


def test_one_invalid_file_holds_back_changes_of_the_others(node: Configured) -> None:
    node.start("a", "b")
    node.spoil()
    node.put("20.conf", "c")
    assert node.plugins == ["a", "b"]
    node.put("10.conf", "d")
    assert node.plugins == ["d", "c"]


@pytest.mark.parametrize("what", ["resource.d/10.conf", "resource.d", "conf.json", "."])
def test_path_writable_by_others_is_invalid_until_fixed(node: Configured, what: str) -> None:
    used = node.directory / "10.conf" if what.startswith("resource.d") else node.file
    used.write_text(text("a"))
    assert node.plugins == ["a"]
    path = node.root / what
    mode = path.stat().st_mode
    path.chmod(mode | 0o002)
    node.logged()
    assert [node.plugins, node.plugins] == [["a"], ["a"]]
    (line,) = node.logged()
    assert line.startswith(KEPT)
    assert "is writable by others (mode 0" in line
    path.chmod(mode)
    used.write_text(text("b"))
    assert node.plugins == ["b"]


# What cannot be read


@pytest.mark.parametrize("call", ["open", "listdir", "stat", "lstat"])
def test_system_error_keeps_the_last_valid_one_until_it_passes(
    node: Configured, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """No file changes when it passes."""
    node.file.write_text(text("f"))
    node.start("a")
    node.put("20.conf", "b")

    def fail(*_arguments: object, **_options: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fail)
        assert [node.plugins, node.plugins] == [["a"], ["a"]]
    assert node.plugins == ["a", "b"]
    assert "permission denied" in str(node.faults()).lower()


@pytest.mark.parametrize(
    ("place", "name", "error"),
    [
        (loading, "read_set", SystemExit("moved or deleted")),
        (loading, "read_set", KeyError("a")),
        (loading, "parse", MemoryError()),  # of what was read and is valid
    ],
)
def test_unexpected_error_keeps_the_last_valid_one_until_it_passes(
    node: Configured, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, error: BaseException
) -> None:
    """No file changes when it passes."""
    node.start("a")

    def fail(*_arguments: object, **_options: Any) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(place, name, fail)
        node.put("10.conf", "b")
        assert [node.plugins, node.plugins] == [["a"], ["a"]]
    assert node.logged() == [
        f"{KEPT}{node.directory}:1:1: (document): cannot be read: {type(error).__name__}: {error}"
    ]
    assert node.plugins == ["b"]


@pytest.mark.parametrize("error", [ImportError("gone"), SystemExit("moved or deleted")])
def test_fault_that_cannot_be_explained_is_logged(
    node: Configured, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_arguments: object) -> None:
        raise error

    monkeypatch.setattr(diagnostics, "diagnose", fail)
    node.start("a")
    node.spoil()
    assert node.plugins == ["a"]
    assert node.logged() == [
        f"{KEPT}{node.directory}:1:1: (document): cannot be read: {type(error).__name__}: {error}"
    ]
