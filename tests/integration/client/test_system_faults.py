"""System calls that fail while a plugin is found, started, fed, read and reaped.

The error names the fault, nothing is left behind, and the next request is served.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from nri.client import ChainError, invoker
from nri.process import children, conversation, spawn
from tests.support.host import Host, plugin, request
from tests.support.processes import all_reaped, open_fds
from tests.support.system_faults import Failing
from tests.support.waiting import SOON

SOURCE = str(Path(__file__).parents[3])
NOT_STARTED = r"plugin noop: cannot be started: {bin}/noop: {error}"
BROKEN_OFF = r"plugin noop: killed: it could not be waited for or read: {error}"
NO_REQUEST = r"plugin noop: no valid result: .*; exit status 3; the end of its stderr: no request"
FAULTS = [
    # the module that sees it, the call, which one, the errno, the error ("" for none: there is another way)
    (
        invoker,
        "stat",
        0,
        errno.EIO,
        r"plugin noop: not run: {bin}/noop cannot be looked at: {error}",
    ),
    (spawn, "pipe2", 0, errno.EMFILE, NOT_STARTED),
    (spawn, "pipe2", 2, errno.ENOMEM, NOT_STARTED),
    (spawn, "set_blocking", 1, errno.EIO, NOT_STARTED),
    (spawn, "listdir", 0, errno.EMFILE, NOT_STARTED),
    (spawn, "posix_spawn", 0, errno.EAGAIN, NOT_STARTED),
    (children, "pidfd_open", 0, errno.EMFILE, ""),
    (conversation, "read", 0, errno.EIO, BROKEN_OFF),
    (conversation, "read", 0, errno.EAGAIN, ""),  # tried again when there is something
    (conversation, "write", 0, errno.ENOSPC, NO_REQUEST),
    (conversation, "write", 0, errno.EAGAIN, ""),
]


@pytest.fixture
def host(host: Host) -> Host:
    """A host whose plugin answers if it is sent a request."""
    host.script(
        "noop",
        "#!/bin/sh\nrequest=$(cat)\n"
        '[ -n "$request" ] || { echo "no request" >&2; exit 3; }\n'
        'echo \'{"plugin":"noop","version":"0.1"}\'\n',
    )
    return host


def serve(host: Host) -> str:
    """Run the plugin once; returns "" or the error."""
    try:
        (result,) = host.client(plugin("noop")).invoke(request(), "create")
    except ChainError as error:
        return str(error)
    assert result.plugin == "noop"
    return ""


@pytest.fixture
def nothing_is_left(host: Host) -> Iterator[None]:
    """After the fault no descriptor and no process is left, and the next request is served."""
    before = open_fds()
    yield
    assert open_fds() == before
    assert all_reaped()
    assert serve(host) == ""


@pytest.mark.usefixtures("nothing_is_left")
@pytest.mark.parametrize(
    ("where", "call", "nth", "number", "message"),
    FAULTS,
    ids=[f"{call}-{nth}-{errno.errorcode[number]}" for _, call, nth, number, _ in FAULTS],
)
def test_failing_call_is_named(
    host: Host,
    monkeypatch: pytest.MonkeyPatch,
    where: ModuleType,
    call: str,
    nth: int,
    number: int,
    message: str,
) -> None:
    seen = Failing(os, call, number, nth=nth)
    with monkeypatch.context() as patch:
        patch.setattr(where, "os", seen)
        error = serve(host)
    assert seen.failed == 1, f"{call} was not called"
    expected = message.format(bin=re.escape(str(host.bin)), error=re.escape(os.strerror(number)))
    assert re.fullmatch(expected, error)


# Limits and signals of a whole process


def run(code: str, *words: str) -> str:
    """Run code in a process of its own, whose limits are its own; what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={"PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=10 * SOON,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_few_free_descriptors_serve_or_fail_and_leak_none(host: Host) -> None:
    code = """
import os, resource, sys
from nri.client import ChainError, Client, Invoker
from nri.config.entries import ConfigList, PluginEntry
from nri.types.v1 import Request
client = Client(ConfigList(plugins=[PluginEntry(type="noop", timeout=100)]), Invoker([sys.argv[1]]))
def serve():
    try:
        client.invoke(Request(state="create", id="x"), "create")
    except ChainError as error:
        return str(error)
    return "served"
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
said = set()
def count():
    return len(os.listdir("/proc/self/fd"))
before = count()
for free in range(12):
    resource.setrlimit(resource.RLIMIT_NOFILE, (before - 1 + free, hard))  # that of the listing is not open now
    said.add(serve())
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert count() == before, (free, count(), before)
assert serve() == "served"
print(*sorted(said), sep="\\n")
"""
    said = run(code, str(host.bin)).splitlines()
    assert f"plugin noop: cannot be started: {host.bin}/noop: Too many open files" in said
    assert "served" in said
    # In between it is the plugin, which has the same limit, that cannot do its work, and whose words these are.
    assert all(
        re.match("served$|plugin noop: (cannot be started: |no valid result: )", line)
        for line in said
    )


def test_signals_that_interrupt_every_call_change_nothing() -> None:
    code = """
import signal, time
from nri.process.conversation import launch
caught = []
signal.signal(signal.SIGALRM, lambda *arguments: caught.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
argv = ["sh", "-c", "wc -c; sleep 0.05"]
output = launch("/bin/sh", argv, b"a" * 200_000, time.monotonic() + 100, log=print)
signal.setitimer(signal.ITIMER_REAL, 0)
assert caught
print(output.status, output.stdout.strip(), output.stopped)
"""
    assert run(code) == "0 b'200000' \n"
