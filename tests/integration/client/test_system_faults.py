"""System calls that fail while a plugin is found, started, fed, read and reaped: an error that names it, nothing left
behind (the ``host`` of the tests looks), and the next request is served.
"""

from __future__ import annotations

import errno
import os
import re
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nri.client import ChainError, invoker
from nri.process import conversation, inherit, spawn, wait
from tests.support.host import Host, plugin, request
from tests.support.processes import all_reaped, open_fds
from tests.support.system_faults import ERRORS, Failing, name_of
from tests.support.waiting import SOON

if TYPE_CHECKING:
    from types import ModuleType

SOURCE = str(Path(__file__).parents[3])
NOT_STARTED = r"plugin noop: cannot be started: {bin}/noop: {error}"
BROKEN_OFF = r"plugin noop: killed: it could not be waited for or read: {error}"
FAULTS = [
    # the module that sees it, the call, which one, what the error says ("" for none: there is another way)
    (invoker, "stat", 0, r"plugin noop: not run: {bin}/noop cannot be looked at: {error}"),
    (spawn, "pipe2", 0, NOT_STARTED),
    (spawn, "pipe2", 1, NOT_STARTED),
    (spawn, "pipe2", 2, NOT_STARTED),
    (inherit, "listdir", 0, NOT_STARTED),
    (spawn, "posix_spawn", 0, NOT_STARTED),
    (wait, "pidfd_open", 0, ""),
    (conversation, "read", 0, BROKEN_OFF),
    (conversation, "read", 1, BROKEN_OFF),
    (conversation, "write", 0, r"plugin noop: no valid result: .*; exit status 3; the end of its stderr: no request"),
]
ONLY_LATER = {(call, errno.EAGAIN) for call in ("read", "write")}
"""Not failures: it is tried again when there is something."""


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


@pytest.mark.parametrize("number", ERRORS, ids=name_of)
@pytest.mark.parametrize(
    ("where", "call", "nth", "message"), FAULTS, ids=lambda value: str(value) if isinstance(value, str | int) else ""
)
def test_a_call_that_fails_is_an_error_that_names_it(
    host: Host, monkeypatch: pytest.MonkeyPatch, where: ModuleType, call: str, nth: int, message: str, number: int
) -> None:
    before = open_fds()
    seen = Failing(os, call, number, nth=nth)
    with monkeypatch.context() as patch:
        patch.setattr(where, "os", seen)
        error = serve(host)
    assert seen.failed == 1, f"{call} was not called"
    if not message or (call, number) in ONLY_LATER:
        assert error == ""
    else:
        expected = message.format(bin=re.escape(str(host.bin)), error=re.escape(os.strerror(number)))
        assert re.fullmatch(expected, error)
    assert open_fds() == before
    assert all_reaped()
    assert serve(host) == ""


@pytest.mark.parametrize("number", ERRORS, ids=name_of)
def test_a_process_that_cannot_be_waited_for_is_killed_and_reaped(
    host: Host, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    class Poll:
        """Never says anything."""

        register = unregister = staticmethod(lambda *arguments: None)

        @staticmethod
        def poll(wait: float) -> None:
            raise OSError(number, os.strerror(number))

    class Select:
        poll = Poll
        POLLIN, POLLOUT = select.POLLIN, select.POLLOUT

    before = open_fds()
    with monkeypatch.context() as patch:
        patch.setattr(conversation, "select", Select)
        error = serve(host)
    assert error == BROKEN_OFF.format(error=os.strerror(number))
    assert open_fds() == before
    assert all_reaped()
    assert serve(host) == ""


@pytest.mark.parametrize("nth", [0, 1])
def test_a_pipe_that_cannot_be_moved_above_the_standard_descriptors_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    import fcntl

    ends: list[int] = []

    class Low(Failing):
        """Says of a pipe's ends that they are low: no test may close its runner's own."""

        def min(self, pair: tuple[int, int]) -> int:
            ends.extend(pair)
            return 0

    low = Low(fcntl, "fcntl", errno.EMFILE, nth=nth)
    before = open_fds()
    monkeypatch.setitem(sys.modules, "fcntl", low)
    monkeypatch.setattr(spawn, "min", low.min, raising=False)
    with pytest.raises(OSError, match="Too many open files"):
        spawn.pipe()
    assert low.failed == 1
    assert len(ends) == 2
    assert open_fds() == before


def test_a_failure_that_is_passed_over_is_one_of_the_plugins_whatever_failed(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    client = host.client(
        plugin("noop", failure_policy="ignore"), log=lambda plugin, line: said.append(f"{plugin}: {line}")
    )
    with monkeypatch.context() as patch:
        patch.setattr(spawn, "os", Failing(os, "posix_spawn", errno.ENOMEM))
        assert client.invoke(request(), "create") == []
    (line,) = said
    assert line.startswith("noop: failed, ignored (failurePolicy: ignore): cannot be started: ")


def run(code: str, *words: str) -> str:
    """Run code in a process of its own, whose limits are its own; what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={"PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_with_any_number_of_free_descriptors_it_is_served_or_told_and_none_is_lost(host: Host) -> None:
    code = """
import os, resource, sys
from nri.client import ChainError, Client, DirectInvoker
from nri.config.entries import ConfigList, PluginEntry
from nri.types.v1 import Request
client = Client(ConfigList(plugins=[PluginEntry(type="noop")]), DirectInvoker([sys.argv[1]]))
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
said = set()
def count():
    return len(os.listdir("/proc/self/fd"))
before = count()
for free in range(12):
    resource.setrlimit(resource.RLIMIT_NOFILE, (before - 1 + free, hard))  # that of the listing is not open now
    try:
        client.invoke(Request(state="create", id="x"), "create")
        said.add("served")
    except ChainError as error:
        said.add(str(error))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert count() == before, (free, count(), before)
client.invoke(Request(state="create", id="x"), "create")
print(*sorted(said), sep="\\n")
"""
    said = run(code, str(host.bin)).splitlines()
    assert f"plugin noop: cannot be started: {host.bin}/noop: Too many open files" in said
    assert "served" in said
    # In between it is the plugin, which has the same limit, that can't do its work, and whose words these are.
    assert all(re.match("served$|plugin noop: (cannot be started: |no valid result: )", line) for line in said)


def test_with_no_process_left_to_its_user_it_is_told_and_later_served() -> None:
    code = """
import os, resource, sys
from nri.client import ChainError, Client, DirectInvoker
from nri.config.entries import ConfigList, PluginEntry
from nri.types.v1 import Request
client = Client(ConfigList(plugins=[PluginEntry(type="true")]), DirectInvoker(["/bin"]))
def serve():
    try:
        client.invoke(Request(state="create", id="x"), "create")
    except ChainError as error:
        print(error)
serve()
if os.getuid() == 0:  # whom the limit does not bind
    user = 0x40000000 + os.getpid()
    try:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    except (PermissionError, OSError) as error:
        print("no other user:", error)
        sys.exit()
soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
resource.setrlimit(resource.RLIMIT_NPROC, (1, hard))
serve()
resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
serve()
"""
    started = "plugin true: no valid result: it wrote nothing to stdout, expected a result"
    first, *rest = run(code).splitlines()
    assert first == started
    if rest[0].startswith("no other user") or rest == [started, started]:
        pytest.skip(f"RLIMIT_NPROC does not bind here: {rest[0]}")
    assert rest == ["plugin true: cannot be started: /bin/true: Resource temporarily unavailable", started]


def test_signals_that_interrupt_every_call_disturb_nothing() -> None:
    code = """
import signal, sys, time
from nri.process.launch import launch
caught = []
signal.signal(signal.SIGALRM, lambda *arguments: caught.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
answers = set()
for _ in range(10):
    argv = ["sh", "-c", "wc -c; sleep 0.01"]
    output = launch("/bin/sh", argv, b"a" * 200_000, time.monotonic() + 30, log=print)
    answers.add((output.status, output.stdout.strip(), output.stopped))
signal.setitimer(signal.ITIMER_REAL, 0)
assert caught
print(answers)
"""
    assert run(code) == "{(0, b'200000', '')}\n"
