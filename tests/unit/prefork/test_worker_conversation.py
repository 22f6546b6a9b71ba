"""The exchange of a request with a worker, whose end of the socket the test has."""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import TYPE_CHECKING

import pytest

from nri.prefork.pool import worker_conversation
from nri.prefork.pool.worker_conversation import Worker, WorkerConversation
from nri.prefork.protocol import encode_request
from nri.process.lines import Lines
from nri.process.spawn import spawn
from nri.process.wait import end_child, has_exited
from tests.support.processes import open_fds
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PIECE = bytes.fromhex("00000006") + b"result"
END = bytes.fromhex("00000000 03")


class Site:
    """A sleeping process that stands for a worker, and its end of the socket."""

    def __init__(self) -> None:
        self.pid = spawn("/bin/sleep", ["sleep", "1000"], (0, 1, 2))
        ours, self.socket = socket.socketpair()
        stderr, self.stderr = os.pipe()
        worker = Worker(self.pid, os.pidfd_open(self.pid), ours.detach(), stderr)
        for fd in (worker.channel, worker.stderr):
            os.set_blocking(fd, False)
        self.logged: list[str] = []
        self.slow = 0
        lines = Lines(1000, self.logged.append)
        self.conversation = WorkerConversation(worker, b"request", lines, 1000, self._tell_slow)

    def _tell_slow(self) -> None:
        self.slow += 1

    def answer(self, data: bytes) -> None:
        assert self.socket.recv(100) == encode_request(b"request")
        self.socket.sendall(data)


@pytest.fixture
def site() -> Iterator[Site]:
    before = open_fds()
    site = Site()
    yield site
    site.conversation.close()
    site.socket.close()
    os.close(site.stderr)
    end_child(site.pid, 0)
    assert open_fds() == before


@pytest.fixture
def when_slow(site: Site, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Do something when the conversation finds the worker slow."""

    def arrange(act: Callable[[], None]) -> None:
        def on_slow() -> None:
            site.slow += 1
            act()

        monkeypatch.setattr(site.conversation, "_on_slow", on_slow)

    return arrange


def soon() -> float:
    return time.monotonic() + SOON


def test_the_result_ends_with_the_status_that_the_worker_tells_and_the_worker_is_killed(
    site: Site, when_slow: Callable[[Callable[[], None]], None]
) -> None:
    when_slow(lambda: site.answer(PIECE + END))
    os.write(site.stderr, b"a line\n")
    output = site.conversation.run(soon())
    assert (output.stdout, output.status, output.stopped) == (b"result", 3, "")
    assert (output.stderr, site.logged) == ("a line", ["a line"])
    assert wait_until(lambda: has_exited(site.pid))


def test_a_worker_that_takes_its_time_is_told_once(
    site: Site, when_slow: Callable[[Callable[[], None]], None]
) -> None:
    when_slow(lambda: site.answer(PIECE))
    output = site.conversation.run(time.monotonic() + 0.1)
    assert (output.stdout, output.stopped) == (b"result", "deadline")
    assert site.slow == 1
    assert site.conversation.was_slow
    assert not site.conversation.was_refused


def test_a_worker_that_answers_at_once_is_not_slow(site: Site) -> None:
    site.socket.sendall(PIECE + END)
    assert site.conversation.run(soon()).status == 3
    assert site.slow == 0
    assert not site.conversation.was_slow


def test_a_worker_that_ends_without_telling_has_the_status_of_the_kernel(
    site: Site, when_slow: Callable[[Callable[[], None]], None]
) -> None:
    def crash() -> None:
        site.answer(PIECE)
        os.kill(site.pid, signal.SIGTERM)

    when_slow(crash)
    output = site.conversation.run(soon())
    assert (output.stdout, output.status) == (b"result", -signal.SIGTERM)
    assert not site.conversation.was_refused


def test_a_worker_that_ends_without_reading_has_refused(
    site: Site, when_slow: Callable[[Callable[[], None]], None]
) -> None:
    when_slow(site.socket.close)
    site.conversation.run(soon())
    assert site.conversation.was_refused


def test_a_worker_that_does_not_read_is_killed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_conversation, "TAKEN_WITHIN", 0.01)
    output = site.conversation.run(soon())
    assert (output.status, output.stopped) == (-signal.SIGKILL, "")


def test_a_worker_that_has_read_is_not_killed_before_its_deadline(
    site: Site, when_slow: Callable[[Callable[[], None]], None]
) -> None:
    when_slow(lambda: site.answer(b""))
    started = time.monotonic()
    output = site.conversation.run(started + worker_conversation.TAKEN_WITHIN + 0.2)
    assert output.stopped == "deadline"


def test_text_that_is_written_to_the_socket_is_the_result_as_it_is(site: Site) -> None:
    site.socket.sendall(b'{"plugin": "a"}')
    assert site.conversation.run(soon()).stdout == b'{"plugin": "a"}'
