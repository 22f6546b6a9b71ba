"""``nri metrics``: the text, the HTTP server and the file, with and without a bridge that answers."""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.cli.running import inside, process
from tests.support import exposition, status_documents
from tests.support.exposition import value
from tests.support.metrics_process import running
from tests.support.status_server import served_by, serving
from tests.support.waiting import SOON

ANY = "127.0.0.1:0"
MANY = 10


@pytest.fixture
def bridge(tmp_path: Path) -> Path:
    """Where the bridge's socket would be."""
    return tmp_path / "run/v1bridge.sock"


def test_the_text_is_printed(bridge: Path) -> None:
    with serving(bridge, status_documents.degraded()) as server:
        done = inside("metrics", "--socket", str(bridge))

    assert (done.status, done.stderr) == (0, "")
    assert exposition.parse(done.stdout.encode()) == exposition.of(status_documents.degraded())
    assert not done.stdout.endswith("\n\n")
    assert server.requests == [b"\n"]


def test_what_a_reapply_would_do_is_counted_by_plugin(bridge: Path) -> None:
    document = status_documents.healthy()
    gone = {"plugin": "gone", "reapply": 0, "release": 3}
    document["outdated"] = [{"plugin": "konfine", "reapply": 2, "release": 1}, gone]
    with serving(bridge, document):
        series = exposition.parse(inside("metrics", "--socket", str(bridge)).stdout.encode())

    counts = {
        plugin: [
            value(series, "outdated", plugin=plugin, due=due) for due in ("reapply", "release")
        ]
        for plugin in ("clearcfs", "konfine", "gone")
    }
    assert counts == {"clearcfs": [0, 0], "konfine": [2, 1], "gone": [0, 3]}


def test_no_bridge_is_an_answer_with_the_reason_beside_it(bridge: Path) -> None:
    done = inside("metrics", "--socket", str(bridge))

    assert (done.status, exposition.parse(done.stdout.encode())) == (0, exposition.of(None))
    assert done.stderr == f"nri metrics: {bridge} does not exist\n"


def test_the_file_is_replaced_as_a_whole(tmp_path: Path, bridge: Path) -> None:
    file = tmp_path / "nri.prom"
    file.write_text("before")
    with serving(bridge, status_documents.healthy()):
        assert inside("metrics", "--socket", str(bridge), "--textfile", str(file)).status == 0
    assert exposition.parse(file.read_bytes()) == exposition.of(status_documents.healthy())
    inside("metrics", "--socket", str(bridge), "--textfile", str(file))
    assert exposition.parse(file.read_bytes()) == exposition.of(None)
    assert sorted(os.listdir(tmp_path)) == ["nri.prom", "run"]

    away = tmp_path / "none/nri.prom"
    done = inside("metrics", "--socket", str(bridge), "--textfile", str(away))
    assert (done.status, done.stderr.splitlines()[-1]) == (
        1,
        f"{away} cannot be written: No such file or directory",
    )
    assert inside("metrics", "--listen", ANY, "--textfile", str(file)).status == 2


def test_each_scrape_asks_the_bridge_once_and_follows_it(tmp_path: Path, bridge: Path) -> None:
    with running(tmp_path, bridge, "--listen", ANY) as metrics:
        assert value(metrics.series(), "up") == 0
        with serving(bridge, status_documents.healthy()) as server:
            for asked in (1, 2):
                assert metrics.series() == exposition.of(status_documents.healthy())
                assert len(server.requests) == asked
        for _ in range(2):
            assert metrics.series() == exposition.of(None)
        gone = f"nri metrics: {bridge} does not exist"
        assert metrics.said[1:] == [gone, "nri metrics: the bridge answers again", gone]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_also_during_a_scrape(
    tmp_path: Path, bridge: Path, number: int
) -> None:
    asked, over = threading.Event(), threading.Event()

    def never(_: socket.socket, __: bytes) -> None:
        asked.set()
        over.wait(SOON)

    with running(tmp_path, bridge, "--listen", ANY) as metrics, served_by(bridge, never):
        with socket.create_connection(metrics.address) as scrape:
            scrape.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert asked.wait(SOON)
            assert metrics.end(number) == 0
        over.set()


def test_a_bridge_that_never_answers_is_down_and_not_waited_for(
    tmp_path: Path, bridge: Path
) -> None:
    over = threading.Event()

    def never(_: socket.socket, __: bytes) -> None:
        over.wait(SOON)

    with running(tmp_path, bridge, "--listen", ANY) as metrics:
        with served_by(bridge, never):
            try:
                assert metrics.series() == exposition.of(None)
            finally:
                over.set()
        assert f"nri metrics: {bridge}: the bridge has not answered within 5 s" in metrics.said


def test_many_peers_that_ask_for_nothing_or_slowly_keep_no_other_from_asking(
    tmp_path: Path, bridge: Path
) -> None:
    with ExitStack() as stack:
        stack.enter_context(serving(bridge, status_documents.healthy()))
        metrics = stack.enter_context(running(tmp_path, bridge, "--listen", ANY))
        silent = [
            stack.enter_context(socket.create_connection(metrics.address)) for _ in range(2 * MANY)
        ]
        for slow in silent[-MANY:]:
            slow.sendall(b"GET /metrics HTTP/1.1\r\n")
        assert value(metrics.series(), "up") == 1


def test_socket_that_may_not_be_read_is_no_bridge(
    bridge: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge.parent.mkdir(exist_ok=True)
    bridge.touch()
    monkeypatch.setattr(os, "access", lambda *_args, **_options: False)
    ran = inside("metrics", "--socket", str(bridge))
    assert (ran.status, "nri_v1bridge_up 0.0" in ran.stdout) == (0, True)


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("[::1]", 2),
        ("*:80", 2),
        ("foo", 2),
        (f":{'1' * 5000}", 2),
        ("http://a:80", 1),
        (f"{'a' * 70}:80", 1),
    ],
)
def test_an_address_that_is_none_is_one_line(bridge: Path, address: str, status: int) -> None:
    done = process("metrics", "--socket", str(bridge), "--listen", address)
    assert (done.status, done.stdout, done.stderr.count("\n")) == (
        status,
        "",
        1 if status == 1 else 4,
    )
    assert "expected" in done.stderr
    assert len(done.stderr) < 500


def test_a_peer_that_disconnects_affects_no_other_peer(tmp_path: Path, bridge: Path) -> None:
    with (
        serving(bridge, status_documents.healthy()),
        running(tmp_path, bridge, "--listen", ANY) as metrics,
    ):
        for sent in (b"", b"GET /metrics HTTP/1.1\r\n\r\n", b"\x00" * 100000):
            for _ in range(MANY):
                with socket.create_connection(metrics.address) as peer:
                    peer.sendall(sent)
        assert value(metrics.series(), "up") == 1


def test_an_address_that_is_in_use_is_one_line(bridge: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = process("metrics", "--listen", f":{port}", "--socket", str(bridge))

    assert done.status == 1
    assert done.stderr.startswith(
        f"cannot listen on 127.0.0.1 port {port}: Address already in use; expected "
    )
