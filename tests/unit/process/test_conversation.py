"""The exchange with a process, where the test plays the process's side of the pipes or of the socket.

A process that sleeps stands for the one that is killed and reaped.
"""

from __future__ import annotations

import os
import select
import socket
import time
from typing import TYPE_CHECKING

import pytest

from nri.process import conversation
from nri.process.conversation import BrokenOffError, Conversation
from nri.process.launch import start
from nri.process.lines import Lines
from nri.process.wait import end_child
from tests.support.processes import has_zombie, is_running, open_fds
from tests.support.waiting import SOON

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT = 1000


class Peer:
    """A sleeping process, and the far ends of the pipes or of the socket to it."""

    def __init__(self) -> None:
        self.pid, pipes = start("/bin/sleep", ["sleep", "1000"], 0)
        for fd in pipes:
            os.close(fd)
        self.fds: list[int] = []
        self.logged: list[str] = []

    def close(self) -> None:
        while self.fds:
            os.close(self.fds.pop())

    def exit(self) -> None:
        """Close the far ends, and end the process."""
        self.close()
        os.kill(self.pid, 9)

    def over_pipes(self, data: bytes = b"", log: Callable[[str], None] | None = None) -> Conversation:
        """Return a conversation over pipes; ``fds`` are the process's stdin, stdout and stderr."""
        stdin, stdout, stderr = os.pipe(), os.pipe(), os.pipe()
        self.fds = [stdin[0], stdout[1], stderr[1]]
        return self._conversation([stdin[1], stdout[0], stderr[0]], data, log=log)

    def over_socket(
        self,
        data: bytes = b"",
        decoder: conversation.StdoutDecoder | None = None,
        pauses: list[tuple[float, Callable[[], None]]] | None = None,
    ) -> Conversation:
        """Return a conversation over a socket; ``fds`` are the process's socket and stderr."""
        ours, theirs = socket.socketpair()
        stderr = os.pipe()
        self.fds = [theirs.detach(), stderr[1]]
        channel = ours.detach()
        return self._conversation([channel, channel, stderr[0]], data, decoder, pauses)

    def _conversation(
        self,
        pipes: list[int],
        data: bytes,
        decoder: conversation.StdoutDecoder | None = None,
        pauses: list[tuple[float, Callable[[], None]]] | None = None,
        log: Callable[[str], None] | None = None,
    ) -> Conversation:
        for fd in pipes:
            os.set_blocking(fd, False)
        lines = Lines(LIMIT, log or self.logged.append)
        return Conversation(self.pid, pipes, data, lines, LIMIT, decoder=decoder, pauses=pauses)


@pytest.fixture
def peer() -> Iterator[Peer]:
    before = open_fds()
    peer = Peer()
    yield peer
    peer.close()
    end_child(peer.pid, 0)
    assert not has_zombie()
    assert open_fds() == before


def soon() -> float:
    return time.monotonic() + SOON


def test_stdin_is_closed_after_the_data(peer: Peer) -> None:
    talk = peer.over_pipes(b"request")
    os.write(peer.fds[1], b"result")
    os.write(peer.fds[2], b"one\ntwo")
    stdin = os.dup(peer.fds[0])
    peer.exit()
    output = talk.run(soon())
    assert os.read(stdin, 100) == b"request"
    assert os.read(stdin, 100) == b""
    os.close(stdin)
    assert (output.stdout, output.stderr, output.stopped, output.status) == (b"result", "one | two", "", -9)
    assert peer.logged == ["one", "two"]


def test_process_that_closes_its_pipe_unread_has_not_refused(peer: Peer) -> None:
    talk = peer.over_pipes(b"request")
    os.close(peer.fds.pop(0))
    os.write(peer.fds[0], b"result")
    peer.exit()
    assert talk.run(soon()).stdout == b"result"
    assert not talk.was_refused


def test_process_is_killed_at_the_deadline_and_its_output_is_kept(peer: Peer) -> None:
    talk = peer.over_pipes()
    os.write(peer.fds[1], b"half")
    output = talk.run(time.monotonic() + 0.05)
    assert (output.stdout, output.stopped, output.status) == (b"half", "deadline", -9)
    assert not is_running(peer.pid)


@pytest.mark.parametrize(("size", "stopped"), [(LIMIT, ""), (LIMIT + 1, "output")])
def test_more_output_than_the_limit_ends_the_exchange(peer: Peer, size: int, stopped: str) -> None:
    talk = peer.over_pipes()
    os.write(peer.fds[1], bytes(size))
    if not stopped:
        peer.exit()
    assert talk.run(soon()).stopped == stopped


class UntilDot:
    """Decodes stdout in upper case, until a dot."""

    def __init__(self) -> None:
        self.stdout = bytearray()
        self.is_over = False

    def feed(self, data: bytes) -> None:
        self.stdout += data.upper()
        self.is_over = b"." in data


def test_decoder_ends_the_exchange_while_the_process_runs(peer: Peer) -> None:
    talk = peer.over_socket(b"request", UntilDot())
    os.write(peer.fds[0], b"res")
    os.write(peer.fds[0], b"ult.")
    output = talk.hold(soon())
    assert (output.stdout, output.stopped) == (b"RESULT.", "")
    assert os.read(peer.fds[0], 100) == b"request"
    talk.end()


def test_more_data_than_a_socket_holds_is_written_while_it_is_read(peer: Peer) -> None:
    data = bytes(1 << 20)
    talk = peer.over_socket(data, UntilDot(), [(0.01, lambda: received.append(read_all())) for _ in range(100)])
    received: list[int] = []

    def read_all() -> int:
        size = 0
        while select.select([peer.fds[0]], [], [], 0)[0]:
            size += len(os.read(peer.fds[0], 65536))
        if sum(received) + size == len(data):
            os.write(peer.fds[0], b".")
        return size

    assert talk.hold(soon()).stdout == b"."
    assert sum(received) == len(data)
    talk.end()


@pytest.mark.parametrize("is_closed_before", [True, False], ids=["before it is sent", "before it is read"])
def test_process_that_closes_its_socket_unread_has_refused(peer: Peer, is_closed_before: bool) -> None:
    close = peer.close if not is_closed_before else lambda: None
    talk = peer.over_socket(b"request", None, [(0.01, close)])
    if is_closed_before:
        peer.close()
    assert talk.hold(soon()).stdout == b""
    assert talk.was_refused
    talk.end()


def test_each_pause_counts_once_and_in_order(peer: Peer) -> None:
    calls: list[str] = []
    talk = peer.over_socket(pauses=[(0.01, lambda: calls.append("first")), (0.02, lambda: calls.append("second"))])
    assert talk.hold(time.monotonic() + 0.2).stopped == "deadline"
    assert calls == ["first", "second"]
    talk.end()


def test_failing_exchange_is_broken_off_and_the_process_reaped(peer: Peer) -> None:
    def fail(_line: str) -> None:
        raise OSError(5, "Input/output error")

    talk = peer.over_pipes(log=fail)
    os.write(peer.fds[2], b"line\n")
    with pytest.raises(BrokenOffError, match="Input/output error"):
        talk.run(soon())
    assert not os.path.exists(f"/proc/{peer.pid}")
