"""A server that fails, or a host that is short of something: the next request is answered as it should be."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from nri.client import ChainError
from nri.prefork.pool import server_process, workers
from nri.process import conversation
from tests.integration.prefork.preforked import SOURCE
from tests.support.system_faults import Failing
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from tests.integration.prefork.preforked import PreforkHost


@pytest.fixture(autouse=True)
def preforked(node: PreforkHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MISSED_WITHIN", 0.2)
    monkeypatch.setattr(server_process, "END_WITHIN", 0.2)
    node.install()
    node.wait_for_server()


@pytest.mark.parametrize("whom", ["server", "workers"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_server_or_worker_that_is_killed_or_stopped_costs_no_request(
    node: PreforkHost, whom: str, number: int
) -> None:
    server = node.server()
    assert wait_until(lambda: node.workers(server))
    for pid in node.workers(server) if whom == "workers" else [server]:
        os.kill(pid, number)
    for turn in range(5):
        assert node.run(f"result.metadata['n'] = '{turn}'").metadata["n"] == str(turn)
    node.wait_for_server()


def test_a_stopped_server_ends_with_its_pool(node: PreforkHost) -> None:
    server = node.server()
    os.kill(server, signal.SIGSTOP)
    node.pool.close()
    assert wait_until(lambda: not os.path.exists(f"/proc/{server}"))


@pytest.mark.parametrize(
    ("call", "number"),
    [
        *[("read", errno.EIO), ("read", errno.EAGAIN), ("write", errno.EIO)],
        *[("set_blocking", errno.EMFILE), ("set_blocking", errno.EIO)],
    ],
)
def test_a_call_that_fails_is_an_error_that_names_it_or_none_at_all(
    node: PreforkHost, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    seen = Failing(os, call, number)
    errors = []
    with monkeypatch.context() as patch:
        patch.setattr(workers if call == "set_blocking" else conversation, "os", seen)

        def has_failed() -> bool:
            try:
                node.run()
            except ChainError as error:
                errors.append(str(error))
            return seen.failed == 1

        assert wait_until(has_failed)
    # Where nobody has read the request it is given to another, or sent again.
    is_lost = (call, number) == ("read", errno.EIO)
    message = "plugin noop: killed: it could not be waited for or read: Input/output error"
    assert errors == ([message] if is_lost else [])
    node.wait_for_server()


def test_without_descriptors_the_error_is_clear_and_later_all_is_well(node: PreforkHost) -> None:
    answer = node.host.root / "answer"
    code = f"""
import os, resource, sys, time
from nri.client import ChainError, Client, PoolInvoker
from nri.prefork.pool.pool import Pool
from nri.config.entries import ConfigList, PluginEntry
from nri.types.v1 import Request
pool = Pool()
def run():
    client = Client(ConfigList(plugins=[PluginEntry(type="noop")]), PoolInvoker(pool, [{str(node.host.bin)!r}]))
    result = client.invoke(Request(state="create", id="x"), "create")[0].result
    return result.extra["id"]["parent"] != os.getpid()
def has_server():
    until = time.monotonic() + 60
    while not run() and time.monotonic() < until:
        time.sleep(0.01)
    return run()
said = [has_server()]
pool.tidy()
top = max(int(fd) for fd in os.listdir("/proc/self/fd")) + 1
errors = []
for limit in range(3, top + 14):
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    try:
        run()
    except ChainError as error:
        errors.append(str(error))
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 4096))
said += [run() in (True, False), has_server()]
pool.close()
with open({str(answer)!r}, "w") as file:
    print(said, len(errors) > 0, set(errors), file=file)
"""
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": SOURCE}, timeout=10 * SOON, check=True)
    text = answer.read_text()
    assert text.startswith("[True, True, True] True {'plugin noop: "), text
    assert "Too many open files" in text
    assert "signal" not in text
