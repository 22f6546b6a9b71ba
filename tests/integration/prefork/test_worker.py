"""Workers: seen from outside, a preforked process keeps the contract of a plugin that is started for its request."""

from __future__ import annotations

import fcntl
import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from nri.client import ChainError
from nri.process.conversation import Conversation
from tests.support.processes import is_running, kill
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.integration.prefork.preforked import PreforkHost


@pytest.fixture(autouse=True)
def preforked(node: PreforkHost) -> None:
    node.install()
    assert node.run().extra["id"]["parent"] == os.getpid()  # the first request waits for no server
    node.wait_for_server()


def test_each_request_has_a_new_process_of_one_server(node: PreforkHost) -> None:
    ids = [node.run().extra["id"] for _ in range(20)]
    assert len({one["pid"] for one in ids}) == 20
    assert len({one["parent"] for one in ids} - {os.getpid()}) == 1
    assert {one["count"] for one in ids} == {1}


CHANGE = """
global COUNT
COUNT += 5
os.environ["A"] = "b"; os.chdir("/proc"); os.umask(0o777); sys.path.append("/x")
FILES.append(open("/dev/null")); sys.modules["json2"] = os; signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""
SEE = """
result.extra["seen"] = [COUNT, "A" in os.environ, os.getcwd(), os.umask(0), "/x" in sys.path, len(FILES),
    "json2" in sys.modules, str(signal.getsignal(signal.SIGTERM)), len(os.listdir("/proc/self/fd"))]
"""


def test_nothing_that_one_changes_is_seen_by_the_next(node: PreforkHost) -> None:
    before = node.preforked(SEE).extra["seen"]
    for _ in range(3):
        assert node.preforked(CHANGE + SEE).extra["seen"] != before
        assert node.preforked(SEE).extra["seen"] == before


SAME = [
    "result.extra['request'] = repr(request)",
    "result.extra['facts'] = facts()",
    "print('one'); sys.stderr.write('x\\n' * 50); os.write(2, b'raw'); os.write(1, b'by mistake\\n')",
    "os.system('echo from sh; echo $0 >&2; ls /proc/self/fd | wc -l')",
    "print(repr(sys.stdin.read()), os.read(0, 5))",
    "import logging; logging.getLogger('x').warning('careful')",
    "raise ValueError('no')",
    "from nri.errors import NRIError; raise NRIError('no such qos')",
    "sys.exit(4)",
    "os._exit(5)",
    "raise KeyboardInterrupt",
    "raise GeneratorExit('odd')",
    "result.metadata = {1: object()}",
    "import atexit; atexit.register(os._exit, 3)",
    "import atexit; atexit.register(print, 'at the end'); atexit.register(lambda: 1 / 0)",
    "import threading; threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()",
    "import concurrent.futures as f; f.ThreadPoolExecutor(1).submit(lambda: (time.sleep(0.1), print(1)))",
    "global F; F = open(2, 'w', closefd=False); F.write('in a buffer')",
    "os.kill(os.getpid(), 11)",
    "os.kill(os.getpid(), 15)",
    "os.close(2); os.close(1)",
    "result.extra['x'] = 'y' * 300_000",
]


def outcome(node: PreforkHost, do: str, *, prefork: bool) -> dict[str, Any]:
    """All of one request that can be seen, with what differs between any two processes taken out."""
    node.lines.clear()
    seen: list[Any] = []
    found: dict[str, Any] = {}
    try:
        node.run(do, prefork=prefork, on_step=seen.append)
    except ChainError as error:
        found["error"] = str(error).partition("; the end of its stderr: ")[0]
    (step,) = seen
    try:
        document = json.loads(step.stdout)
        document.pop("id", None)
        found["stdout"] = document
    except ValueError:
        found["stdout"] = step.stdout
    found["lines"] = [line for line in node.lines if not line.startswith("noop:   ")]  # a traceback's places
    return json.loads(re.sub(r"0x[0-9a-f]+", "0x", json.dumps(found, default=repr)))  # type: ignore[no-any-return]


def test_it_is_the_same_started_and_preforked(node: PreforkHost) -> None:
    differ = {}
    for do in SAME:
        started = outcome(node, do, prefork=False)
        assert wait_until(node.is_preforked)
        preforked = outcome(node, do, prefork=True)
        if started != preforked:
            differ[do] = (started, preforked)
    assert differ == {}


@pytest.mark.parametrize(
    "do",
    [
        "for n in (15, 1, 2): signal.signal(n, signal.SIG_IGN)\ntime.sleep(1000)",
        "import atexit; atexit.register(time.sleep, 1000)",
    ],
    ids=["ignores signals", "at exit"],
)
def test_one_that_hangs_is_killed_with_its_group_and_its_server_is_replaced(node: PreforkHost, do: str) -> None:
    server, file = node.server(), node.host.root / "pid"
    assert "killed: no result after 0.3 s" in node.failure(f"spread({str(file)!r})\n{do}", timeout=0.3)
    assert node.run("result.metadata['a'] = 'b'").metadata["a"] == "b"
    assert wait_until(lambda: not file.exists() or not is_running(int(file.read_text())))
    assert wait_until(lambda: not os.path.exists(f"/proc/{server}"))
    assert node.server() != server


def test_what_it_had_open_is_closed_when_its_result_is_there(
    node: PreforkHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its locks are free, as if the process had ended. It is not killed here, so that nothing else frees them."""
    files = [str(node.host.root / f"lock{number}") for number in range(8)]
    do = f"import fcntl\nfor name in {files!r}: FILES.append(open(name, 'w')); fcntl.flock(FILES[-1], fcntl.LOCK_EX)"
    with monkeypatch.context() as patched:
        patched.setattr(Conversation, "_kill", lambda _self: None)
        assert is_running(node.preforked(do).extra["id"]["pid"])
        for file in files:
            with open(file, encoding="utf-8") as other:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_worker_has_nothing_open_of_the_server_but_its_own_socket(node: PreforkHost) -> None:
    """With the server's socket a plugin could speak to the host in the name of the server."""
    do = (
        "paths = [f'/proc/self/fd/{name}' for name in os.listdir('/proc/self/fd')]\n"
        "links = [os.readlink(path) for path in paths if os.path.lexists(path)]\n"
        "result.extra['open'] = sorted(link.partition(':')[0] for link in links)"
    )
    assert node.preforked(do).extra["open"] == ["pipe", "pipe", "pipe", "socket"]


def test_a_flood_is_bounded(node: PreforkHost) -> None:
    assert "1048576" in node.failure("result.extra['x'] = 'y' * 5_000_000")
    node.wait_for_server()
    assert "no result after 0.5 s" in node.failure("while True: os.write(2, b'x' * 4095 + b'\\n')", timeout=0.5)
    assert sum(map(len, node.lines)) < 2_000_000
    assert node.run().metadata == {"version": "1"}


def test_children_end_with_a_plugin_and_one_that_left_its_group_is_not_waited_for(node: PreforkHost) -> None:
    child, daemon = node.host.root / "child", node.host.root / "daemon"
    node.preforked(f"spread({str(child)!r}); spread({str(daemon)!r}, os.setsid)")
    assert wait_until(lambda: not is_running(int(child.read_text())))
    assert is_running(int(daemon.read_text()))
    kill(int(daemon.read_text()))


def test_a_request_of_a_megabyte_arrives(node: PreforkHost) -> None:
    do = "result.extra['n'] = len(request.labels['text'])"
    assert node.preforked(do, labels={"text": "x" * 1_000_000}).extra["n"] == 1_000_000
