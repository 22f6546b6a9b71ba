"""The log on stderr, whose reader may stop: nothing blocks, and lost lines are counted and reported."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from nri.v1bridge import logs
from nri.v1bridge import stderr as module
from nri.v1bridge.handlers import StderrHandler
from nri.v1bridge.stderr import NonBlockingWriter, StderrStream
from tests.support.blocked import KINDS, Ends, ends
from tests.support.processes import open_fds
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[Ends]:
    with ends(getattr(request, "param", "a pipe")) as made:
        yield made


any_place = pytest.mark.parametrize("place", KINDS, indirect=True)
pipe_and_socket = pytest.mark.parametrize("place", ["a pipe", "a socket"], indirect=True)


@pytest.fixture
def strange(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ends]:
    """A descriptor of another user, which cannot be opened once more."""

    def refused(path: str, *_arguments: object) -> int:
        raise PermissionError(path)

    with ends(getattr(request, "param", "a pipe")) as made, monkeypatch.context() as patched:
        patched.setattr(os, "open", refused)
        yield made
        made.read()  # unblocks a thread that waits for room
        assert wait_until(lambda: made.read() == "" and not writers())


def writers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "stderr"]


@pytest.fixture
def logger(place: Ends) -> Iterator[logging.Logger]:
    logger = logging.Logger("test")
    handler = StderrHandler(place.fd)
    logger.addHandler(handler)
    yield logger
    handler.close()


@any_place
def test_lines_are_written_in_order_and_whole(place: Ends, logger: logging.Logger) -> None:
    for number in range(20):
        logger.info("%d %s", number, "ü" * 100)
    assert place.read() == "\n".join([f"{number} {'ü' * 100}" for number in range(20)])


@any_place
def test_lost_lines_are_counted_and_reported(place: Ends, logger: logging.Logger) -> None:
    logger.info("one")
    place.fill()
    for _ in range(5):
        logger.info("lost")
    assert place.is_blocking  # for those who share it
    assert place.read() == "one"
    logger.info("two")
    logger.info("three")
    assert place.read().splitlines() == ["5 lines before this one are lost: stderr took no more", "two", "three"]
    place.fill()
    logger.info("lost")
    place.read()
    logger.info("four")
    assert place.read().splitlines() == ["1 lines before this one are lost: stderr took no more", "four"]


def test_only_the_first_lost_line_waits_for_the_reader(
    place: Ends, logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeouts: list[float] = []
    send = NonBlockingWriter.send

    def noted(writer: NonBlockingWriter, data: bytes, timeout: float) -> int:
        timeouts.append(timeout)
        return send(writer, data, timeout)

    monkeypatch.setattr(NonBlockingWriter, "send", noted)
    place.fill()
    for _ in range(100):
        logger.info("lost")
    assert timeouts == [module.TIMEOUT, *[0.0] * 99]


@pipe_and_socket
def test_a_line_that_was_cut_short_does_not_run_into_the_next(place: Ends, logger: logging.Logger) -> None:
    logger.info("x" * 10_000_000)
    assert set(place.read()) <= {"x"}
    logger.info("two")
    logger.info("three")
    assert place.read().splitlines() == ["1 lines before this one are lost: stderr took no more", "two", "three"]


def test_a_long_line_is_written_whole_to_a_reader_that_reads(place: Ends, logger: logging.Logger) -> None:
    line = "é" * 30_000
    read: list[str] = []
    done = threading.Event()

    def drain() -> None:
        while not done.wait(0.0001):
            read.append(place.read())
        read.append(place.read())

    thread = threading.Thread(target=drain)
    thread.start()
    before, module.TIMEOUT = module.TIMEOUT, SOON
    try:
        logger.info(line)
    finally:
        module.TIMEOUT = before
        done.set()
        thread.join()
    assert "".join(read).replace("\n", "") == line


@pipe_and_socket
def test_a_reader_that_is_gone_costs_only_lines(logger: logging.Logger, place: Ends) -> None:
    place.leave()
    for _ in range(100):
        logger.info("lost")


@pipe_and_socket
def test_closing_leaves_only_the_descriptor_itself_open(place: Ends) -> None:
    before = open_fds()
    for _ in range(20):
        handler = StderrHandler(place.fd)
        handler.emit(logging.LogRecord("", 20, "", 0, "x", None, None))
        handler.close()
        handler.emit(logging.LogRecord("", 20, "", 0, "not written", None, None))
    assert open_fds() == before
    assert place.read().splitlines() == ["x"] * 20


def test_a_file_is_written_at_its_present_position(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    try:
        os.write(fd, b"before\n")
        handler = StderrHandler(fd)
        handler.emit(logging.LogRecord("", 20, "", 0, "line", None, None))
        os.write(fd, b"after\n")
        handler.close()
    finally:
        os.close(fd)
    assert (tmp_path / "log").read_text() == "before\nline\nafter\n"


@pytest.mark.parametrize("place", ["a pipe", "a terminal"], indirect=True)
def test_what_python_itself_writes_to_stderr_does_not_block(place: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_COLORS", "0")  # of Python 3.13 and later, on a terminal
    stream = StderrStream(place.fd)
    monkeypatch.setattr(sys, "stderr", stream)
    place.fill()
    for _ in range(3):
        sys.excepthook(ValueError, ValueError("lost"), None)
    logging.lastResort.handle(logging.LogRecord("", 40, "", 0, "lost", None, None))  # type: ignore[union-attr]
    print("lost", file=sys.stderr, flush=True)
    assert place.read() == ""
    thread = threading.Thread(target=lambda: dict[str, str]()["key"], name="raising")
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    thread.start()
    thread.join(SOON)
    said = place.read()
    assert "Exception in thread raising" in said
    assert said.splitlines()[-1] == "KeyError: 'key'"
    assert (stream.fileno(), stream.isatty(), stream.writable()) == (place.fd, place.kind == "a terminal", True)
    stream._writer.close()


def test_stderr_is_replaced_and_sigttou_is_blocked(capfd: pytest.CaptureFixture[str]) -> None:
    before = sys.stderr
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        module.replace_stderr()
        print("said", file=sys.stderr)
        assert sys.stderr.fileno() == 2
        assert signal.SIGTTOU in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        assert isinstance(logs.without_file(launched=False), StderrHandler)
    finally:
        sys.stderr = before
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    assert capfd.readouterr().err == "said\n"


def test_a_descriptor_that_is_not_open_is_an_error() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        NonBlockingWriter(999_999)


# Another user's pipe or terminal


@pytest.mark.parametrize("strange", ["a pipe", "a terminal"], indirect=True)
def test_a_thread_writes_to_another_users_stderr_in_order(strange: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", SOON)  # a busy machine may not let the thread run for some milliseconds
    handler = StderrHandler(strange.fd)
    for number in range(20):
        handler.handle(logging.LogRecord("", 20, "", 0, f"{number} {'ü' * 100}", None, None))
    handler.close()
    assert strange.read() == "\n".join([f"{number} {'ü' * 100}" for number in range(20)])
    assert strange.is_blocking


def test_only_that_thread_blocks_and_lost_lines_are_counted(strange: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = StderrHandler(strange.fd)

    def say(text: str) -> None:
        handler.handle(logging.LogRecord("", 20, "", 0, text, None, None))

    strange.fill()
    say("late")
    for _ in range(100):
        say("lost")
    assert len(writers()) == 1
    said: list[str] = []

    def has_said(lines: int) -> bool:
        said.extend(strange.read().splitlines())
        return len(said) >= lines

    assert wait_until(lambda: has_said(1))
    assert handler._writer._wait(SOON)
    monkeypatch.setattr(module, "TIMEOUT", SOON)
    say("next")
    handler.close()
    assert wait_until(lambda: has_said(3))
    assert said == ["late", "100 lines before this one are lost: stderr took no more", "next"]


def test_without_a_thread_lines_are_lost(strange: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    handler = StderrHandler(strange.fd)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        handler.handle(logging.LogRecord("", 20, "", 0, "lost", None, None))
    handler.handle(logging.LogRecord("", 20, "", 0, "next", None, None))
    handler.close()
    assert strange.read().splitlines() == ["1 lines before this one are lost: can't start new thread", "next"]
