"""The log in the journal and in syslog: fields, long lines, restarts, and a socket that takes nothing."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri.v1bridge import BridgeOptions, datagrams, journal, logs
from nri.v1bridge.event_log import late_line, plugin_line
from tests.support.journal_socket import Journal, parse
from tests.unit.v1bridge.log_lines import CONTAINER, STAMP, Log, event, request, step

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def journald(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nri_logger: logging.Logger) -> Iterator[Journal]:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    monkeypatch.setattr(journal, "SOCKET", "journal")
    monkeypatch.setattr(logs, "SYSLOG", "none")
    made = Journal("journal")
    yield made
    logs.set_up(BridgeOptions(), launched=False)
    made.close()


# The journal


def test_an_event_is_an_entry_with_the_fields_of_pod_container_and_plugins(journald: Journal) -> None:
    logs.set_up(BridgeOptions(), launched=True)
    assert logs.destination()[0] == "the journal"
    event(step(plugin="clearcfs", metadata={"quota": "5/10"}), step(), step())
    text = (
        "info answered state=create container=default/web/app id=1f92344f3c93 ms=98.7 "
        'plugins="clearcfs ok 12.3ms, konfine ok 12.3ms, konfine ok 12.3ms" clearcfs.quota=5/10'
    )
    assert journald.entry() == {
        "MESSAGE": [text],
        "PRIORITY": ["6"],
        "SYSLOG_IDENTIFIER": ["nri-v1bridge"],
        "SYSLOG_FACILITY": ["3"],
        "STATE": ["create"],
        "POD_NAMESPACE": ["default"],
        "POD_NAME": ["web"],
        "CONTAINER_NAME": ["app"],
        "CONTAINER_ID": ["1f92344f3c93"],
        "PLUGIN": ["clearcfs", "konfine"],
        "OUTCOME": ["ok"],
    }
    event(step(error="x"), error="y", name="kube-system/dns", about=request("delete", sandbox=True))
    event(step(error="x", policy="ignore"))
    failed, over = journald.entry(), journald.entry()
    assert (failed["PRIORITY"], failed["OUTCOME"], failed["STATE"]) == (["3"], ["error"], ["delete"])
    assert (failed["POD_NAMESPACE"], failed["POD_NAME"]) == (["kube-system"], ["dns"])
    assert "CONTAINER_NAME" not in failed
    assert (over["PRIORITY"], over["OUTCOME"]) == (["3"], ["passedOver"])


def test_other_lines_have_the_fields_that_they_have(journald: Journal, nri_logger: logging.Logger) -> None:
    logs.set_up(BridgeOptions(log_level="debug"), launched=True)
    nri_logger.warning("hello\nworld")
    assert journald.entry() == {
        "MESSAGE": [r"warning hello\nworld"],
        "PRIORITY": ["4"],
        "SYSLOG_IDENTIFIER": ["nri-v1bridge"],
        "SYSLOG_FACILITY": ["3"],
    }
    plugin_line(CONTAINER, request(), "konfine", "OUTCOME=ok")
    says = journald.entry()
    assert (says["PLUGIN"], says["POD_NAME"], says.get("OUTCOME")) == (["konfine"], ["web"], None)
    late_line(CONTAINER, request(), "no")
    assert journald.entry()["CONTAINER_NAME"] == ["app"]


@pytest.mark.parametrize("evil", ["a\nMESSAGE=forged\nOUTCOME=ok", "=", "", "\udc80", "ü\x00€", "x" * 100_000])
def test_no_name_leaves_its_field(journald: Journal, evil: str) -> None:
    logs.set_up(BridgeOptions(), launched=True)
    event(step(metadata={evil: evil}), name=f"{evil}/{evil}/{evil}", about=request(id=evil))
    entry = journald.entry()
    assert set(entry) <= {
        *("MESSAGE", "PRIORITY", "SYSLOG_IDENTIFIER", "SYSLOG_FACILITY", "STATE", "POD_NAMESPACE", "POD_NAME"),
        *("CONTAINER_NAME", "CONTAINER_ID", "PLUGIN", "OUTCOME"),
    }
    assert all(len(values) == 1 for values in entry.values())
    as_sent = evil.encode("utf-8", "backslashreplace").decode()
    assert entry["POD_NAMESPACE"][0] in (evil, as_sent, entry["POD_NAME"][0])
    assert max(len(value) for key, (value,) in entry.items() if key != "MESSAGE") < 1200


@settings(max_examples=30)
@given(st.lists(st.tuples(st.from_regex("[A-Z][A-Z0-9_]{0,20}", fullmatch=True), st.text()), min_size=1))
def test_an_entry_is_read_as_it_was_encoded(pairs: list[tuple[str, str]]) -> None:
    expected: dict[str, list[str]] = {}
    for key, value in pairs:
        expected.setdefault(key, []).append(value.encode("utf-8", "backslashreplace").decode())
    assert parse(journal.encode(pairs)) == expected


def test_a_line_that_no_datagram_can_hold_comes_in_a_memfd(journald: Journal, nri_logger: logging.Logger) -> None:
    logs.set_up(BridgeOptions(), launched=True)
    before = len(os.listdir("/proc/self/fd"))
    for length in (100, 1_000_000, 100, 5_000_000):
        nri_logger.info("x" * length)
        assert journald.entry()["MESSAGE"] == ["info " + "x" * length]
    assert journald.large == 2
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_journal_that_takes_nothing_does_not_block_and_then_counts_what_is_lost(
    journald: Journal, nri_logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.set_up(BridgeOptions(), launched=True)
    already = logs.destination()[1]
    for _ in range(2000):  # more than its queue holds; it would wait for ever
        nri_logger.info("x")
    lost = logs.destination()[1] - already
    assert 0 < lost < 2000
    for _ in range(2000 - lost):
        assert journald.entry()["MESSAGE"] == ["info x"]
    monkeypatch.setattr(nri_logger.handlers[0], "_backoff_until", 0.0)
    nri_logger.info("again")
    assert journald.entry()["MESSAGE"] == [f"error {lost} lines before this one are lost: the journal took no more"]
    assert journald.entry()["MESSAGE"] == ["info again"]
    assert logs.destination()[1] - already == lost


def test_a_journal_that_was_restarted_is_found_again_with_no_line_lost(
    journald: Journal, nri_logger: logging.Logger
) -> None:
    logs.set_up(BridgeOptions(), launched=True)
    nri_logger.info("one")
    journald.close()
    os.unlink("journal")
    new = Journal("journal")
    nri_logger.info("two")
    assert new.entry()["MESSAGE"] == ["info two"]
    new.close()


@pytest.mark.parametrize(("stream", "to"), [("its stderr", "the journal"), ("1:2", "stderr"), (None, "stderr")])
def test_a_service_whose_stderr_is_the_journal_logs_there_with_fields(
    journald: Journal, monkeypatch: pytest.MonkeyPatch, nri_logger: logging.Logger, stream: str | None, to: str
) -> None:
    status = os.fstat(2)
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    if stream is not None:
        monkeypatch.setenv("JOURNAL_STREAM", stream if to == "stderr" else f"{status.st_dev}:{status.st_ino}")
    logs.set_up(BridgeOptions(), launched=False)
    assert logs.destination()[0] == to
    if to != "stderr":
        nri_logger.info("hello")
        assert journald.entry()["MESSAGE"] == ["info hello"]


# Syslog


def test_a_launched_bridge_without_a_journal_logs_to_syslog(
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


def test_syslog_that_was_restarted_is_found_again(
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
        new.settimeout(60)
        nri_logger.info("two")
        assert b"error 2 lines before this one are lost: " in new.recv(9999)
        assert new.recv(9999).endswith(b"info two")
