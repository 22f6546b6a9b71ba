"""The log in syslog: priorities, long lines, restarts, and a socket that takes nothing."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
from typing import TYPE_CHECKING

import pytest

from nri.v1bridge import BridgeOptions, logs
from nri.v1bridge import syslog as module
from tests.unit.v1bridge.log_lines import STAMP, Log, event, step

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("stream", "to"), [("its stderr", "syslog"), ("1:2", "stderr"), (None, "stderr")])
def test_a_service_whose_stderr_is_the_journal_logs_with_priorities(
    syslog: socket.socket, monkeypatch: pytest.MonkeyPatch, nri_logger: logging.Logger, stream: str | None, to: str
) -> None:
    status = os.fstat(2)
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    if stream is not None:
        monkeypatch.setenv("JOURNAL_STREAM", stream if to == "stderr" else f"{status.st_dev}:{status.st_ino}")
    logs.set_up(BridgeOptions(), launched=False)
    assert logs.destination()[0] == to
    if to != "stderr":
        nri_logger.info("hello")
        assert syslog.recv(9999).endswith(b"info hello")


def test_a_launched_bridge_logs_to_syslog(
    syslog: socket.socket, nri_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.set_up(BridgeOptions(log_level="debug"), launched=True)
    assert logs.destination()[0] == "syslog"
    for level, priority in ((10, 31), (20, 30), (30, 28), (40, 27), (50, 26)):
        nri_logger.log(level, "hello\nworld")
        name = logging.getLevelName(level).lower()
        assert syslog.recv(9999).decode() == rf"<{priority}>nri-v1bridge[{os.getpid()}]: {name} hello\nworld"
    assert capsys.readouterr() == ("", "")
    logs.set_up(BridgeOptions(log_format="json"), launched=True)
    event(step(metadata={"k": "\udc80ü"}))
    assert json.loads(syslog.recv(9999).partition(b": ")[2])["plugins"][0]["metadata"] == {"k": "\udc80ü"}


def test_a_plugins_long_text_still_fits_into_a_datagram(syslog: socket.socket, nri_logger: logging.Logger) -> None:
    logs.set_up(BridgeOptions(), launched=True)
    event(step(error="\x01" * 100_000), error="x")
    event(step(metadata={f"{n:0300}": "\x01" * 999 for n in range(99)}))
    assert b"error failed state=create" in syslog.recv(999_999)
    assert b"info answered state=create" in syslog.recv(999_999)


def test_a_bridge_from_outside_logs_to_stderr_even_with_syslog(
    syslog: socket.socket, nri_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.set_up(BridgeOptions(), launched=False)
    nri_logger.info("hello")
    assert re.fullmatch(rf"{STAMP} info hello\n", capsys.readouterr().err)


def test_a_log_file_goes_before_syslog_which_reports_one_that_cannot_be_written(
    syslog: socket.socket, tmp_path: Path, nri_logger: logging.Logger
) -> None:
    logs.set_up(BridgeOptions(log_file="/nowhere/bridge.log"), launched=True)
    assert b"error the log file /nowhere/bridge.log cannot be written: No such file" in syslog.recv(9999)
    logs.set_up(BridgeOptions(log_file=str(tmp_path / "bridge.log")), launched=True)
    nri_logger.info("hello")
    assert Log(tmp_path / "bridge.log").lines[0].endswith(" info hello")


def test_without_a_reader_of_syslog_and_a_place_for_a_file_the_log_is_stderr(
    syslog: socket.socket, nri_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    syslog.close()
    logs.set_up(BridgeOptions(record_file="/proc/none/v1bridge.record"), launched=True)
    assert logs.destination()[0] == "stderr"
    nri_logger.info("hello")
    assert capsys.readouterr().err.endswith(" info hello\n")


def test_syslog_that_takes_nothing_does_not_block_and_after_the_backoff_gets_lines_again(
    syslog: socket.socket, nri_logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BACKOFF", 0.0)
    logs.set_up(BridgeOptions(), launched=True)
    syslog.setblocking(False)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other, pytest.raises(BlockingIOError):
        other.setblocking(False)
        while other.sendto(b"x", "log"):
            pass
    nri_logger.info("lost")
    with pytest.raises(BlockingIOError):
        while syslog.recv(9999):
            pass
    nri_logger.info("again")
    assert syslog.recv(9999).endswith(b"error 1 lines before this one are lost: syslog took no more")
    assert syslog.recv(9999).endswith(b"info again")


def test_syslog_that_was_restarted_is_found_again(
    syslog: socket.socket, nri_logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BACKOFF", 0.0)
    logs.set_up(BridgeOptions(), launched=True)
    nri_logger.info("one")
    syslog.close()
    nri_logger.info("lost")
    os.unlink("log")
    nri_logger.info("lost too")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as new:
        new.bind("log")
        new.settimeout(60)
        nri_logger.info("two")
        assert b"error 2 lines before this one are lost: " in new.recv(9999)
        assert new.recv(9999).endswith(b"info two")
