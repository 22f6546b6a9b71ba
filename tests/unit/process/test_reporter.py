"""Lines on stderr and in a log file, which cannot block the process that writes them."""

import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nri.process import reporter
from nri.process.reporter import Reporter
from tests.support.blocked import ends

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} "


def unwritten(log: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Write a line to stderr and to this log; return why the log does not accept it."""
    Reporter(sys.stderr, str(log), program="nri hook").write("hello")
    line, reason = capsys.readouterr().err.splitlines()
    assert line == "hello"
    return reason.removeprefix(f"nri hook: the log file {log} cannot be written: ")


def test_log_may_be_a_device_or_a_fifo_with_a_reader(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    os.mkfifo(log)
    fifo = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    for path in (str(log), "/dev/null"):
        Reporter(sys.stderr, path).put("a\x07", "shown")
    assert capsys.readouterr().err == "shown\nshown\n"
    assert re.fullmatch(STAMP + r"a\\x07\n", os.read(fifo, 4096).decode())
    os.close(fifo)


def test_log_that_accepts_nothing_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(log))
    assert unwritten(log, capsys) == "it is a socket"
    log.unlink()
    os.mkfifo(log)
    assert unwritten(log, capsys) == "it is a FIFO that no process reads"
    fifo = os.open(log, os.O_RDWR | os.O_NONBLOCK)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(fifo, bytes(4096))
    assert unwritten(log, capsys) == "Resource temporarily unavailable"  # and it does not block
    os.close(fifo)
    assert unwritten(tmp_path / "missing/log", capsys) == "No such file or directory"
    monkeypatch.setattr(os, "write", lambda _fd, data: len(data) - 1)
    assert unwritten(tmp_path / "part", capsys) == "it does not accept a whole line"
    Reporter(None).write("nothing happens")


def test_terminal_that_the_process_does_not_have_is_reported() -> None:
    # A process that leads a session has no terminal, and opening /dev/tty fails as opening such a FIFO does.
    program = "import sys; from nri.process.reporter import Reporter; Reporter(sys.stderr, '/dev/tty').write('hello')"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        stderr=subprocess.PIPE,
        text=True,
        check=True,
        start_new_session=True,
    )
    assert ran.stderr.endswith(
        "the log file /dev/tty cannot be written: No such device or address\n"
    )


def test_stderr_that_is_read_late_has_all_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "TIMEOUT", 600.0)
    reads, writes = os.pipe()
    lines = [f"{number} {'x' * 5000}" for number in range(30)]  # more than a pipe holds

    def write() -> None:
        with open(writes, "w", encoding="utf-8") as stderr:
            report = Reporter(stderr)
            for line in lines:
                report.write(line)

    writer = threading.Thread(target=write)
    writer.start()
    with open(reads, encoding="utf-8") as file:
        assert file.read().splitlines() == lines
    writer.join()


def test_stderr_that_is_not_read_loses_lines_and_stays_blocking(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reporter, "TIMEOUT", 0.05)
    with ends("a pipe") as full, open(os.dup(full.fd), "w", encoding="utf-8") as stderr:
        full.fill()
        report = Reporter(stderr)
        report.write("lost")
        assert full.is_blocking
        assert full.read() == ""
        report.write("lost, too: all of the time has passed")
        assert full.read() == ""
