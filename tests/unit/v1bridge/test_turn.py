"""The turn: one bridge has it, the next one gets it at its end, and without a lock every bridge goes on."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from nri.v1bridge import turn as module
from nri.v1bridge.turn import Turn
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run/nri/v1bridge.lock"


@pytest.fixture
def turn(path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Callable[..., Turn]]:
    caplog.set_level(logging.INFO, "nri.v1bridge")
    made: list[Turn] = []

    def make(**options: float) -> Turn:
        made.append(Turn(str(path), **options))
        return made[-1]

    yield make
    for each in made:
        each.release()
    assert wait_until(lambda: not [each for each in threading.enumerate() if each.name.startswith("turn")])


class Standing:
    """A turn that is stood by for, in a thread."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.answer: bool | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.answer = self.turn.stand_by()

    def join(self) -> bool | None:
        self._thread.join(SOON)
        return self.answer


def test_the_first_one_has_it_at_once_and_its_pid_is_in_the_file(path: Path, turn: Callable[..., Turn]) -> None:
    assert turn().stand_by()
    assert path.read_text() == f"{os.getpid()}\n"
    assert path.stat().st_mode & 0o7777 == 0o600
    assert [os.get_inheritable(fd) for fd in leading_to(path)] == [False]


def leading_to(path: Path) -> list[int]:
    """This process's descriptors of a file."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # closed meanwhile
            if os.readlink(f"/proc/self/fd/{fd}") == str(path):
                found.append(int(fd))
    return found


def test_the_next_one_stands_by_and_has_it_at_the_end_of_the_first(
    turn: Callable[..., Turn], caplog: pytest.LogCaptureFixture
) -> None:
    first = turn()
    assert first.stand_by()
    second = Standing(turn())
    assert wait_until(lambda: "standing by: " in caplog.text)
    assert second.answer is None
    assert f"the bridge with pid {os.getpid()} serves this node; connecting when it ends" in caplog.text
    first.release()
    assert second.join() is True
    assert "the other bridge has ended" in caplog.text
    third = Standing(turn())
    assert wait_until(lambda: caplog.text.count("standing by: ") == 2)
    second.turn.release()
    assert third.join() is True


def test_one_that_stands_by_can_be_stopped(
    path: Path, turn: Callable[..., Turn], caplog: pytest.LogCaptureFixture
) -> None:
    first = turn()
    assert first.stand_by()
    second = Standing(turn())
    assert wait_until(lambda: "standing by: " in caplog.text)
    assert wait_until(lambda: len(leading_to(path)) == 3)  # the first one's, the second one's, its waiting thread's
    second.turn.stop()
    assert second.join() is False
    second.turn.release()
    first.release()  # the thread of the second one gets the lock, and gives it up
    assert turn().stand_by()


def test_a_launched_one_does_not_wait_and_another_that_stays_is_an_error(
    turn: Callable[..., Turn], caplog: pytest.LogCaptureFixture
) -> None:
    first = turn()
    assert first.stand_by()
    turn(grace=0.01).take_in_background()
    assert wait_until(lambda: "runs on this node, beside this one" in caplog.text)
    (error,) = [line for line in caplog.records if line.levelno == logging.ERROR]
    assert error.message == (
        f"the bridge with pid {os.getpid()} runs on this node, beside this one, which the runtime has launched: "
        "every plugin runs twice as long as both are connected; keep one of them"
    )
    first.release()
    assert wait_until(lambda: "the other bridge has ended" in caplog.text)


def test_a_launched_one_whose_predecessor_ends_in_time_logs_nothing(
    path: Path, turn: Callable[..., Turn], caplog: pytest.LogCaptureFixture
) -> None:
    first = turn()
    assert first.stand_by()
    path.write_text("")
    second = turn(grace=SOON)
    second.take_in_background()
    first.release()
    assert wait_until(lambda: path.read_text() == f"{os.getpid()}\n")
    assert caplog.records == []


def test_a_file_that_others_could_lock_is_not_used(
    path: Path, turn: Callable[..., Turn], caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir(parents=True)
    path.touch()
    path.chmod(0o604)
    with path.open() as others:
        fcntl.flock(others, fcntl.LOCK_EX)
        assert turn().stand_by()
    assert f"no lock keeps a second bridge away: {path}: it has mode 0604, expected a regular" in caplog.text


@pytest.mark.parametrize("what", ["link", "directory"])
def test_what_is_no_file_is_not_used(path: Path, turn: Callable[..., Turn], what: str, tmp_path: Path) -> None:
    path.parent.mkdir(parents=True)
    if what == "link":
        path.symlink_to(tmp_path / "target")
    else:
        path.mkdir()
    assert turn().stand_by()
    assert not (tmp_path / "target").exists()


def test_without_permission_it_goes_on_without(
    turn: Callable[..., Turn], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "makedirs", refuse)
    assert turn().stand_by()
    turn().take_in_background()
    assert caplog.text.count("v1bridge.lock: Permission denied") == 2
    assert {line.levelname for line in caplog.records} == {"INFO"}


def test_on_a_full_disk_the_lock_counts_though_nothing_names_its_holder(
    path: Path, turn: Callable[..., Turn], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    first = turn()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        assert first.stand_by()
    assert path.read_text() == ""
    second = Standing(turn())
    assert wait_until(lambda: "standing by: another bridge serves this node" in caplog.text)
    first.release()
    assert second.join() is True


def test_the_grace_is_longer_than_a_bridge_needs_for_its_end() -> None:
    from nri.v1bridge.serving import LAST_CALLS

    assert module.GRACE > LAST_CALLS


def test_a_turn_that_is_released_before_its_thread_has_begun_is_not_waited_for(
    turn: Callable[..., Turn], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert turn().stand_by()
    second, started = turn(), []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", lambda self: started.append(self._target))
        second.take_in_background()
    second.release()
    for function in started:
        function()


@pytest.mark.parametrize(("user", "is_bridge"), [(os.geteuid(), True), (1234, False)])
def test_a_listener_on_the_status_socket_is_a_bridge_if_it_is_trusted(
    path: Path, turn: Callable[..., Turn], monkeypatch: pytest.MonkeyPatch, user: int, is_bridge: bool
) -> None:
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(path.parent)
        listener.bind("v1bridge.sock")
        listener.listen()
        made = turn()
        assert made.stand_by()  # it is our own
        monkeypatch.setattr("nri.v1bridge.turn.peer.credentials", lambda _: (4711, user))
        assert made._other() == (4711 if is_bridge else 0)


def test_a_bridge_whose_lock_was_removed_is_waited_for(
    path: Path, turn: Callable[..., Turn], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    others = [4711] * 5
    monkeypatch.setattr(module, "POLL", 0.01)
    monkeypatch.setattr(Turn, "_other", lambda _: others.pop() if others else 0)
    assert turn().stand_by()
    assert others == []
    assert "standing by: the bridge with pid 4711 serves this node; connecting when it ends" in caplog.messages
