"""Progress: a line that is rewritten on a terminal, lines elsewhere, nothing where it is quiet; never an error."""

from __future__ import annotations

import io
import os
import pty
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.cli.progress import WIDTH, Progress
from tests.support.waiting import SOON, until

ROOT = Path(__file__).parents[2]
NOW = 0.001
"""A delay after which progress is shown."""


class Terminal:
    """A pseudo-terminal; what is written to `stream` arrives in `shown`."""

    def __init__(self) -> None:
        self._ours, theirs = pty.openpty()
        self.stream = os.fdopen(theirs, "w")
        self.shown = b""
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        try:
            while data := os.read(self._ours, 4096):
                self.shown += data
        except OSError:
            pass  # the other end is closed

    def close(self) -> None:
        self.stream.close()
        self._thread.join(SOON)
        os.close(self._ours)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.close()


def test_a_terminal_gets_one_line_that_is_rewritten_and_removed(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with Progress(terminal.stream, delay=NOW) as progress:
        progress.show("1 of 2")
        until(lambda: b"1 of 2 (" in terminal.shown)
        progress.show("2 of 2")
        until(lambda: b"2 of 2 (" in terminal.shown)
    until(lambda: terminal.shown.endswith(b"\r\x1b[K"))
    assert b"\n" not in terminal.shown


def test_a_long_text_does_not_wrap_and_has_no_control_characters(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with Progress(terminal.stream, delay=NOW) as progress:
        progress.show("\x1b[31m" + "x" * 500)
        until(lambda: b"s)" in terminal.shown)
    line = terminal.shown.decode().split("\r\x1b[K")[1]
    assert len(line) == WIDTH
    assert line.isprintable()


def test_a_file_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    with Progress(stream, delay=NOW) as progress:
        progress.show("building")
        until(lambda: stream.getvalue().count("\n") > 1)
    assert {line.partition(" (")[0] for line in stream.getvalue().splitlines()} == {"building"}
    assert "\r" not in stream.getvalue()


def test_nothing_is_shown_where_it_is_quiet_or_short() -> None:
    stream = io.StringIO()
    with Progress(stream, is_quiet=True, delay=NOW) as progress:
        progress.show("building")
    with Progress(stream) as progress:
        progress.show("building")
    with Progress(None) as progress:
        progress.show("building")
    assert stream.getvalue() == ""


def test_a_stream_that_fails_does_not_disturb_the_work() -> None:
    class Full(io.StringIO):
        calls = 0

        def write(self, text: str) -> int:
            self.calls += 1
            raise OSError(28, "No space left on device")

    stream = Full()
    with Progress(stream, delay=NOW) as progress:
        progress.show("building")
        until(lambda: stream.calls)
    assert stream.calls == 1


def test_a_stream_that_takes_nothing_does_not_stop_the_work() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        os.set_blocking(writing, False)
        while True:
            try:
                os.write(writing, b"x" * 65536)
            except BlockingIOError:
                break
        os.set_blocking(writing, True)
        with Progress(stream, delay=NOW) as progress:
            for number in range(1000):
                progress.show(f"{number} of 1000")
        os.read(reading, 1 << 20)  # or its thread would wait for ever
    os.close(reading)
