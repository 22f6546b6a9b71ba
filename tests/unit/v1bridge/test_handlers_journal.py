"""The log in the journal: fields, long lines, restarts, and a journal that takes nothing."""

from __future__ import annotations

import json
import logging
import os
import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.v1bridge import BridgeOptions, datagrams, journal, logs
from nri.v1bridge.event_log import late_line, plugin_line
from tests.support.journal_socket import Journal, parse
from tests.unit.v1bridge.log_lines import CONTAINER, event, request, step

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


def test_an_event_is_an_entry_with_the_fields_of_pod_container_and_plugins(journald: Journal) -> None:
    logs.set_up(BridgeOptions(), launched=True)
    assert logs.destination() == ("the journal", 0)
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


def test_failures_have_their_priority_and_outcome(journald: Journal) -> None:
    logs.set_up(BridgeOptions(), launched=True)
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


def test_in_json_the_message_is_an_object(journald: Journal) -> None:
    logs.set_up(BridgeOptions(log_format="json"), launched=True)
    event(step())
    entry = journald.entry()
    assert json.loads(entry["MESSAGE"][0])["container"] == CONTAINER
    assert entry["POD_NAME"] == ["web"]


@pytest.mark.parametrize("evil", ["a\nMESSAGE=forged\nOUTCOME=ok", "\n", "=", "", "\udc80", "ü\x00€", "x" * 100_000])
def test_no_name_leaves_its_field(journald: Journal, evil: str) -> None:
    logs.set_up(BridgeOptions(), launched=True)
    event(step(metadata={evil: evil}), name=f"{evil}/{evil}/{evil}", about=request(id=evil))
    entry = journald.entry()
    assert set(entry) <= {
        *("MESSAGE", "PRIORITY", "SYSLOG_IDENTIFIER", "SYSLOG_FACILITY", "STATE", "POD_NAMESPACE", "POD_NAME"),
        *("CONTAINER_NAME", "CONTAINER_ID", "PLUGIN", "OUTCOME"),
    }
    assert all(len(values) == 1 for values in entry.values())
    assert entry["POD_NAMESPACE"][0] in (
        evil,
        evil.encode("utf-8", "backslashreplace").decode(),
        entry["POD_NAME"][0],
    )
    assert max(len(value) for key, (value,) in entry.items() if key != "MESSAGE") < 1200


@given(st.lists(st.tuples(st.from_regex("[A-Z][A-Z0-9_]{0,20}", fullmatch=True), st.text()), min_size=1))
def test_what_is_encoded_is_what_a_journal_reads(pairs: list[tuple[str, str]]) -> None:
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


def test_a_journal_that_takes_nothing_does_not_block_and_then_says_how_many_are_lost(
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
    handler = nri_logger.handlers[0]
    monkeypatch.setattr(handler, "_backoff_until", 0.0)
    nri_logger.info("again")
    assert journald.entry()["MESSAGE"] == [f"error {lost} lines before this one are lost: the journal took no more"]
    assert journald.entry()["MESSAGE"] == ["info again"]
    assert logs.destination()[1] - already == lost


def test_a_journal_that_was_restarted_is_found_again(
    journald: Journal, nri_logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datagrams, "BACKOFF", 0.0)
    logs.set_up(BridgeOptions(), launched=True)
    nri_logger.info("one")
    journald.close()
    os.unlink("journal")
    new = Journal("journal")
    nri_logger.info("two")  # nothing is lost
    assert new.entry()["MESSAGE"] == ["info two"]
    new.close()


def test_a_service_whose_stderr_is_the_journal_logs_there_with_fields(
    journald: Journal, monkeypatch: pytest.MonkeyPatch, nri_logger: logging.Logger
) -> None:
    status = os.fstat(2)
    monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
    logs.set_up(BridgeOptions(), launched=False)
    nri_logger.info("hello")
    assert journald.entry()["MESSAGE"] == ["info hello"]


@pytest.mark.parametrize("stream", ["", "1:2", "x", None])
def test_any_other_bridge_logs_to_its_stderr(
    journald: Journal, monkeypatch: pytest.MonkeyPatch, stream: str | None
) -> None:
    if stream is None:
        monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    else:
        monkeypatch.setenv("JOURNAL_STREAM", stream)
    logs.set_up(BridgeOptions(), launched=False)
    assert logs.destination()[0] == "stderr"


def test_syslog_takes_the_place_of_a_journal_that_is_not_there(
    journald: Journal, monkeypatch: pytest.MonkeyPatch, nri_logger: logging.Logger
) -> None:
    monkeypatch.setattr(journal, "SOCKET", "none")
    monkeypatch.setattr(logs, "SYSLOG", "log")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
        syslog.bind("log")
        syslog.settimeout(10)
        logs.set_up(BridgeOptions(), launched=True)
        assert logs.destination()[0] == "syslog"
        nri_logger.info("hello")
        assert syslog.recv(999).endswith(b"info hello")
