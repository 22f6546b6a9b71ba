"""The log's files: the one that was asked for, and the rotating one of a launched bridge; lost lines are counted."""

from __future__ import annotations

import errno
import logging
import os
import re
import socket
import stat
from typing import TYPE_CHECKING

import pytest

from nri.places import DEFAULT_RECORD_FILE
from nri.v1bridge import BridgeOptions, logs, rotating
from nri.v1bridge.rotating import HeldLines, RotatingFile
from tests.unit.v1bridge.log_lines import STAMP, Log, event, step

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nri_logger: logging.Logger) -> Iterator[Path]:
    """A node without journal and syslog: its /var/log."""
    monkeypatch.setattr(logs, "SYSLOG", str(tmp_path / "none"))
    monkeypatch.setattr(rotating, "DIRECTORY", str(tmp_path / "var/log/nri"))
    (tmp_path / "var/log").mkdir(parents=True)
    yield tmp_path / "var/log"
    logs.set_up(BridgeOptions(), launched=False)


def ends(path: Path) -> list[str]:
    return [line.split()[-1] for line in path.read_text().splitlines()]


def failing(number: int) -> object:
    def fail(*_arguments: object, **_named: object) -> int:
        raise OSError(number, os.strerror(number))

    return fail


# The file of the options


def test_the_file_is_its_owners_and_lines_are_appended(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for number in range(20):
        log.set_up(log_format=("json", "text")[number % 2])
        logging.getLogger("nri").info("%d", number)
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert ends(log.path)[1::2] == [str(number) for number in range(1, 20, 2)]
    assert len(logging.getLogger("nri").handlers) == 1
    assert len(os.listdir("/proc/self/fd")) == before + 1
    assert caplog.records == []  # the handlers of the root logger get nothing


def test_a_moved_file_is_created_again(log: Log) -> None:
    log.set_up()
    logger = logging.getLogger("nri")
    logger.info("one")
    moved = log.path.rename(f"{log.path}.1")
    logger.info("two")
    assert (ends(moved), ends(log.path)) == (["one"], ["two"])
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    log.path.unlink()
    logger.info("three")
    assert ends(log.path) == ["three"]


def test_the_old_file_goes_on_when_no_new_one_can_be_created(tmp_path: Path, nri_logger: logging.Logger) -> None:
    (tmp_path / "log").mkdir()
    log = Log(tmp_path / "log/bridge.log")
    log.set_up()
    nri_logger.info("one")
    (tmp_path / "log").rename(tmp_path / "old")
    nri_logger.info("two")
    (tmp_path / "log").write_text("no directory")
    nri_logger.info("three")
    assert ends(tmp_path / "old/bridge.log") == ["one", "two", "three"]
    (tmp_path / "log").unlink()
    (tmp_path / "log").mkdir()
    nri_logger.info("four")
    assert ends(log.path) == ["four"]


@pytest.mark.parametrize("name", ["none/bridge.log", "", "fifo"])
def test_stderr_replaces_a_file_that_cannot_be_written(
    tmp_path: Path, nri_logger: logging.Logger, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    os.mkfifo(tmp_path / "fifo")  # without a reader
    logs.set_up(BridgeOptions(log_file=f"{tmp_path}/{name}"), launched=False)
    nri_logger.info("more")
    first, second = capsys.readouterr().err.splitlines()
    assert f" error the log file {tmp_path}/{name} cannot be written: " in first
    assert second.endswith(" info more")


def test_a_full_disk_raises_nothing_and_is_reported_once(
    bare: Path, nri_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        logs.set_up(BridgeOptions(log_file="/dev/full"), launched=True)
        for _ in range(100):
            nri_logger.error("x" * 1000)
            event(step(metadata={"a": "b"}))
    logs.set_up(BridgeOptions(), launched=False)
    out, said = capsys.readouterr()
    fault = "error the log file /dev/full cannot be written, lines are lost: No space left on device"
    assert out == ""
    assert re.fullmatch(rf"({STAMP} {fault}\n){{2}}", said)


def test_a_full_disk_is_reported_in_syslog(log: Log, syslog: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    log.set_up()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: 0)
        logging.getLogger("nri").info("lost")
        said = syslog.recv(4096).decode()
    assert said.endswith(f" the log file {log.path} cannot be written, lines are lost: No space left on device")


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_lines_that_a_file_did_not_take_are_counted_in_it(
    bare: Path, log: Log, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], log_format: str
) -> None:
    log.set_up(log_format=log_format)
    logger = logging.getLogger("nri")
    logger.info("one")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", failing(errno.ENOSPC))
        for _ in range(3):
            logger.info("lost")
    logger.info("two")
    logger.info("three")
    found = [value["message"] for value in log.objects] if log_format == "json" else log.lines
    expected = ["one", "3 lines before this one are lost: No space left on device", "two", "three"]
    assert all(line.endswith(end) for line, end in zip(found, expected, strict=True))
    assert capsys.readouterr().err.count("\n") == 1


def test_a_line_that_was_cut_short_does_not_run_into_the_next(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.set_up()
    logger = logging.getLogger("nri")
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, data[:30]))
        logger.info("one that is long enough")
    logger.info("two")
    logger.info("three")
    one, lost, two, three = log.lines
    assert len(one) == 30
    assert lost.endswith("error 1 lines before this one are lost: No space left on device")
    assert (two.split()[-1], three.split()[-1]) == ("two", "three")


def test_a_message_that_cannot_be_formatted_is_dropped(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up()
    logging.getLogger("nri").info("%d plugins", "no")
    logging.getLogger("nri").info("next")
    assert ends(log.path) == ["next"]
    assert capsys.readouterr() == ("", "")


# The file of a launched bridge on a node without journal and syslog


def test_a_launched_bridge_without_journal_and_syslog_logs_to_a_file_and_says_so(
    bare: Path, nri_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.set_up(BridgeOptions(), launched=True)
    nri_logger.info("one")
    path = bare / "nri/v1bridge.log"
    assert logs.destination()[0] == str(path)
    assert ends(path) == ["one"]
    assert capsys.readouterr().err.endswith(f" info syslog is not there: logging to {path}\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        logs.set_up(BridgeOptions(), launched=True)
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_file_is_beside_a_record_of_its_own_and_beside_the_usual_record_only_the_second_choice(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.set_up(BridgeOptions(record_file=f"{tmp_path}/run/other.record"), launched=True)
    assert logs.destination()[0] == f"{tmp_path}/run/other.log"
    assert not (bare / "nri").exists()
    monkeypatch.undo()
    assert [path for path, _ in rotating.candidates(DEFAULT_RECORD_FILE)] == [
        "/var/log/nri/v1bridge.log",
        "/run/nri/v1bridge.log",
    ]


def test_until_the_runtime_has_passed_the_options_no_file_is_made(
    bare: Path, tmp_path: Path, nri_logger: logging.Logger
) -> None:
    logs.set_up(BridgeOptions(), launched=False)  # from outside: never
    logs.set_up(BridgeOptions(), launched=True, is_final=False)
    nri_logger.info("early")
    nri_logger.error("serious")
    assert logs.destination()[0] == "memory"
    logs.set_up(BridgeOptions(log_file=f"{tmp_path}/asked.log"), launched=True)
    assert list(bare.iterdir()) == []
    assert ends(tmp_path / "asked.log") == ["serious"]


def test_lines_from_before_the_options_are_in_the_file(bare: Path, nri_logger: logging.Logger) -> None:
    logs.set_up(BridgeOptions(), launched=True, is_final=False)
    nri_logger.info("early")
    logs.set_up(BridgeOptions(), launched=True)
    nri_logger.info("late")
    assert ends(bare / "nri/v1bridge.log") == ["early", "late"]


def test_a_bridge_that_is_never_configured_leaves_its_last_lines(bare: Path, nri_logger: logging.Logger) -> None:
    logs.set_up(BridgeOptions(), launched=True, is_final=False)
    for number in range(1000):
        nri_logger.info("%d", number)
    (held,) = nri_logger.handlers
    held.close()  # as the interpreter does at its end
    assert ends(bare / "nri/v1bridge.log") == [str(number) for number in range(1000 - HeldLines.MAX, 1000)]


def test_neither_links_nor_fifos_nor_directories_of_others_are_used(
    bare: Path, tmp_path: Path, nri_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, target = bare / "nri", tmp_path / "target"
    options = BridgeOptions(record_file=f"{folder}/v1bridge.record")

    def is_refused() -> bool:
        logs.set_up(options, launched=True)
        nri_logger.info("x")
        said = capsys.readouterr().err
        refused = f"the log cannot be written to {folder}/v1bridge.log: " in said
        return logs.destination()[0] == "stderr" and refused and said.endswith(" info x\n")

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
    nri_logger.info("x" * 5000)  # longer than a file
    nri_logger.info("new")
    assert (file.read_text(), file.with_name("bridge.log.1").stat().st_size) == ("new\n", 5001)


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
    file: Path, nri_logger: logging.Logger, reports: list[str], monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    nri_logger.info("x" * 1000)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing(errno.EROFS))
        for _ in range(3):
            nri_logger.info("lost")
    assert sum(each.stat().st_size for each in file.parent.iterdir()) == 1001
    nri_logger.info("again")
    assert file.read_text() == "3 lines before this one are lost: Read-only file system\nagain\n"
    assert reports == [f"the log file {file} cannot be written, lines are lost: Read-only file system"]
