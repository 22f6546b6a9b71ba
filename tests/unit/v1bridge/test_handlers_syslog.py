"""The log on syslog or the journal: datagrams, restarts, and a socket that takes nothing."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
from typing import TYPE_CHECKING

import pytest

from nri.v1bridge import BridgeOptions, datagrams, journal, logs
from tests.unit.v1bridge.log_lines import STAMP, Log, event, step

if TYPE_CHECKING:
    from pathlib import Path


def test_a_bridge_that_a_runtime_launched_logs_to_syslog(
    syslog: socket.socket, nri_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.set_up(BridgeOptions(log_level="debug"), launched=True)
    for level, priority in ((10, 31), (20, 30), (30, 28), (40, 27), (50, 26)):
        nri_logger.log(level, "hello\nworld")
        name = logging.getLevelName(level).lower()
        assert syslog.recv(9999).decode() == rf"<{priority}>nri-v1bridge[{os.getpid()}]: {name} hello\nworld"
    assert capsys.readouterr() == ("", "")


def test_syslog_gets_json_in_that_format(syslog: socket.socket, nri_logger: logging.Logger) -> None:
    logs.set_up(BridgeOptions(log_format="json"), launched=True)
    event(step(metadata={"k": "\udc80ü"}))
    head, _, value = syslog.recv(9999).decode().partition(": ")
    assert head == f"<30>nri-v1bridge[{os.getpid()}]"
    assert json.loads(value)["plugins"][0]["metadata"] == {"k": "\udc80ü"}


def test_a_plugins_long_text_still_fits_into_a_datagram(syslog: socket.socket, nri_logger: logging.Logger) -> None:
    logs.set_up(BridgeOptions(), launched=True)
    event(step(error="\x01" * 1_000_000), error="x")
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


def test_a_launched_bridge_without_syslog_and_with_no_place_for_a_file_logs_to_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nri_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(journal, "SOCKET", str(tmp_path / "none"))
    for path in ("none", "file", "dead"):
        monkeypatch.setattr(logs, "SYSLOG", str(tmp_path / path))
        (tmp_path / "file").write_text("")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            if path == "dead":
                sock.bind(logs.SYSLOG)
        logs.set_up(BridgeOptions(record_file="/proc/none/v1bridge.record"), launched=True)
        assert logs.destination()[0] == "stderr"
        nri_logger.info("to %s", path)
        assert capsys.readouterr().err.endswith(f" info to {path}\n")


def test_a_syslog_that_takes_nothing_does_not_block(syslog: socket.socket, nri_logger: logging.Logger) -> None:
    logs.set_up(BridgeOptions(), launched=True)
    for _ in range(2000):  # more than its queue holds: it would wait for ever
        nri_logger.info("x")
    syslog.setblocking(False)
    taken = 0
    with pytest.raises(BlockingIOError):
        while syslog.recv(9999):
            taken += 1
    assert 0 < taken < 2000


def test_after_the_backoff_syslog_gets_lines_again(
    syslog: socket.socket, nri_logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datagrams, "BACKOFF", 0.0)
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


def test_a_syslog_that_was_restarted_is_found_again(
    syslog: socket.socket, nri_logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datagrams, "BACKOFF", 0.0)
    logs.set_up(BridgeOptions(), launched=True)
    nri_logger.info("one")
    syslog.close()
    nri_logger.info("lost")
    os.unlink("log")
    nri_logger.info("lost too")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as new:
        new.bind("log")
        new.settimeout(10)
        nri_logger.info("two")
        assert b"error 2 lines before this one are lost: " in new.recv(9999)
        assert new.recv(9999).endswith(b"info two")
