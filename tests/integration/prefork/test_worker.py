"""Workers: seen from outside, a preforked process keeps the contract of a plugin that is started for its request."""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

from nri.client import ChainError
from tests.support.processes import is_running, kill
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from tests.integration.prefork.preforked import PreforkHost

launching = sys.modules["nri.process.launch"]  # the package has a function of that name


def test_the_first_is_started_and_later_ones_come_from_one_server_each_a_new_process(node: PreforkHost) -> None:
    node.install()
    assert node.run().extra["id"]["parent"] == os.getpid()
    node.wait_for_server()
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
    node.install()
    node.wait_for_server()
    before = node.seen(SEE)
    for _ in range(3):
        assert node.seen(CHANGE + SEE) != before
        assert node.seen(SEE) == before


SAME = {
    "nothing": "",
    "metadata": "result.metadata['a'] = 'b'",
    "spec": "result.extra['request'] = repr(request)",
    "facts": "result.extra['facts'] = facts()",
    "print": "print('one'); print('two', end='')",
    "stderr": "sys.stderr.write('x\\n' * 50); os.write(2, b'raw')",
    "descriptor 1": "os.write(1, b'by mistake\\n')",
    "shell": "os.system('echo from sh; echo $0 >&2; ls /proc/self/fd | wc -l')",
    "stdin is read": "print(repr(sys.stdin.read()), os.read(0, 5))",
    "logging": "import logging; logging.getLogger('x').warning('careful'); logging.warning('now')",
    "error": "raise ValueError('no')",
    "deep error": "[1 / 0 for _ in [1]]",
    "nri error": "from nri.errors import NRIError; raise NRIError('no such qos')",
    "empty error": "raise RuntimeError()",
    "sys.exit": "sys.exit(4)",
    "exit": "os._exit(5)",
    "keyboard interrupt": "raise KeyboardInterrupt",
    "base exception": "raise GeneratorExit('odd')",
    "no result": "result.metadata = {1: object()}",
    "exit after the result": "import atexit; atexit.register(os._exit, 3)",
    "atexit": "import atexit; atexit.register(print, 'at the end'); atexit.register(print, 'first')",
    "atexit fails": "import atexit; atexit.register(lambda: 1 / 0)",
    "thread": "import threading; threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()",
    "executor": "import concurrent.futures as f; f.ThreadPoolExecutor(1).submit(lambda: (time.sleep(0.1), print(1)))",
    "unflushed": "global F; F = open(2, 'w', closefd=False); F.write('in a buffer')",
    "segfault": "os.kill(os.getpid(), 11)",
    "real segfault": "import ctypes; ctypes.string_at(0)",
    "abort": "os.abort()",
    "terminated": "os.kill(os.getpid(), 15)",
    "stdout closed": "os.close(1)",
    "stderr closed": "os.close(2); os.close(1)",
    "much": "result.extra['x'] = 'y' * 300_000",
}


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
    node.install()
    node.wait_for_server()
    differ = {}
    for name, do in SAME.items():
        started = outcome(node, do, prefork=False)
        assert wait_until(node.is_preforked, SOON)
        preforked = outcome(node, do, prefork=True)
        if started != preforked:
            differ[name] = (started, preforked)
    assert differ == {}


def test_a_crash_is_told_by_its_signal(node: PreforkHost) -> None:
    node.install()
    node.wait_for_server()
    assert "ended by signal 11" in node.failure("os.kill(os.getpid(), 11)")
    assert "exit status 3" in node.failure("import atexit; atexit.register(os._exit, 3)")
    assert wait_until(node.is_preforked)


@pytest.mark.parametrize(
    "do",
    [
        "time.sleep(1000)",
        "for n in (15, 1, 2): signal.signal(n, signal.SIG_IGN)\ntime.sleep(1000)",
        "os.close(1); os.close(2); time.sleep(1000)",
        "import atexit; atexit.register(time.sleep, 1000)",
        "import threading; threading.Thread(target=time.sleep, args=(1000,)).start()",
    ],
    ids=["sleeps", "ignores signals", "closes", "at exit", "thread"],
)
def test_one_that_hangs_is_killed_with_its_group_and_the_next_is_right(node: PreforkHost, do: str) -> None:
    node.install()
    node.wait_for_server()
    file = node.host.root / "pid"
    assert "killed: no result after 0.3 s" in node.failure(f"spread({str(file)!r})\n{do}", timeout=0.3)
    assert node.run("result.metadata['a'] = 'b'").metadata["a"] == "b"
    assert wait_until(lambda: not is_running(int(file.read_text())), 5)


def test_what_it_had_open_is_closed_when_its_result_is_there(
    node: PreforkHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its locks are free, as if the process had ended. It is not killed here, so that nothing else frees them."""
    node.install()
    node.wait_for_server()
    node.pool.tidy()
    files = [node.host.root / f"lock{number}" for number in range(8)]
    do = (
        "import fcntl\nfor name in NAMES:\n    FILES.append(open(name, 'w'))\n"
        "    fcntl.flock(FILES[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
    ).replace("NAMES", repr([str(file) for file in files]))
    with monkeypatch.context() as patched:
        patched.setattr(launching.Conversation, "_kill", lambda _self: None)
        found = node.run(do)
        assert found.extra["id"]["parent"] != os.getpid()
        assert is_running(found.extra["id"]["pid"])
        for file in files:
            with file.open() as other:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert wait_until(node.is_preforked)


def test_a_worker_has_nothing_open_of_the_server_but_its_own_socket(node: PreforkHost) -> None:
    """With the server's socket a plugin could speak to the host in the name of the server."""
    node.install()
    node.wait_for_server()
    do = (
        "paths = [f'/proc/self/fd/{name}' for name in os.listdir('/proc/self/fd')]\n"
        "links = [os.readlink(path) for path in paths if os.path.lexists(path)]\n"
        "result.extra['open'] = sorted(link.partition(':')[0] for link in links)"
    )
    found = node.run(do)
    assert found.extra["id"]["parent"] != os.getpid()
    assert found.extra["open"] == ["pipe", "pipe", "pipe", "socket"]


def test_a_flood_is_bounded(node: PreforkHost) -> None:
    node.install()
    node.wait_for_server()
    do = "result.extra['x'] = 'y' * 5_000_000"
    assert "1048576" in node.failure(do)
    assert node.run().metadata == {"version": "1"}
    assert "no result after 0.5 s" in node.failure("while True: os.write(2, b'x' * 4095 + b'\\n')", timeout=0.5)
    assert sum(map(len, node.lines)) < 2_000_000
    assert node.run().metadata == {"version": "1"}


def test_children_of_one_that_succeeds_end_with_it(node: PreforkHost) -> None:
    node.install()
    node.wait_for_server()
    file = node.host.root / "pid"
    node.run(f"spread({str(file)!r})")
    assert wait_until(lambda: not is_running(int(file.read_text())), 5)


def test_a_grandchild_that_holds_everything_open_is_not_waited_for(node: PreforkHost) -> None:
    node.install()
    node.wait_for_server()
    file = node.host.root / "pid"
    node.run(f"spread({str(file)!r}, os.setsid)")
    pid = int(file.read_text())
    assert is_running(pid)  # it left the group, as it may
    kill(pid)
    assert wait_until(node.is_preforked)


def test_a_request_of_a_megabyte_arrives_or_may_be_left_unread(node: PreforkHost) -> None:
    node.install()
    node.wait_for_server()
    big = {"text": "x" * 1_000_000}
    assert node.run("result.extra['n'] = len(request.labels['text'])", labels=big).extra["n"] == 1_000_000
    text = node.text().replace("if __name__", "real = skel.process.Request.from_json\nif __name__")
    text = text.replace(
        'if __name__ == "__main__":',
        """import nri.skel.process as process
run = process.run
def rude(plugin, argv, stdin, stdout, stderr):
    if argv[1] != "invoke" or plugin.type == "":
        return run(plugin, argv, stdin, stdout, stderr)
    import io
    os.close(0); os.open("/dev/null", 0)
    return run(plugin, argv, io.BytesIO(b"{}"), stdout, stderr)
process.run = rude
if __name__ == "__main__":
    skel.main.__globals__["run"] = rude""",
    ).replace("real = skel.process.Request.from_json\n", "")
    node.host.script("noop", text)
    node.wait_for_server()
    assert node.run(labels=big).metadata == {"version": "1"}
