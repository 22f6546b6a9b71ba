"""The file that a launched bridge logs to unasked: its place, its size, and what harms it."""

from __future__ import annotations

import errno
import logging
import os
import stat
from typing import TYPE_CHECKING

import pytest

from nri.places import DEFAULT_RECORD_FILE
from nri.v1bridge import BridgeOptions, journal, logs, rotating
from nri.v1bridge.rotating import HeldLines, RotatingFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nri_logger: logging.Logger) -> Iterator[Path]:
    """A node without journal and syslog: its /var/log."""
    monkeypatch.setattr(journal, "SOCKET", str(tmp_path / "none"))
    monkeypatch.setattr(logs, "SYSLOG", str(tmp_path / "none"))
    monkeypatch.setattr(rotating, "DIRECTORY", str(tmp_path / "var/log/nri"))
    (tmp_path / "var/log").mkdir(parents=True)
    yield tmp_path / "var/log"
    logs.set_up(BridgeOptions(), launched=False)


def ends(path: Path) -> list[str]:
    return [line.split()[-1] for line in path.read_text().splitlines()]


def test_a_launched_bridge_without_journal_and_syslog_logs_to_a_file_and_says_so(
    node: Path, nri_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.set_up(BridgeOptions(), launched=True)
    nri_logger.info("one")
    path = node / "nri/v1bridge.log"
    assert logs.destination() == (str(path), logs.destination()[1])
    assert ends(path) == ["one"]
    assert capsys.readouterr().err.endswith(f" info neither the journal nor syslog is there: logging to {path}\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_bridge_with_a_record_of_its_own_has_its_log_beside_it(node: Path, tmp_path: Path) -> None:
    logs.set_up(BridgeOptions(record_file=f"{tmp_path}/run/other.record"), launched=True)
    assert logs.destination()[0] == f"{tmp_path}/run/other.log"
    assert not (node / "nri").exists()


def test_the_place_beside_the_record_is_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [path for path, _ in rotating.candidates(DEFAULT_RECORD_FILE)] == [
        "/var/log/nri/v1bridge.log",
        "/run/nri/v1bridge.log",
    ]


def test_a_bridge_from_outside_makes_no_file(node: Path) -> None:
    logs.set_up(BridgeOptions(), launched=False)
    assert list(node.iterdir()) == []


def test_until_the_runtime_has_passed_the_options_no_file_is_made(
    node: Path, tmp_path: Path, nri_logger: logging.Logger
) -> None:
    logs.set_up(BridgeOptions(), launched=True, is_final=False)
    nri_logger.info("early")
    nri_logger.error("serious")
    assert logs.destination()[0] == "memory"
    assert list(node.iterdir()) == []
    logs.set_up(BridgeOptions(log_file=f"{tmp_path}/asked.log"), launched=True)
    assert list(node.iterdir()) == []
    assert ends(tmp_path / "asked.log") == ["serious"]


def test_what_was_said_before_the_options_is_in_the_file(node: Path, nri_logger: logging.Logger) -> None:
    logs.set_up(BridgeOptions(), launched=True, is_final=False)
    nri_logger.info("early")
    logs.set_up(BridgeOptions(), launched=True)
    nri_logger.info("late")
    assert ends(node / "nri/v1bridge.log") == ["early", "late"]


def test_a_bridge_that_is_never_configured_has_its_last_lines_there(node: Path, nri_logger: logging.Logger) -> None:
    logs.set_up(BridgeOptions(), launched=True, is_final=False)
    for number in range(1000):
        nri_logger.info("%d", number)
    (held,) = nri_logger.handlers
    held.close()  # as the interpreter does at its end
    assert ends(node / "nri/v1bridge.log") == [str(number) for number in range(1000 - HeldLines.MAX, 1000)]


# Its size


@pytest.fixture
def reports() -> list[str]:
    return []


@pytest.fixture
def file(tmp_path: Path, nri_logger: logging.Logger, reports: list[str]) -> Path:
    """A log of 1000 bytes at most, or a line more."""
    nri_logger.addHandler(RotatingFile(f"{tmp_path}/log/bridge.log", 1000, reports.append))
    nri_logger.setLevel(logging.INFO)
    nri_logger.propagate = False
    return tmp_path / "log/bridge.log"


def test_a_full_file_is_kept_with_the_one_before(file: Path, nri_logger: logging.Logger) -> None:
    for number in range(1000):
        nri_logger.info("%099d", number)  # with the newline 100 bytes
    assert sorted(os.listdir(file.parent)) == ["bridge.log", "bridge.log.1", "bridge.log.2"]
    assert {each.stat().st_size for each in file.parent.iterdir()} == {1000}
    kept = [int(line) for name in (".2", ".1", "") for line in file.with_name(file.name + name).read_text().split()]
    assert kept == list(range(970, 1000))


def test_a_line_that_is_longer_than_a_file_is_written_once(file: Path, nri_logger: logging.Logger) -> None:
    for sign in "abc":
        nri_logger.info(sign * 5000)
    assert {each.stat().st_size for each in file.parent.iterdir()} == {5001}


def test_what_is_there_from_an_earlier_bridge_counts(file: Path, nri_logger: logging.Logger) -> None:
    file.write_text("x" * 999 + "\n")
    nri_logger.info("new")
    assert (file.read_text(), file.with_name("bridge.log.1").stat().st_size) == ("new\n", 1000)


def test_a_file_that_was_moved_or_removed_is_made_again(file: Path, nri_logger: logging.Logger) -> None:
    nri_logger.info("one")
    file.unlink()
    nri_logger.info("two")
    assert file.read_text() == "two\n"
    file.unlink()
    file.parent.rmdir()
    nri_logger.info("three")
    assert file.read_text() == "three\n"


@pytest.mark.parametrize("call", ["rename", "open"])
def test_when_there_can_be_no_new_file_lines_are_lost_and_none_grows(
    file: Path,
    nri_logger: logging.Logger,
    reports: list[str],
    monkeypatch: pytest.MonkeyPatch,
    call: str,
) -> None:
    def fail(*arguments: object, **named: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    nri_logger.info("x" * 1000)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        for _ in range(3):
            nri_logger.info("lost")
    assert sum(each.stat().st_size for each in file.parent.iterdir()) == 1001
    nri_logger.info("again")
    assert file.read_text() == "3 lines before this one are lost: Read-only file system\nagain\n"
    assert reports == [f"the log file {file} cannot be written, lines are lost: Read-only file system"]


def test_a_full_disk_loses_lines_and_says_how_many(
    file: Path, nri_logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        nri_logger.info("lost")
    nri_logger.info("again")
    assert file.read_text() == "1 lines before this one are lost: No space left on device\nagain\n"


# Whose it is


def test_neither_links_nor_fifos_nor_directories_of_others_are_used(
    node: Path, tmp_path: Path, nri_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = node / "nri"
    target = tmp_path / "target"
    options = BridgeOptions(record_file=f"{folder}/v1bridge.record")

    def is_refused() -> bool:
        logs.set_up(options, launched=True)
        nri_logger.info("x")
        said = capsys.readouterr().err
        return logs.destination()[0] == "stderr" and f"the log cannot be written to {folder}/v1bridge.log: " in said

    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    assert is_refused()
    folder.chmod(0o700)
    (folder / "v1bridge.log").symlink_to(target)
    assert is_refused()
    assert not target.exists()
    (folder / "v1bridge.log").unlink()
    os.mkfifo(folder / "v1bridge.log")
    assert is_refused()
    (folder / "v1bridge.log").unlink()
    folder.rmdir()
    target.mkdir()
    folder.symlink_to(target)
    assert is_refused()
    assert list(target.iterdir()) == []


def test_no_descriptor_is_left_open(node: Path) -> None:
    logs.set_up(BridgeOptions(), launched=True)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        logs.set_up(BridgeOptions(), launched=True)
    assert len(os.listdir("/proc/self/fd")) == before
