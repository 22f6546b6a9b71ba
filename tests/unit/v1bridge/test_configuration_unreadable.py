"""A configuration that cannot be read: the last valid one stays in use, and the reason is logged once."""

from __future__ import annotations

import errno
import logging
import os
from typing import Any

import pytest

from nri import config
from tests.unit.v1bridge.configured import Node, loading, logged, text


@pytest.mark.parametrize("kind", ["a directory", "a FIFO", "a link to nowhere", "a loop", "a binary", "a flood"])
def test_what_is_no_file_of_json_breaks_and_blocks_nothing(
    node: Node, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    other = node.directory / "20.conf"
    match kind:
        case "a directory":
            other.mkdir()
        case "a FIFO":
            os.mkfifo(other)
        case "a link to nowhere":
            other.symlink_to("/nowhere")
        case "a loop":
            other.symlink_to(other)
        case "a binary":
            other.write_bytes(bytes(range(256)))
        case "a flood":
            other.write_bytes(b" " * 2_000_000)
    assert node.plugins == ["a"]
    (line,) = logged(caplog, logging.ERROR)
    assert str(other) in line


def test_permission_that_is_lost_keeps_the_last_good_one_until_it_is_back(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    caplog.clear()
    real = os.open
    path = str(node.directory / "10.conf")

    def refused(name: str, *arguments: Any, **options: Any) -> Any:
        if name == path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        return real(name, *arguments, **options)

    with monkeypatch.context() as patched:  # root may read everything
        patched.setattr(loading.os, "open", refused)
        os.chmod(path, 0)
        assert [node.plugins, node.plugins] == [["a"], ["a"]]
    os.chmod(path, 0o644)
    assert node.plugins == ["a"]
    assert [line.partition(":")[0] for line in logged(caplog)] == [
        "invalid configuration; still using the last valid one (a)",
        "configuration",
    ]
    assert "permission denied" in logged(caplog)[0]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO])
def test_what_fails_for_a_moment_is_tried_again_although_no_file_changes(
    node: Node, old: None, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    node.put("20.conf", "b")

    def failing(*_arguments: object, **_options: Any) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(loading.os, "open", failing)
        assert [node.plugins, node.plugins] == [["a"], ["a"]]
    assert node.plugins == ["a", "b"]


def test_a_directory_that_cannot_be_listed_keeps_the_last_good_one(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.put("10.conf", "a")
    node.file.write_text(text("f"))
    assert node.plugins == ["a"]

    def refused(path: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "listdir", refused)
        os.chmod(node.directory, 0)
        assert node.plugins == ["a"]
    os.chmod(node.directory, 0o755)
    assert node.plugins == ["a"]


def test_names_that_are_no_text_are_said_in_one_printable_line(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    with open(os.path.join(os.fsencode(node.directory), b"10-\xff\n.conf"), "wb") as file:
        file.write(b"{")
    assert node.plugins == []
    (line,) = logged(caplog)
    assert line.isprintable()


def test_the_plugins_that_stay_and_the_file_at_fault_are_named(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.put("10.conf", "konfine", "clearcfs")
    assert node.plugins == ["konfine", "clearcfs"]
    caplog.clear()
    (node.directory / "20.conf").write_text('{"version": "0.1", "plugins": [}')
    assert node.plugins == ["konfine", "clearcfs"]
    (line,) = logged(caplog, logging.ERROR)
    start = "invalid configuration; still using the last valid one (konfine, clearcfs): "
    assert line.startswith(f"{start}{node.directory}/20.conf:1:32: ")


@pytest.mark.parametrize(
    ("error", "where"),
    [
        (SystemExit("moved or deleted"), "load_files"),
        (MemoryError(), "load_files"),
        (KeyError("a"), "load_files"),
        (SystemExit("moved or deleted"), "_look"),
        (RecursionError(), "_look"),
    ],
)
def test_whatever_goes_wrong_while_it_is_read_keeps_the_last_valid_one(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, error: BaseException, where: str
) -> None:
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    caplog.clear()

    def fail(*_arguments: object, **_options: Any) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(config if where == "load_files" else node.configuration, where, fail)
        node.put("10.conf", "b")
        assert [node.plugins, node.plugins] == [["a"], ["a"]]
    (line,) = logged(caplog)
    start = f"invalid configuration; still using the last valid one (a): {node.directory}:1:1: (document): "
    assert line == f"{start}cannot be read: {type(error).__name__}: {error}"
    assert node.plugins == ["b"]


def test_a_configuration_that_was_read_and_could_not_be_accepted_is_read_again(
    node: Node, old: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file changes between the two events: only the memory is there again."""
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    node.put("10.conf", "b")

    def fail(*_arguments: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(node.configuration, "_accept", fail)
        assert [node.plugins, node.plugins] == [["a"], ["a"]]
    assert node.plugins == ["b"]
