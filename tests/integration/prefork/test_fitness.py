"""Plugins that can't be forked: they are started for each request, the log says why, and they work as they should."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nri.prefork.pool.server_handle import ServerHandle
from tests.integration.prefork.preforked import SOURCE, reasons
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.integration.prefork.preforked import PreforkHost

SPAWN = "import subprocess; CHILD = subprocess.Popen(['sleep', '1000'], stdin=subprocess.DEVNULL)"
THREAD = "import threading; threading.Thread(target=time.sleep, args=(99,), daemon=True).start()"

UNFIT = {
    "thread": (THREAD, "it has threads beside the main one when it is loaded: 1"),
    "file": ("F = open(__file__)", "it has a file open when it is loaded: /"),
    "child": (SPAWN, "it has a child process when it is loaded"),
    "stderr": ("os.dup2(os.open('/dev/null', 1), 2); os.closerange(3, 9)", "it has redirected stdout or stderr"),
    "mmap": ("import mmap; M = mmap.mmap(-1, 4096)", "it has writable shared memory when it is loaded: /dev/zero"),
    "alarm": ("signal.alarm(1000)", "it has a timer running when it is loaded"),
    "SIGCHLD": ("signal.signal(signal.SIGCHLD, lambda *_: None)", "it handles or ignores SIGCHLD when it is loaded"),
    "temporary directory": (
        "import tempfile; D = tempfile.TemporaryDirectory()",
        "it has a weakref.finalize when it is loaded: tempfile.TemporaryDirectory._cleanup",
    ),
    "atexit beside the standard library's": (
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
def test_plugin_whose_forks_would_not_be_as_new_is_started_for_each_request(
    node: PreforkHost, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    loads, why = UNFIT[name]
    node.install(loads=loads)
    node.wait_until_settled()
    assert not node.is_preforked()
    (line,) = reasons(caplog)
    assert line.startswith(f"noop is started for each request: {why}")


def test_reason_is_logged_once_and_a_better_version_is_preforked(
    node: PreforkHost, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri.prefork.pool.pool.RETRY", 0.0)
    tries = node.host.root / "tries"
    node.install(loads=f"{THREAD}\nif 'prefork' in sys.argv: open({str(tries)!r}, 'a').write('x')")
    for _ in range(3):
        node.wait_until_settled()
    assert tries.read_text() == "xxx"
    assert len(reasons(caplog)) == 1
    node.install()
    node.wait_for_server()
    assert len(reasons(caplog)) == 1


def test_page_for_authors_lists_each_reason() -> None:
    page = (Path(SOURCE) / "docs/writing-a-plugin.md").read_text()
    told = re.findall(r"^\| .* \| `(it [^`]+)` \| .* \|$", page, re.MULTILINE)
    assert len(told) == len(UNFIT)
    for reason in told:
        assert [why for _, why in UNFIT.values() if why.startswith(reason)], reason


FIT = """
import logging; logging.basicConfig(); logging.getLogger('x')
import threading; t = threading.Thread(target=print); t.start(); t.join()
import concurrent.futures as f; P = f.ThreadPoolExecutor()
import multiprocessing.pool, multiprocessing.shared_memory, concurrent.futures.process
import rlcompleter, asyncio, unittest.mock, logging.handlers
import random, secrets; random.random(); secrets.token_hex(); random.SystemRandom().random()
import tempfile; tempfile.TemporaryDirectory().cleanup(); tempfile.gettempdir()
import subprocess; subprocess.run(['true'])
import weakref
class C: pass
O = C(); F = weakref.finalize(O, print); F.atexit = False
signal.signal(signal.SIGTERM, lambda *_: None)
if 'prefork' in sys.argv: os.write(2, b'x' * 500_000)  # more than the pipe holds
"""


def test_what_the_standard_library_does_when_it_is_loaded_makes_no_plugin_unfit(
    node: PreforkHost, caplog: pytest.LogCaptureFixture
) -> None:
    node.install(loads=FIT)
    node.wait_for_server()
    assert reasons(caplog) == []


UNUSABLE = {
    "fails": (
        "if 'prefork' in sys.argv: raise OSError('no such\\tdevice')",
        "it ends while it is loaded: OSError: no such device",
    ),
    "another protocol": (
        "import nri.prefork.protocol as protocol; protocol.VERSION = 3",
        "it was built with another version of nri.skel: its prefork is the number 3, expected 5",
    ),
    "floods stderr": (
        "if 'prefork' in sys.argv:\n    while True: os.write(2, b'x' * 65536)",
        "it writes too much while it is loaded: more than 1048576 bytes",
    ),
    "uses": (
        "skel.Plugin.uses = ('gone',)",
        "its `uses` names a module that cannot be imported: No module named 'gone'",
    ),
    "workers end": (
        "os.register_at_fork(after_in_child=lambda: os._exit(9))",
        "its server or a worker ends by itself",
    ),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_plugin_whose_server_is_unusable_is_started_for_each_request(
    node: PreforkHost, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    loads, why = UNUSABLE[name]
    node.install(loads=loads)
    node.wait_until_settled()
    for _ in range(5):
        assert not node.is_preforked()
    assert reasons(caplog) == [f"noop is started for each request: {why}"]
    assert wait_until(lambda: not node.host.processes())


def test_plugin_that_hangs_while_it_is_loaded_is_ended(
    node: PreforkHost, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, load = node.host.root / "begun", ServerHandle.load

    def load_soon(server: ServerHandle, _until: float) -> str:
        assert wait_until(begun.exists)
        return load(server, time.monotonic() + 0.3)

    monkeypatch.setattr(ServerHandle, "load", load_soon)
    monkeypatch.setattr("nri.prefork.pool.server_process.END_WITHIN", 0.2)
    hang = f"os.write(2, b'waiting for a lock'); open({str(begun)!r}, 'w').close(); time.sleep(1000)"
    node.install(loads=f"if 'prefork' in sys.argv: {hang}")
    node.wait_until_settled()
    assert reasons(caplog) == ["noop is started for each request: it does not become ready: waiting for a lock"]
    assert wait_until(lambda: not node.host.processes())


def test_module_that_is_missing_in_the_executable_is_named_and_version_does_not_claim_prefork(
    node: PreforkHost, caplog: pytest.LogCaptureFixture
) -> None:
    path = node.install(loads="sys.modules['_socket'] = None")
    assert "prefork" not in json.loads(subprocess.check_output([path, "version"]))
    node.wait_until_settled()
    assert reasons(caplog) == ["noop is started for each request: a module is missing in the executable: _socket"]
