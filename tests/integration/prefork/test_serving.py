"""The server: what it needs of its host, and that it ends with it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.prefork.preforked import SOURCE
from tests.support.processes import is_running
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from tests.integration.prefork.preforked import PreforkHost


def test_a_host_without_standard_descriptors_is_served_the_same(node: PreforkHost) -> None:
    node.install()
    answer = node.host.root / "answer"
    code = f"""
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.closerange(0, 3)
os.set_inheritable(os.dup2(os.open("/", os.O_RDONLY), 50), True)
from nri.client import Client, PoolInvoker
from nri.prefork.pool.pool import Pool
from nri.config.entries import ConfigList, PluginEntry
from nri.types.v1 import Request
pool = Pool()
conf = {{"do": "print('said'); result.extra['n'] = os.path.exists('/proc/self/fd/50')"}}
until = time.monotonic() + 60
while time.monotonic() < until:
    lines = []
    config = ConfigList(plugins=[PluginEntry(type="noop", conf=conf)])
    client = Client(config, PoolInvoker(pool, [{str(node.host.bin)!r}]))
    request = Request(state="create", id="x")
    result = client.invoke(request, "create", log=lambda *line: lines.append(line))[0].result
    if result.extra["id"]["parent"] != os.getpid():
        break
with open({str(answer)!r}, "w") as file:
    print(result.extra["id"]["parent"] != os.getpid(), result.extra["n"], lines, file=file)
"""
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": SOURCE}, timeout=2 * SOON, check=True)
    assert answer.read_text() == "True False [('noop', 'said')]\n"
    assert wait_until(lambda: not node.host.processes())


def test_when_the_host_is_killed_all_ends_also_a_worker_at_work(node: PreforkHost) -> None:
    node.install()
    pids = node.host.root / "pids"
    code = f"""
import os, time
from nri.client import Client, PoolInvoker
from nri.prefork.pool.pool import Pool
from nri.config.entries import ConfigList, PluginEntry
from nri.types.v1 import Request
pool = Pool()
def run(do=""):
    config = ConfigList(plugins=[PluginEntry(type="noop", conf={{"do": do}})])
    client = Client(config, PoolInvoker(pool, [{str(node.host.bin)!r}]), timeout=100)
    result = client.invoke(Request(state="create", id="x"), "create")[0].result
    return result.extra["id"]["parent"]
while run() == os.getpid():
    time.sleep(0.01)
note = "open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{os.getppid()}}')"
run(note + "; spread({str(pids) + "2"!r}); time.sleep(1000)")
"""
    process = subprocess.Popen([sys.executable, "-c", code], env={"PYTHONPATH": SOURCE})
    try:
        assert wait_until(lambda: os.path.exists(f"{pids}2") and Path(f"{pids}2").read_text())
    finally:
        process.kill()
        process.wait()
    gone = [*map(int, pids.read_text().split()), int(Path(f"{pids}2").read_text())]
    assert wait_until(lambda: not any(map(is_running, gone)))
    assert wait_until(lambda: not node.host.processes())


@pytest.mark.parametrize("stdin", ["a file", "a stream"])
def test_prefork_without_a_control_socket_is_refused_in_one_line(node: PreforkHost, stdin: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.run(
            [node.install(), "prefork"],
            stdin=theirs.fileno() if stdin == "a stream" else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("noop prefork: stdin is no connected socket: ")
    assert process.stderr.count("\n") == 1
