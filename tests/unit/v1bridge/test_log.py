"""Where the lines of the bridge go, and that no event waits for it."""

import logging
import os
import signal
import socket
import stat
import threading
from pathlib import Path

import pytest

from nri.v1bridge import BridgeOptions
from nri.v1bridge import log as bridge_log
from tests.support.waiting import SOON, wait_until
from tests.unit.v1bridge.log_lines import Log, event, step, written


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nri_logger: logging.Logger) -> Path:
    """A node without journal and syslog: its /var/log."""
    monkeypatch.setattr(bridge_log, "SYSLOG", str(tmp_path / "none"))
    (tmp_path / "var/log").mkdir(parents=True)
    return tmp_path / "var/log"


def ends(path: Path) -> list[str]:
    """The last words of the lines of a file, when all lines are written."""
    written()
    return [line.split()[-1] for line in path.read_text().splitlines()]


def used() -> str | None:
    to: str | None = bridge_log.describe()["to"]
    return to


def test_lines_are_appended_and_a_moved_file_is_created_again(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(4):
        log.set_up()
        logging.getLogger("nri").info("%d", number)
        assert len(log.lines) == number + 1
    assert used() == str(log.path)
    assert caplog.records == []  # the handlers of the root logger get nothing
    log.path.rename(log.path.with_suffix(".1"))
    logging.getLogger("nri").info("%d plugins", "no")
    logging.getLogger("nri").info("two")
    lost, two = log.lines
    assert " warning 1 lines before this one are lost: TypeError: " in lost
    assert two.endswith(" info two")
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_written_is_tried_again_and_loses_no_line(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge_log, "AGAIN_AFTER", 0.01)
    log.path.mkdir()
    log.set_up()
    logging.getLogger("nri").error("one")
    logging.getLogger("nri").info("two")
    assert wait_until(lambda: bridge_log.describe()["fault"] == "Is a directory")
    log.path.rmdir()
    assert wait_until(lambda: bridge_log.describe()["fault"] is None)
    assert ends(log.path) == ["one", "two"]
    assert bridge_log.describe() == {"to": str(log.path), "lost": 0, "fault": None}


def test_options_of_a_later_connection_count(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge_log, "AGAIN_AFTER", 0.01)
    log.path.mkdir()
    log.set_up()
    logging.getLogger("nri").info("one")
    assert wait_until(lambda: bridge_log.describe()["fault"])
    bridge_log.set_up(BridgeOptions(log_file=str(tmp_path / "other")), launched=True)
    logging.getLogger("nri").info("two")
    assert wait_until(lambda: bridge_log.describe()["fault"] is None)
    assert ends(tmp_path / "other") == ["one", "two"]


@pytest.mark.parametrize("stream", ["its stderr", "1:2", None])
def test_service_with_the_journal_logs_with_priorities(
    syslog: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    stream: str | None,
) -> None:
    status = os.fstat(2)
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    if stream is not None:
        value = f"{status.st_dev}:{status.st_ino}" if stream == "its stderr" else stream
        monkeypatch.setenv("JOURNAL_STREAM", value)
    bridge_log.set_up(BridgeOptions(), launched=False)
    logging.getLogger("nri").warning("hello\nworld")
    if stream == "its stderr":
        assert (
            syslog.recv(9999).decode() == rf"<28>nri-v1bridge[{os.getpid()}]: warning hello\nworld"
        )
    else:
        written()
        assert capfd.readouterr().err.endswith(" warning hello\\nworld\n")


def test_with_long_texts_a_line_is_a_datagram(syslog: socket.socket) -> None:
    bridge_log.set_up(BridgeOptions(), launched=True)
    event(step(error="\x01" * 100_000), error="x")
    event(step(metadata={f"{n:0300}": "\x01" * 999 for n in range(99)}))
    assert b"error failed state=create" in syslog.recv(999_999)
    assert b"info answered state=create" in syslog.recv(999_999)


def test_a_line_that_is_too_long_for_syslog_holds_up_no_other(syslog: socket.socket) -> None:
    bridge_log.set_up(BridgeOptions(), launched=True)
    logging.getLogger("nri").info("x" * 9_000_000)
    logging.getLogger("nri").info("two")
    assert syslog.recv(9999).endswith(b"warning 1 lines before this one are lost: Message too long")
    assert syslog.recv(9999).endswith(b"info two")
    logging.getLogger("nri").info("x" * 9_000_000)
    written()
    # Of the line, not of the place.
    assert bridge_log.describe() == {"to": "syslog", "lost": 2, "fault": None}


def test_a_reader_of_syslog_that_was_restarted_is_found_again(
    syslog: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge_log, "AGAIN_AFTER", 0.01)
    bridge_log.set_up(BridgeOptions(), launched=True)
    logging.getLogger("nri").info("one")
    assert syslog.recv(4096).endswith(b" one")
    syslog.close()
    logging.getLogger("nri").info("two")
    assert wait_until(lambda: bridge_log.describe()["fault"] == "Connection refused")
    os.unlink("log")
    assert wait_until(lambda: bridge_log.describe()["fault"] == "No such file or directory")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as again:
        again.bind("log")
        again.settimeout(SOON)
        assert again.recv(4096).endswith(b" two")


def test_blocked_sink_stops_only_the_writer(
    syslog: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge_log, "MAX_LINES", 50)
    bridge_log.set_up(BridgeOptions(), launched=True)
    for number in range(2000):  # more than socket and queue take
        logging.getLogger("nri").info("%d", number)
    said: list[str] = []
    while not said or said[-1] != "info 1999":
        if len(said) == 20:  # the reader reads again, and there is room
            assert wait_until(lambda: bridge_log.bridge_handler.waiting.qsize() < 50)
            logging.getLogger("nri").info("1999")
        said.append(syslog.recv(4096).decode().partition(": ")[2])
    lines = [line for line in said if line.startswith("info ")]
    losses = [
        int(line.split()[1])
        for line in said
        if line.endswith("before this one are lost: the log takes no more")
    ]
    assert 0 < sum(losses) == bridge_log.describe()["lost"] == 2001 - len(lines)
    assert len(said) == len(lines) + len(losses)
    assert lines == sorted(lines, key=lambda line: int(line.split()[1]))


def test_the_end_waits_for_a_sink_that_blocks_for_a_bounded_time(
    syslog: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge_log, "DRAINED_WITHIN", 0.05)
    bridge_log.set_up(BridgeOptions(), launched=True)
    for number in range(900):
        logging.getLogger("nri").info("%d", number)
    bridge_log.drain()
    assert syslog.recv(4096)  # it was not closed


def test_launched_bridge_without_syslog_logs_to_a_bounded_file(
    bare: Path, nri_logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge_log, "MAX_BYTES", 4096)
    bridge_log.set_up(BridgeOptions(), launched=True)
    path = bare / "nri/v1bridge.log"
    for number in range(500):
        nri_logger.info("%d", number)
    assert ends(path)[-1] == "499"
    assert used() == str(path)
    names = ["v1bridge.log", "v1bridge.log.1", "v1bridge.log.2"]
    assert sorted(os.listdir(path.parent)) == names
    assert all((path.parent / name).stat().st_size <= 4096 for name in names)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_log_file_is_beside_the_record(
    bare: Path, tmp_path: Path, nri_logger: logging.Logger
) -> None:
    bridge_log.set_up(BridgeOptions(record_dir=f"{tmp_path}/run/other.record"), launched=True)
    nri_logger.info("one")
    assert ends(tmp_path / "run/other.log")[-1] == "one"
    assert list(bare.iterdir()) == []


@pytest.mark.parametrize("has_file", [True, False])
def test_lines_from_before_the_options_wait_for_them(
    bare: Path, tmp_path: Path, nri_logger: logging.Logger, has_file: bool
) -> None:
    bridge_log.set_up(BridgeOptions(), launched=True, is_final=False)
    nri_logger.info("early")
    assert (used(), list(bare.iterdir())) == (None, [])
    path = tmp_path / "asked.log" if has_file else bare / "nri/v1bridge.log"
    if has_file:
        bridge_log.set_up(BridgeOptions(log_file=str(path)), launched=True)
    else:  # the runtime has never passed any, and the bridge ends
        bridge_log.drain()
    assert ends(path)[-1] == "early"


def test_links_fifos_and_untrusted_directories_are_not_used(
    bare: Path, tmp_path: Path, nri_logger: logging.Logger
) -> None:
    folder, target = bare / "nri", tmp_path / "target"

    def refused() -> str:
        lost = bridge_log.describe()["lost"]
        bridge_log.set_up(BridgeOptions(), launched=True)
        nri_logger.info("x")
        written()
        assert bridge_log.describe()["lost"] == lost + 1
        return str(bridge_log.describe()["fault"])

    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    assert refused().startswith(f"{folder} is writable by others")
    folder.chmod(0o700)
    (folder / "v1bridge.log").symlink_to(target)
    assert refused() == "Too many levels of symbolic links"
    assert not target.exists()
    (folder / "v1bridge.log").unlink()
    os.mkfifo(folder / "v1bridge.log")
    assert refused() == "No such device or address"
    (folder / "v1bridge.log").unlink()
    folder.rmdir()
    folder.touch()
    assert refused() == f"{folder} is no directory"


def test_the_exception_that_ends_a_thread_is_in_the_log(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    log.set_up()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    bridge_log.take_tracebacks()

    def fail() -> None:
        raise ValueError("no such thing")

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    assert signal.SIGTTOU in signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    (line,) = log.lines
    assert " error unexpected error | Traceback " in line
    assert line.endswith("ValueError: no such thing")
