"""Plugins that can't be forked: they are started for each request, the log says why, and they work as they should."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.prefork.preforked import SOURCE, is_pool_idle, reasons
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from tests.integration.prefork.preforked import PreforkHost


def install(node: PreforkHost, loads: str) -> Path:
    """Install a plugin that does this when it is loaded."""
    path = node.install()
    path.write_text(node.text().replace("COUNT = 0", f"COUNT = 0\n{loads}"))
    return path


def settled(node: PreforkHost) -> None:
    """Have it tried, and wait until the verdict is there."""
    node.run()
    assert wait_until(is_pool_idle, SOON)


SPAWN = "import subprocess; CHILD = subprocess.Popen(['sleep', '1000'], stdin=subprocess.DEVNULL)"
THREAD = "import threading; threading.Thread(target=time.sleep, args=(9,), daemon=True).start()"

UNFIT = {
    "thread": (THREAD, "it has threads beside the main one when it is loaded: 1"),
    "file": ("F = open(__file__)", "it has a file open when it is loaded: /"),
    "child": (SPAWN, "it has a child process when it is loaded"),
    "stderr": ("os.dup2(os.open('/dev/null', 1), 2); os.closerange(3, 9)", "it has redirected stdout or stderr"),
    "mmap": ("import mmap; M = mmap.mmap(-1, 4096)", "it has writable shared memory when it is loaded: /dev/zero"),
    "semaphore": (
        "import multiprocessing; L = multiprocessing.get_context('fork').Lock()",
        "it has writable shared memory when it is load",
    ),
    "alarm": ("signal.alarm(1000)", "it has a timer running when it is loaded"),
    "SIGCHLD": ("signal.signal(signal.SIGCHLD, lambda *_: None)", "it handles or ignores SIGCHLD when it is loaded"),
    "temporary directory": (
        "import tempfile; D = tempfile.TemporaryDirectory()",
        "it has a weakref.finalize when it is loaded: tempfile.TemporaryDirectory._cleanup",
    ),
    "atexit": (
        "import atexit; atexit.register(print, 'x')",
        "it has registered functions with atexit when it is loaded: 1",
    ),
    "atexit beside others": (
        "import atexit, logging, multiprocessing.util, concurrent.futures.process; atexit.register(print, 'x')",
        "it has registered functions with atexit when it is loaded: 1",
    ),
    "finalizer of multiprocessing": (
        "import multiprocessing.util as u; u.Finalize(None, print, exitpriority=1)",
        "it has a finalizer of multiprocessing when it is loaded",
    ),
    "random": ("import random; R = random.Random()", "it has a random.Random of its own when it is loaded"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_one_whose_processes_would_not_be_as_new_is_started_for_each_request_and_the_log_says_why_once(
    node: PreforkHost, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    loads, why = UNFIT[name]
    path = install(node, loads)
    for _ in range(3):
        settled(node)
        assert not node.is_preforked()
    (line,) = reasons(caplog)
    assert line.startswith(f"noop is started for each request: {why}")
    assert wait_until(lambda: not node.host.processes(), 5)
    assert wait_until(is_pool_idle, SOON)  # a file that is being written cannot be started
    path.write_text(node.text())  # a version that is better
    node.wait_for_server()
    assert reasons(caplog) == [line]


def test_the_page_for_authors_has_each_reason() -> None:
    page = (Path(SOURCE) / "docs/writing-a-plugin.md").read_text()
    told = re.findall(r"^\| .* \| `(it [^`]+)` \| .* \|$", page, re.MULTILINE)
    assert len(told) == 11
    for _, why in UNFIT.values():
        assert any(why.startswith(reason) for reason in told), why
    assert [reason for reason in told if not any(why.startswith(reason) for _, why in UNFIT.values())] == []


FIT = {
    "logging": "import logging; logging.basicConfig(); logging.getLogger('x')",
    "threads that have ended": "import threading; t = threading.Thread(target=print); t.start(); t.join()",
    "a pool without threads": "import concurrent.futures as f; P = f.ThreadPoolExecutor()",
    "multiprocessing": "import multiprocessing.pool, multiprocessing.shared_memory, concurrent.futures.process",
    "completion": "import rlcompleter",
    "random": "import random, secrets; random.random(); secrets.token_hex(); random.SystemRandom().random()",
    "temporary files": "import tempfile; tempfile.TemporaryDirectory().cleanup(); tempfile.gettempdir()",
    "a child that is reaped": "import subprocess; subprocess.run(['true'])",
    "asyncio": "import asyncio, unittest.mock, logging.handlers",
    "a finalizer that is not for the end": (
        "import weakref\nclass C: pass\nO = C(); F = weakref.finalize(O, print); F.atexit = False"
    ),
    "a handler": "signal.signal(signal.SIGTERM, lambda *_: None)",
}


def test_what_the_standard_library_does_when_it_is_loaded_makes_no_plugin_unfit(
    node: PreforkHost, caplog: pytest.LogCaptureFixture
) -> None:
    install(node, "\n".join(FIT.values()))
    node.wait_for_server()
    assert reasons(caplog) == []


# What became of pods before


def test_a_temporary_directory_of_a_module_is_there_for_every_request(node: PreforkHost) -> None:
    install(node, "import tempfile; D = tempfile.TemporaryDirectory()")
    for _ in range(4):
        assert node.run("result.extra['there'] = os.path.isdir(D.name)").extra["there"]
        settled(node)


def test_shared_memory_shows_no_request_to_the_next(node: PreforkHost) -> None:
    install(node, "import mmap; M = mmap.mmap(-1, 4)")
    for _ in range(4):
        assert node.run("result.extra['seen'] = M[0]; M[0] = 7").extra["seen"] == 0
        settled(node)


def test_a_lock_that_a_killed_one_holds_is_free_for_the_next(node: PreforkHost) -> None:
    install(node, "import multiprocessing; L = multiprocessing.get_context('fork').Lock()")
    settled(node)
    assert "killed: no result after" in node.failure("L.acquire(); time.sleep(1000)", timeout=1.0)
    assert node.run("L.acquire()").metadata == {"version": "1"}


def test_a_server_whose_worker_was_killed_at_its_deadline_is_replaced(node: PreforkHost) -> None:
    node.install()
    node.wait_for_server()
    server = node.server()
    assert "killed: no result after" in node.failure("time.sleep(1000)", timeout=0.5)
    assert node.run().extra["id"]["parent"] != server
    assert wait_until(lambda: not os.path.exists(f"/proc/{server}"), SOON)
    node.wait_for_server()
    assert node.server() != server


# What is said


def test_the_end_of_one_that_can_not_be_loaded_is_in_the_log(
    node: PreforkHost, caplog: pytest.LogCaptureFixture
) -> None:
    install(node, "if 'prefork' in sys.argv: raise OSError('no such\\tdevice')")
    settled(node)
    assert reasons(caplog) == [
        "noop is started for each request: it ends while it is loaded: OSError: no such device"
    ]


@pytest.mark.parametrize("module", ["_socket", "select", "nri.prefork.server.fitness"])
def test_a_module_that_is_missing_in_the_executable_is_named_and_version_does_not_claim_more(
    node: PreforkHost, module: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = install(node, f"sys.modules[{module!r}] = None")
    assert "prefork" not in json.loads(subprocess.check_output([path, "version"]))
    settled(node)
    assert reasons(caplog) == [f"noop is started for each request: a module is missing in the executable: {module}"]


def test_a_module_of_uses_that_is_missing_is_named(node: PreforkHost, caplog: pytest.LogCaptureFixture) -> None:
    path = install(node, "")
    path.write_text(
        node.text().replace("class Scripted(skel.Plugin):", "class Scripted(skel.Plugin):\n    uses = ('gone',)")
    )
    settled(node)
    why = "its `uses` names a module that cannot be imported: No module named 'gone'"
    assert reasons(caplog) == [f"noop is started for each request: {why}"]


def test_one_of_an_older_build_is_named(node: PreforkHost, caplog: pytest.LogCaptureFixture) -> None:
    install(node, "import nri.prefork.protocol as protocol; protocol.VERSION = 3")
    settled(node)
    why = "it was built with another version of nri.skel: its prefork is the number 3, expected "
    (line,) = reasons(caplog)
    assert line.startswith(f"noop is started for each request: {why}")


def test_one_that_floods_stderr_while_it_is_loaded_is_ended_and_the_log_has_one_line(
    node: PreforkHost, caplog: pytest.LogCaptureFixture
) -> None:
    install(node, "if 'prefork' in sys.argv:\n    while True: os.write(2, b'x' * 65536)")
    settled(node)
    why = "it writes too much while it is loaded: more than 1048576 bytes"
    assert reasons(caplog) == [f"noop is started for each request: {why}"]
    assert wait_until(lambda: not node.host.processes(), SOON)


def test_what_one_writes_while_it_is_loaded_does_not_hold_it_up(node: PreforkHost) -> None:
    install(node, "if 'prefork' in sys.argv: os.write(2, b'x' * 500_000)")
    node.wait_for_server()


def test_one_that_hangs_while_it_is_loaded_is_ended_and_named(
    node: PreforkHost, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri.prefork.pool.eligibility.ANSWER_WITHIN", 1.0)
    monkeypatch.setattr("nri.prefork.pool.server_process.END_WITHIN", 0.2)
    install(node, "if 'prefork' in sys.argv: print('waiting for a lock', file=sys.stderr); time.sleep(1000)")
    settled(node)
    assert reasons(caplog) == ["noop is started for each request: it does not become ready: waiting for a lock"]
    assert wait_until(lambda: not node.host.processes(), SOON)


def test_one_whose_forked_processes_end_by_themselves_is_started_for_each_request_and_the_log_says_so_once(
    node: PreforkHost, caplog: pytest.LogCaptureFixture
) -> None:
    install(node, "os.register_at_fork(after_in_child=lambda: os._exit(9))")
    settled(node)
    for _ in range(5):
        assert node.run().extra["id"]["parent"] == os.getpid()
    assert reasons(caplog) == ["noop is started for each request: its server or a worker ends by itself"]
    assert wait_until(lambda: not node.host.processes(), SOON)
