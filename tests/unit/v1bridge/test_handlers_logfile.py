"""The log's file: rotation, faults, a full disk, and lines that are lost and counted."""

from __future__ import annotations

import errno
import logging
import os
import re
import socket
import stat
from typing import TYPE_CHECKING

import pytest

from nri.v1bridge import BridgeOptions, journal, logs
from tests.unit.v1bridge.log_lines import STAMP, Log, event, step

if TYPE_CHECKING:
    from pathlib import Path


def test_only_the_owner_may_read_the_file_and_lines_are_appended(log: Log) -> None:
    log.path.write_text("before\n")
    log.path.unlink()
    log.set_up()
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    logging.getLogger("nri").info("one")
    log.set_up()
    logging.getLogger("nri").info("two")
    assert [line.split()[-1] for line in log.lines] == ["one", "two"]


def test_a_moved_file_is_created_again(log: Log) -> None:
    log.set_up()
    logger = logging.getLogger("nri")
    logger.info("one")
    log.path.rename(f"{log.path}.1")
    logger.info("two")
    assert [line.split()[-1] for line in log.lines] == ["two"]
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    log.path.unlink()
    logger.info("three")
    assert [line.split()[-1] for line in log.lines] == ["three"]
    with open(f"{log.path}.1", encoding="utf-8") as file:
        assert file.read().endswith(" info one\n")


def test_the_old_file_goes_on_when_no_new_one_can_be_created(tmp_path: Path, nri_logger: logging.Logger) -> None:
    (tmp_path / "log").mkdir()
    log = Log(tmp_path / "log/bridge.log")
    log.set_up()
    nri_logger.info("one")
    (tmp_path / "log").rename(tmp_path / "old")
    nri_logger.info("two")
    (tmp_path / "log").write_text("no directory")
    nri_logger.info("three")
    assert [line.split()[-1] for line in Log(tmp_path / "old/bridge.log").lines] == ["one", "two", "three"]
    (tmp_path / "log").unlink()
    (tmp_path / "log").mkdir()
    nri_logger.info("four")
    assert [line.split()[-1] for line in log.lines] == ["four"]


@pytest.mark.parametrize("path", ["{}/none/bridge.log", "{}", "{}/fifo", "{}/" + "x" * 300, "{}/file/x"])
def test_stderr_replaces_a_file_that_cannot_be_written(
    tmp_path: Path, nri_logger: logging.Logger, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    os.mkfifo(tmp_path / "fifo")  # that nobody reads
    (tmp_path / "file").write_text("")
    logs.set_up(BridgeOptions(log_file=path.format(tmp_path)), launched=False)
    nri_logger.info("more")
    first, second = capsys.readouterr().err.splitlines()
    assert f" error the log file {path.format(tmp_path)} cannot be written: " in first
    assert second.endswith(" info more")


def test_a_full_disk_raises_nothing_and_is_reported_once(
    nri_logger: logging.Logger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(logs, "SYSLOG", str(tmp_path / "none"))
    monkeypatch.setattr(journal, "SOCKET", str(tmp_path / "none"))
    for _ in range(2):
        logs.set_up(BridgeOptions(log_file="/dev/full"), launched=True)
        for _ in range(100):
            nri_logger.error("x" * 1000)
            event(step(metadata={"a": "b"}))
    logs.set_up(BridgeOptions(), launched=False)
    out, said = capsys.readouterr()
    what = "error the log file /dev/full cannot be written, lines are lost: No space left on device"
    assert out == ""
    assert re.fullmatch(rf"({STAMP} {what}\n){{2}}", said)


@pytest.mark.parametrize(("number", "log_format"), [(errno.ENOSPC, "text"), (errno.EAGAIN, "json")])
def test_lines_that_a_file_did_not_take_are_counted_in_it(
    log: Log, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, log_format: str
) -> None:
    monkeypatch.setattr(logs, "SYSLOG", str(log.path) + ".none")
    monkeypatch.setattr(journal, "SOCKET", str(log.path) + ".none")
    log.set_up(log_format=log_format)
    logger = logging.getLogger("nri")

    def fail(fd: int, data: bytes) -> int:
        raise OSError(number, os.strerror(number))

    logger.info("one")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        for _ in range(3):
            logger.info("lost")
    logger.info("two")
    logger.info("three")
    found = [value["message"] for value in log.objects] if log_format == "json" else log.lines
    ends = ["one", f"3 lines before this one are lost: {os.strerror(number)}", "two", "three"]
    assert len(found) == 4
    assert all(line.endswith(end) for line, end in zip(found, ends, strict=True))
    assert capsys.readouterr().err.count("\n") == 1


def test_a_full_disk_is_reported_in_syslog_too(log: Log, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(logs, "SYSLOG", str(tmp_path / "syslog"))
    monkeypatch.setattr(journal, "SOCKET", str(tmp_path / "none"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
        syslog.settimeout(30)
        syslog.bind(logs.SYSLOG)
        log.set_up()
        monkeypatch.setattr(os, "write", lambda fd, data: 0)
        logging.getLogger("nri").info("lost")
        monkeypatch.undo()
        said = syslog.recv(4096).decode()
    assert said.endswith(f" the log file {log.path} cannot be written, lines are lost: No space left on device")


def test_a_line_that_was_cut_short_by_a_full_disk_does_not_run_into_the_next(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.set_up()
    logger = logging.getLogger("nri")
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:30]))
    logger.info("one that is long enough")
    monkeypatch.undo()
    logger.info("two")
    logger.info("three")
    one, lost, two, three = log.lines
    assert len(one) == 30
    assert lost.endswith("error 1 lines before this one are lost: No space left on device")
    assert two.endswith("info two")
    assert three.endswith("info three")


def test_a_message_that_cannot_be_formatted_is_dropped(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up()
    logging.getLogger("nri").info("%d plugins", "no")
    logging.getLogger("nri").info("next")
    assert [line.split()[-1] for line in log.lines] == ["next"]
    assert capsys.readouterr() == ("", "")


def test_the_handlers_of_the_root_logger_get_nothing(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    log.set_up()
    logging.getLogger("nri.v1bridge").error("x")
    assert caplog.records == []


def test_setting_up_again_closes_the_old_handler(log: Log) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for number in range(20):
        log.set_up(log_format=("text", "json")[number % 2])
    assert len(logging.getLogger("nri").handlers) == 1
    assert len(os.listdir("/proc/self/fd")) == before + 1
