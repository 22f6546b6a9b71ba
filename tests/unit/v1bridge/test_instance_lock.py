"""The instance lock: one bridge has it, the next one gets it at its end, and without a lock every bridge goes on."""

import errno
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from nri.v1bridge import one_bridge as module
from nri.v1bridge.one_bridge import InstanceLock
from tests.support.waiting import SOON, wait_until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run/nri/v1bridge.record"


@pytest.fixture
def lock(path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Callable[..., InstanceLock]]:
    caplog.set_level(logging.INFO, "nri.v1bridge")
    made: list[InstanceLock] = []

    def make(**options: float) -> InstanceLock:
        made.append(InstanceLock(str(path), **options))
        return made[-1]

    yield make
    for each in made:
        each.release()
    assert wait_until(
        lambda: not [each for each in threading.enumerate() if each.name == "instance-lock"]
    )


def test_launched_bridge_with_an_ended_predecessor_logs_nothing(
    path: Path, lock: Callable[..., InstanceLock], caplog: pytest.LogCaptureFixture
) -> None:
    first = lock()
    assert first.stand_by()
    second = lock(grace=SOON)
    second.take_in_background()
    first.release()
    assert wait_until(second.is_held.is_set)
    assert caplog.records == []
    assert path.stat().st_mode & 0o7777 == 0o700


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (Path.mkdir, "it has mode 0755, expected 0700"),
        (lambda path: (path.mkdir(), path.chmod(0o777)), "{path} is writable by others"),
        (Path.touch, "{path} is no directory"),
    ],
    ids=["others could lock it", "others could write to it", "file"],
)
def test_a_directory_that_cannot_be_relied_on_is_not_used(
    path: Path,
    lock: Callable[..., InstanceLock],
    caplog: pytest.LogCaptureFixture,
    make: Callable[[Path], object],
    reason: str,
) -> None:
    path.parent.mkdir(parents=True)
    make(path)
    assert lock().stand_by()
    assert f"no lock keeps a second bridge away: {path}: {reason.format(path=path)}" in caplog.text
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_without_permission_it_goes_on_without(
    lock: Callable[..., InstanceLock],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "makedirs", refuse)
    assert lock().stand_by()
    lock().take_in_background()
    assert caplog.text.count("v1bridge.record: Permission denied") == 2
    assert {line.levelname for line in caplog.records} == {"INFO"}


@pytest.mark.parametrize(
    ("pid", "user", "is_bridge"), [(4711, 0, True), (0, 0, True), (4711, 1234, False)]
)
def test_a_bridge_whose_lock_was_removed_is_waited_for(
    path: Path,
    lock: Callable[..., InstanceLock],
    monkeypatch: pytest.MonkeyPatch,
    pid: int,
    user: int,
    is_bridge: bool,
) -> None:
    """It listens on the status socket; another user's process there is none."""
    monkeypatch.setattr(module, "POLL", 0.01)
    path.parent.mkdir(parents=True)
    with ThreadPoolExecutor(1) as pool:
        with socket.socket(socket.AF_UNIX) as listener:
            monkeypatch.chdir(path.parent)
            listener.bind("v1bridge.sock")
            listener.listen()
            assert lock().stand_by()  # it is our own
            path.rmdir()
            monkeypatch.setattr("nri.v1bridge.one_bridge.peer.credentials", lambda _: (pid, user))
            second = pool.submit(lock().stand_by)
            assert bool(wait([second], 0.1 if is_bridge else SOON).not_done) == is_bridge
        assert second.result(SOON)
