"""The exchange with a process, where the test plays the process's side of the pipes.

A process that sleeps stands for the one that is killed and reaped.
"""

import os
import select
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from nri.process.children import end_child
from nri.process.conversation import Asked, Conversation, Lines, start
from tests.support.processes import has_zombie, is_running, open_fds
from tests.support.waiting import SOON

LIMIT = 1000


class Peer:
    """A sleeping process, and the far ends of the pipes or of the socket to it."""

    def __init__(self) -> None:
        self.pid, pipes = start("/bin/sleep", ["sleep", "1000"], 0)
        for fd in pipes:
            os.close(fd)
        self.fds: list[int] = []

    def close(self) -> None:
        while self.fds:
            os.close(self.fds.pop())

    def exit(self) -> None:
        """Close the far ends, and end the process."""
        self.close()
        os.kill(self.pid, 9)

    def talk(
        self,
        data: bytes = b"",
        *,
        log: Callable[[str], None] = lambda _line: None,
        asked: Asked | None = None,
        meanwhile: tuple[float, Callable[[], None]] | None = None,
    ) -> Conversation:
        """Return a conversation; ``fds`` are the process's stdin, stdout and stderr."""
        stdin, stdout, stderr = os.pipe(), os.pipe(), os.pipe()
        self.fds = [stdin[0], stdout[1], stderr[1]]
        pipes = [stdin[1], stdout[0], stderr[0]]
        for fd in pipes:
            os.set_blocking(fd, False)
        asked = asked or Asked(self.pid)
        return Conversation(asked, pipes, data, Lines(LIMIT, log), LIMIT, meanwhile=meanwhile)


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


def test_killed_process_leaves_its_output(peer: Peer) -> None:
    talk = peer.talk()
    os.write(peer.fds[1], b"half")
    output = talk.run(time.monotonic() + 0.05)
    assert (output.stdout, output.stopped, output.status) == (b"half", "deadline", -9)
    assert not is_running(peer.pid)


class Staying(Asked):
    """A process that stays: one byte on a pipe says that it has answered; its end says that nothing follows."""

    is_quick = True

    def __init__(self, pid: int) -> None:
        super().__init__(pid)
        self.says, self.peer = os.pipe()
        self._is_open = True

    @property
    def ends(self) -> Sequence[int]:
        return [*super().ends, *([self.says] if self._is_open else [])]

    def has_ended(self) -> bool:
        if select.select([self.says], [], [], 0)[0]:
            if os.read(self.says, 1):
                return True
            self._is_open = False
        return super().has_ended()

    def finish(self, stopped: str, give_up: float) -> int:
        os.close(self.says)
        return super().finish(stopped, give_up) if stopped or not self._is_open else 5


@pytest.fixture
def staying(peer: Peer) -> Iterator[Staying]:
    staying = Staying(peer.pid)
    yield staying
    os.close(staying.peer)
    if is_running(peer.pid):
        Asked.finish(staying, "", soon())


def test_process_that_stays_ends_its_answer_by_a_word(peer: Peer, staying: Staying) -> None:
    talk = peer.talk(b"request", asked=staying)
    os.write(peer.fds[1], b"result")
    os.write(peer.fds[2], b"line\n")
    os.write(staying.peer, b".")
    output = talk.run(soon())
    assert (output.stdout, output.stderr, output.stopped, output.status) == (b"result", "line", "", 5)
    assert os.read(peer.fds[0], 100) == b"request"
    assert staying.sent == len(b"request")
    assert is_running(peer.pid)


def test_process_that_closes_its_control_is_waited_for(peer: Peer, staying: Staying) -> None:
    def end() -> None:
        os.write(peer.fds[1], b"result")
        peer.exit()

    talk = peer.talk(asked=staying, meanwhile=(0.05, end))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, staying.peer)  # the last writing end of the pipe is closed
    os.close(null)
    output = talk.run(soon())
    assert (output.stdout, output.status) == (b"result", -9)


def test_function_is_called_once_when_nothing_happens(peer: Peer) -> None:
    calls: list[str] = []
    talk = peer.talk(meanwhile=(0.01, lambda: calls.append("called")))
    assert talk.run(time.monotonic() + 0.2).stopped == "deadline"
    assert calls == ["called"]
