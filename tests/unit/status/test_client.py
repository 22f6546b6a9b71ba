"""The client of the status socket: what it believes, and what it refuses of a socket, a peer and an answer."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from nri.cli.metrics import BridgeCollector
from nri.cli.status import status as status_command
from nri.errors import NRIError
from nri.status import client
from nri.status.client import AskError, NoBridgeError
from nri.status.judging import NO_BRIDGE, probe
from tests.support import status_documents as documents
from tests.support.status_server import served_by, serving

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run/v1bridge.sock"


def refusal(path: Path, timeout: float = 30.0) -> str:
    with pytest.raises(AskError) as caught:
        client.status(str(path), timeout)
    assert isinstance(caught.value, NRIError)
    return str(caught.value)


def test_status_is_what_the_bridge_answers_also_with_keys_of_a_later_version(path: Path) -> None:
    later = documents.degraded()
    later["more"] = later["plugins"][0]["more"] = []
    for document in (documents.healthy(), documents.connecting(), later):
        with serving(path, document) as server:
            assert client.status(str(path)) == document
        assert server.requests == [b"\n"]


def test_a_pod_is_asked_for_by_its_names(path: Path) -> None:
    answer = documents.pod(documents.container())
    with serving(path, answer) as server:
        assert client.of_pod("default/web", str(path)) == answer
    assert server.requests == [b"default/web\n"]


def test_a_path_may_be_longer_than_the_address_of_a_socket(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 120) / "v1bridge.sock"
    with serving(path, documents.healthy()):
        assert client.status(str(path))["protocol"] == 1


def test_a_socket_that_a_killed_bridge_has_left_is_no_bridge(path: Path) -> None:
    with served_by(path, lambda *_: None):
        left = path.with_name("left.sock")
        path.rename(left)
    with pytest.raises(NoBridgeError, match="no process listens"):
        client.status(str(left))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "closed without an answer"),
        (b"{", "not JSON, or not whole: 1 bytes"),
        (b"\x1b[31mhello", r"not JSON, or not whole: 10 bytes, '\\x1b[31mhello'"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "found protocol None, expected 1"),
        (b'{"protocol": 2}', "found protocol 2, expected 1: use the nri of the bridge's version"),
        (b'{"protocol": true}', "found protocol True, expected 1"),
        (b'{"protocol": "' + b"x" * 9999 + b'"}', "found protocol xxx"),
        (b'{"protocol": 1, "time": ' + b"9" * 5000 + b"}", "not JSON"),
    ],
    ids=range(11),
)
def test_an_answer_that_cannot_be_used_is_refused_with_the_reason(
    path: Path, answer: bytes, why: str
) -> None:
    with serving(path, answer):
        text = refusal(path)
    assert text.startswith(f"{path}: ")
    assert why in text
    assert len(text) < 1500


UNUSABLE: list[dict[str, Any]] = [
    {"bridge": []},
    {"bridge": {}},
    {"runtime": documents.healthy()["runtime"] | {"since": 1e300}},
    {"plugins": [None]},
    {"plugins": [documents.plugin(runs={"create": 3})]},
    {"plugins": [documents.plugin(last={"create": "error"}, lastError=7)]},
    {"events": [documents.event(seconds={"counts": [1]})]},
    {"withoutPlugins": 1},
]


@pytest.mark.parametrize("changes", UNUSABLE, ids=range(len(UNUSABLE)))
def test_a_document_that_is_not_as_documented_is_an_error(
    path: Path, changes: dict[str, Any]
) -> None:
    with serving(path, documents.healthy(**changes)):
        page = CliRunner().invoke(status_command, ["--socket", str(path)])
    assert page.exit_code == 1
    assert page.output.startswith(f"{path}: the answer cannot be used (")
    assert page.output.endswith("): use the nri of the bridge's version\n")


def test_a_probe_and_a_scrape_of_such_a_document_say_why(path: Path) -> None:
    reported: list[str] = []
    with serving(path, documents.healthy(plugins=[{"type": "clearcfs"}])):
        checked = probe(str(path), is_alive=False)
        metrics = [*BridgeCollector(str(path), reported.append).collect()]
    why = f"{path}: the answer cannot be used (KeyError: {{}}): use the nri of the bridge's version"
    assert (checked.code, checked.reasons) == (NO_BRIDGE, [why.format("'problem'")])
    assert [sample.value for metric in metrics for sample in metric.samples] == [0.0]
    assert reported == [why.format("'source'")]


def test_an_endless_answer_is_cut_off(path: Path) -> None:
    sent: list[int] = []

    def endless(connection: socket.socket, _: bytes) -> None:
        for _piece in range(100):
            connection.sendall(b" " * 1024 * 1024)
            sent.append(1)

    with served_by(path, endless):
        assert "the answer has more than 33554432 bytes" in refusal(path)
    assert len(sent) < 100


@pytest.mark.parametrize("sends", ["nothing", "a part", "byte by byte"])
def test_a_peer_that_does_not_finish_is_given_up(path: Path, sends: str) -> None:
    done = threading.Event()

    def stall(connection: socket.socket, _: bytes) -> None:
        connection.sendall(b"" if sends == "nothing" else b'{"protocol": 1, ')
        while not done.wait(0.01):
            connection.sendall(b" " if sends == "byte by byte" else b"")

    with served_by(path, stall):
        assert refusal(path, 0.2) == f"{path}: the bridge has not answered within 0.2 s"
        done.set()


def test_a_peer_that_takes_no_connection_is_given_up(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(0)
        with socket.socket(socket.AF_UNIX) as first:
            first.connect(str(path))
            assert (
                refusal(path, 0.2)
                == f"{path}: the bridge has not taken the connection within 0.2 s"
            )


@pytest.mark.parametrize(
    ("kind", "found"), [("file", "a regular file"), ("folder", "a directory"), ("link", "a link")]
)
def test_a_file_that_is_not_a_socket_and_a_link_to_one_are_refused(
    path: Path, kind: str, found: str
) -> None:
    path.parent.mkdir()
    if kind == "file":
        path.write_text("{}")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("real.sock")
    with serving(path.with_name("real.sock"), documents.healthy()):
        assert refusal(path) == f"{path}: it is {found}, expected the bridge's socket"


def test_a_socket_that_others_could_replace_is_refused(path: Path) -> None:
    with serving(path, documents.healthy()):
        path.chmod(0o777)
        assert refusal(path).startswith(f"{path} is writable by others")
        path.chmod(0o600)
        path.parent.chmod(0o777)
        assert refusal(path).startswith(f"{path.parent} is writable by others")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives a socket to another user")
def test_another_users_socket_is_refused(path: Path) -> None:
    with serving(path, documents.healthy()):
        os.chown(path, 1234, 1234)
        assert "is another user's" in refusal(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: listens as another user")
def test_another_user_who_listens_on_our_socket_is_refused(path: Path) -> None:
    path.parent.mkdir()
    code = (
        "import os, socket, sys\n"
        "listener = socket.socket(socket.AF_UNIX)\n"
        f"listener.bind({str(path)!r})\n"
        "os.seteuid(1234)\n"
        "listener.listen()\n"
        "print(flush=True)\n"
        "sys.stdin.read()\n"
    )
    peer = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert peer.stdin is not None
    assert peer.stdout is not None
    with peer:
        peer.stdout.readline()
        path.chmod(0o600)
        assert refusal(path) == f"{path}: user 1234 answers there, expected root or user 0"
        peer.stdin.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: asks as another user")
def test_another_user_gets_the_error_that_root_alone_may_ask(path: Path) -> None:
    with serving(path, documents.healthy()):
        os.seteuid(1234)
        try:
            assert refusal(path) == f"{path}: Permission denied: root alone may ask the bridge"
        finally:
            os.seteuid(0)


def test_an_invalid_path_is_refused(tmp_path: Path) -> None:
    assert "embedded null" in refusal(tmp_path / "a\0b")
