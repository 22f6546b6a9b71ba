"""The status socket: one request and one answer, bounded, and no client holds up another one."""

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from nri.v1bridge import status as module
from nri.v1bridge.status import CLIENTS, MAX_REQUEST, StatusSocket
from tests.support.status_asking import connected, rest_of, told
from tests.support.waiting import wait_until

LONG = b"x" * 4_000_000


def answer(pod: str) -> bytes:
    if pod == "crash":
        raise ZeroDivisionError
    return LONG if pod == "long" else b"got " + pod.encode()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "status"]


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / ("long" * 20) / "v1bridge.sock"  # longer than the address of a socket may be
    path.parent.mkdir()
    before = len(threads())
    answering = StatusSocket(answer)
    answering.open(str(path))
    yield path
    answering.close()
    assert not path.exists()
    assert wait_until(lambda: len(threads()) <= before)


def test_a_line_has_its_answer(path: Path) -> None:
    assert told(path, b" a/b \n") == b"got a/b"
    assert told(path, b"\n") == b"got "
    assert told(path, b"long\n") == LONG
    assert told(path, b"\xff" * (MAX_REQUEST - 1)) == b"got " + "\ufffd".encode() * (
        MAX_REQUEST - 1
    )
    assert path.stat().st_mode & 0o777 == 0o600  # root alone can connect
    with connected(path) as sock:
        sock.shutdown(socket.SHUT_WR)
        assert rest_of(sock) == b""


def test_a_fault_of_ours_ends_one_answer_alone(path: Path) -> None:
    assert told(path, b"crash\n") == b""
    assert told(path, b"next\n") == b"got next"


@pytest.mark.parametrize("sent", [b"", b"long\n"])
def test_clients_that_stall_delay_no_other_client(path: Path, sent: bytes) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(connected(path))
        for _ in range(CLIENTS + 10):
            stack.enter_context(connected(path)).sendall(sent)
        assert told(path, b"next\n") == b"got next"
        assert rest_of(first) == b""  # it was dropped for the others


def test_a_client_that_takes_too_long_is_dropped(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.01)
    with connected(path) as silent, connected(path) as slow:
        assert rest_of(silent) == b""
        with suppress(ConnectionError):  # depending on what the bridge has read before it closes
            slow.sendall(b"long\n")
            assert wait_until(
                lambda: "status-client" not in [thread.name for thread in threading.enumerate()]
            )
            assert len(rest_of(slow)) < len(LONG)


def test_a_socket_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "v1bridge.sock"
    first, second = StatusSocket(answer), StatusSocket(answer)
    first.open(str(path))
    second.open(str(path))
    first.close()  # its socket is not there any more
    assert told(path, b"next\n") == b"got next"
    second.open(str(tmp_path / "moved.sock"))
    assert [each.name for each in tmp_path.iterdir()] == ["moved.sock"]
    second.close()
    assert not (tmp_path / "moved.sock").exists()


def test_a_socket_that_was_removed_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "run/v1bridge.sock"
    answering, other = StatusSocket(answer), StatusSocket(answer)
    answering.renew()
    answering.open(str(path))
    shutil.rmtree(path.parent)
    answering.renew()
    assert told(path, b"next\n") == b"got next"
    other.open(str(path))
    inode = path.stat().st_ino
    answering.renew()
    assert path.stat().st_ino == inode
    other.close()
    answering.close()


def test_a_socket_that_is_there_stays_for_the_same_place_alone(tmp_path: Path) -> None:
    path, moved = tmp_path / "v1bridge.sock", tmp_path / "moved.sock"
    answering, ended = StatusSocket(answer), StatusSocket(answer)
    ended.open(str(moved))
    answering.open(str(path))
    made = path.stat()
    answering.open(str(path))
    assert (path.stat().st_ino, path.stat().st_ctime_ns) == (made.st_ino, made.st_ctime_ns)
    answering.open(str(moved))
    ended.close()
    assert told(moved, b"next\n") == b"got next"
    answering.close()
    assert [*tmp_path.iterdir()] == []


def test_without_a_place_the_log_has_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nri.v1bridge")
    (tmp_path / "v1bridge.sock").mkdir()
    (tmp_path / "file").touch()
    answering = StatusSocket(answer)
    answering.open(str(tmp_path / "v1bridge.sock"))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "v1bridge.sock"]
    answering.open(str(tmp_path / "file/v1bridge.sock"))
    os.chmod(tmp_path, 0o777)
    answering.open(str(tmp_path / "other.sock"))
    directory, file, trust = caplog.messages
    assert directory.endswith("v1bridge.sock: Is a directory")
    assert file.startswith("no status socket: ")
    assert "can write" in trust or "writable" in trust
    answering.close()


def test_as_many_clients_as_there_may_be_keep_their_connections(path: Path) -> None:
    with ExitStack() as stack:
        first, *_, last = [stack.enter_context(connected(path)) for _ in range(CLIENTS)]
        for client in (last, first):  # the last one's answer shows that all are accepted
            client.sendall(b"next\n")
            assert rest_of(client) == b"got next"
