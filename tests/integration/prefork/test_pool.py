"""Plugins that are ready before they are asked: whoever looks from outside finds the contract as it is without."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nri.client import ChainError
from nri.prefork.pool import server_handle as host_end
from tests.integration.prefork.warm import SOURCE, Warm
from tests.support.processes import is_running, kill, open_fds
from tests.support.system_faults import ERRORS, Failing, name_of
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.host import Host

launching = sys.modules["nri.process.launch"]  # the package has a function of that name


@pytest.fixture
def node(host: Host) -> Iterator[Warm]:
    node = Warm(host)
    yield node
    node.close()


# A process for each request


def test_the_first_is_cold_and_later_ones_come_from_one_helper_each_a_new_process(node: Warm) -> None:
    node.install()
    assert node.run().extra["id"]["parent"] == os.getpid()
    node.warm()
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


def test_nothing_that_one_changes_is_seen_by_the_next(node: Warm) -> None:
    node.install()
    node.warm()
    before = node.seen(SEE)
    for _ in range(3):
        assert node.seen(CHANGE + SEE) != before
        assert node.seen(SEE) == before


# The same as ever

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


def outcome(node: Warm, do: str, *, cold: bool) -> dict[str, Any]:
    """All of one request that can be seen, with what differs between any two processes taken out."""
    node.lines.clear()
    seen: list[Any] = []
    found: dict[str, Any] = {}
    try:
        node.run(do, cold=cold, on_step=seen.append)
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


def test_it_is_the_same_cold_and_warm(node: Warm) -> None:
    node.install()
    node.warm()
    differ = {}
    for name, do in SAME.items():
        cold = outcome(node, do, cold=True)
        assert wait_until(node.is_warm, SOON)
        warm = outcome(node, do, cold=False)
        if cold != warm:
            differ[name] = (cold, warm)
    assert differ == {}


def test_a_crash_is_told_by_its_signal(node: Warm) -> None:
    node.install()
    node.warm()
    assert "ended by signal 11" in node.failure("os.kill(os.getpid(), 11)")
    assert "exit status 3" in node.failure("import atexit; atexit.register(os._exit, 3)")
    assert wait_until(node.is_warm)


# That it ends


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
def test_one_that_hangs_is_killed_with_its_group_and_the_next_is_right(node: Warm, do: str) -> None:
    node.install()
    node.warm()
    file = node.host.root / "pid"
    started = time.monotonic()
    assert "killed: no result after 0.3 s" in node.failure(f"spread({str(file)!r})\n{do}", timeout=0.3)
    assert time.monotonic() - started < 3
    assert node.run("result.metadata['a'] = 'b'").metadata["a"] == "b"
    assert wait_until(lambda: not is_running(int(file.read_text())), 5)


def test_what_it_had_open_is_closed_when_its_result_is_there(node: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its locks are free, as if the process had ended. It is not killed here, so that nothing else frees them."""
    node.install()
    node.warm()
    node.helpers.tidy()
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
    assert wait_until(node.is_warm)


def test_a_request_has_nothing_open_of_the_helper_but_its_own_channel(node: Warm) -> None:
    """With the helper's socket a plugin could speak to the host in the name of the helper."""
    node.install()
    node.warm()
    do = (
        "paths = [f'/proc/self/fd/{name}' for name in os.listdir('/proc/self/fd')]\n"
        "links = [os.readlink(path) for path in paths if os.path.lexists(path)]\n"
        "result.extra['open'] = sorted(link.partition(':')[0] for link in links)"
    )
    found = node.run(do)
    assert found.extra["id"]["parent"] != os.getpid()
    assert found.extra["open"] == ["pipe", "pipe", "pipe", "socket"]


def test_a_flood_is_bounded(node: Warm) -> None:
    node.install()
    node.warm()
    do = "result.extra['x'] = 'y' * 5_000_000"
    assert "1048576" in node.failure(do)
    assert node.run().metadata == {"version": "1"}
    assert "no result after 0.5 s" in node.failure("while True: os.write(2, b'x' * 4095 + b'\\n')", timeout=0.5)
    assert sum(map(len, node.lines)) < 2_000_000
    assert node.run().metadata == {"version": "1"}


@pytest.mark.parametrize("closed", ["0", "1", "2", "0 1 2"])
def test_a_host_without_standard_descriptors_is_served_the_same(node: Warm, closed: str) -> None:
    node.install()
    answer = node.host.root / "answer"
    code = f"""
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for fd in {closed.split()!r}:
    os.close(int(fd))
os.set_inheritable(os.dup2(os.open("/", os.O_RDONLY), 50), True)
from nri.client import Client, PoolInvoker
from nri.prefork.pool.pool import Pool
from nri.config.entries import ConfigList, PluginEntry
from nri.types.v1 import Request
helpers = Pool()
conf = {{"do": "print('said'); result.extra['n'] = os.path.exists('/proc/self/fd/50')"}}
until = time.monotonic() + 10
while time.monotonic() < until:
    lines = []
    client = Client(
        ConfigList(plugins=[PluginEntry(type="noop", conf=conf)]), PoolInvoker(helpers, [{str(node.host.bin)!r}])
    )
    request = Request(state="create", id="x")
    result = client.invoke(request, "create", log=lambda *line: lines.append(line))[0].result
    if result.extra["id"]["parent"] != os.getpid():
        break
with open({str(answer)!r}, "w") as file:
    print(result.extra["id"]["parent"] != os.getpid(), result.extra["n"], lines, file=file)
"""
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": SOURCE}, timeout=SOON, check=True)
    assert answer.read_text() == "True False [('noop', 'said')]\n"
    assert wait_until(lambda: not node.host.processes(), 5)


def test_children_of_one_that_succeeds_end_with_it(node: Warm) -> None:
    node.install()
    node.warm()
    file = node.host.root / "pid"
    node.run(f"spread({str(file)!r})")
    assert wait_until(lambda: not is_running(int(file.read_text())), 5)


def test_a_grandchild_that_holds_everything_open_is_not_waited_for(node: Warm) -> None:
    node.install()
    node.warm()
    file = node.host.root / "pid"
    started = time.monotonic()
    node.run(f"spread({str(file)!r}, os.setsid)")
    assert time.monotonic() - started < SOON / 2
    pid = int(file.read_text())
    assert is_running(pid)  # it left the group, as it may
    kill(pid)
    assert wait_until(node.is_warm)


def test_a_request_of_a_megabyte_arrives_or_may_be_left_unread(node: Warm) -> None:
    node.install()
    node.warm()
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
    node.warm()
    assert node.run(labels=big).metadata == {"version": "1"}


# Whatever happens to a helper, the very next request is right


def test_a_replaced_binary_counts_at_once(node: Warm) -> None:
    path = node.install()
    node.warm()
    for number in range(2, 5):
        new = path.with_suffix(".new")
        new.write_text(node.text(VERSION=str(number)))
        new.chmod(0o755)
        new.rename(path)
        assert node.run().metadata == {"version": str(number)}
        node.warm()
        assert node.run().metadata == {"version": str(number)}
    path.write_text(node.text(VERSION="9"))
    assert node.run().metadata == {"version": "9"}
    node.warm()
    assert node.run().metadata == {"version": "9"}


def test_a_removed_binary_is_not_found(node: Warm) -> None:
    path = node.install()
    node.warm()
    path.unlink()
    assert "not found" in node.failure("")
    node.install()
    assert node.run().metadata == {"version": "1"}


@pytest.mark.parametrize("whom", ["helper", "waiting", "both", "stopped", "stopped child"])
def test_a_helper_that_is_killed_or_stopped_costs_no_request(
    node: Warm, whom: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_end, "MISSED_WITHIN", 0.2)
    monkeypatch.setattr(host_end, "END_WITHIN", 0.2)
    node.install()
    node.warm()
    helper = node.helper()
    assert wait_until(lambda: node.waiting(helper), 5)
    for pid in node.waiting(helper) if whom in ("waiting", "both") else []:
        kill(pid)
    if whom in ("helper", "both"):
        kill(helper)
    if whom == "stopped":
        os.kill(helper, signal.SIGSTOP)
    if whom == "stopped child":
        for pid in node.waiting(helper):
            os.kill(pid, signal.SIGSTOP)
    for number in range(5):
        started = time.monotonic()
        assert node.run(f"result.metadata['n'] = '{number}'", timeout=5.0).metadata["n"] == str(number)
        assert time.monotonic() - started < 3
    node.warm()


def test_without_descriptors_the_error_is_clear_and_later_all_is_well(node: Warm) -> None:
    node.install()
    answer = node.host.root / "answer"
    code = f"""
import os, resource, sys, time
from nri.client import ChainError, Client, PoolInvoker
from nri.prefork.pool.pool import Pool
from nri.config.entries import ConfigList, PluginEntry
from nri.types.v1 import Request
helpers = Pool()
def run():
    client = Client(ConfigList(plugins=[PluginEntry(type="noop")]), PoolInvoker(helpers, [{str(node.host.bin)!r}]))
    result = client.invoke(Request(state="create", id="x"), "create")[0].result
    return result.extra["id"]["parent"] != os.getpid()
def warm():
    until = time.monotonic() + 10
    while not run() and time.monotonic() < until:
        time.sleep(0.01)
    return run()
said = [warm()]
helpers.tidy()
top = max(int(fd) for fd in os.listdir("/proc/self/fd")) + 1
errors = []
for limit in range(3, top + 14):
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    try:
        run()
    except ChainError as error:
        errors.append(str(error))
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 4096))
said += [run() in (True, False), warm()]
helpers.close()
with open({str(answer)!r}, "w") as file:
    print(said, len(errors) > 0, set(errors), file=file)
"""
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": SOURCE}, timeout=SOON, check=True)
    text = answer.read_text()
    assert text.startswith("[True, True, True] True {'plugin noop: "), text
    assert "Too many open files" in text
    assert "signal" not in text


@pytest.mark.parametrize("number", ERRORS, ids=name_of)
@pytest.mark.parametrize("call", ["read", "write", "set_blocking"])
def test_a_call_that_fails_is_an_error_that_names_it_or_none_at_all(
    node: Warm, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    node.install()
    node.warm()
    node.take()
    before = kinds(open_fds())
    seen = Failing(os, call, number)
    error = ""
    with monkeypatch.context() as patch:
        patch.setattr(host_end if call == "set_blocking" else launching, "os", seen)
        try:
            if call == "set_blocking":  # made when a child is taken, and one is
                node.run()
            node.run("result.metadata['a'] = 'b'")
        except ChainError as failure:
            error = str(failure)
    assert seen.failed == 1
    # Where nobody has read the request it is given to another, or sent again.
    if call != "read" or number == errno.EAGAIN:
        assert error == ""
    else:
        said = "killed: it could not be waited for or read"
        assert error == f"plugin noop: {said}: {os.strerror(number)}"
    node.warm()
    node.take()
    assert wait_until(lambda: kinds(open_fds()) == before, 5)


def kinds(descriptors: dict[str, str]) -> list[str]:
    """What descriptors are, without what tells one pipe or socket from another."""
    return sorted(re.sub("[0-9]+", "", link) for link in descriptors.values())


# Others


def test_foreign_plugins_are_only_ever_asked_to_invoke(node: Warm) -> None:
    notes = node.host.root / "notes"
    answer = '{"plugin": "x", "version": "0.1"}'
    node.host.script("shell", f"#!/bin/sh\necho shell $1 >> {notes}\necho '{answer}'\n")
    python = f"#!{sys.executable} -IS\nimport sys\nopen({str(notes)!r}, 'a').write('python ' + sys.argv[1] + '\\n')\n"
    node.host.script("python", python + f"print('{answer}')\n")
    node.host.bin.joinpath("binary").write_bytes(Path("/bin/true").read_bytes())
    node.host.bin.joinpath("binary").chmod(0o755)
    for _ in range(5):
        node.run(type_="shell")
        node.run(type_="python")
        node.failure("", type_="binary")
        time.sleep(0.02)
    assert sorted(notes.read_text().split("\n")) == [""] + ["python invoke"] * 5 + ["shell invoke"] * 5


@pytest.mark.parametrize(
    "loads",
    ["import threading; threading.Thread(target=time.sleep, args=(9,), daemon=True).start()", "F = open(__file__)"],
)
def test_one_that_its_processes_would_share_something_of_stays_cold(node: Warm, loads: str) -> None:
    path = node.install()
    path.write_text(node.text().replace("COUNT = 0", f"COUNT = 0\n{loads}"))
    for _ in range(3):
        assert not node.is_warm()
        assert wait_until(lambda: not any(thread.name == "prefork" for thread in threading.enumerate()), 5)
    assert wait_until(lambda: not node.host.processes(), 5)


def test_a_slow_start_is_waited_out_by_none(node: Warm) -> None:
    path = node.install()
    path.write_text(node.text().replace("COUNT = 0", "COUNT = 0\nif 'prefork' in sys.argv: time.sleep(0.5)"))
    node.warm()


# Its end


def test_one_that_is_configured_as_never_has_no_helper_and_an_old_one_ends(node: Warm) -> None:
    node.install()
    node.warm()
    helper = node.helper()
    node.helpers.keep([("noop", "never")])
    assert wait_until(lambda: not is_running(helper), 5)
    for _ in range(4):
        assert not node.is_warm()
        assert wait_until(lambda: not any(thread.name == "prefork" for thread in threading.enumerate()), 5)
    assert node.host.processes() == []
    node.helpers.keep([("noop", "")])
    node.warm()


def test_those_that_are_no_longer_configured_end(node: Warm) -> None:
    for type_ in ("a", "b"):
        node.install(type_)
        node.warm(type_)
    a, b = node.helper("a"), node.helper("b")
    node.helpers.keep([("b", "")])
    assert wait_until(lambda: not is_running(a), 5)
    assert node.helper("b") == b
    node.helpers.close()
    assert wait_until(lambda: not is_running(b), 5)
    assert not node.is_warm("b")
    time.sleep(0.05)
    assert not node.is_warm("b")


def test_a_stopped_helper_ends_too(node: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_end, "END_WITHIN", 0.2)
    node.install()
    node.warm()
    helper = node.helper()
    os.kill(helper, signal.SIGSTOP)
    node.helpers.close()
    assert wait_until(lambda: not os.path.exists(f"/proc/{helper}"), 5)


def test_when_the_host_is_killed_all_ends_also_one_at_work(node: Warm) -> None:
    node.install()
    pids = node.host.root / "pids"
    code = f"""
import os, time
from nri.client import Client, PoolInvoker
from nri.prefork.pool.pool import Pool
from nri.config.entries import ConfigList, PluginEntry
from nri.types.v1 import Request
helpers = Pool()
def run(do=""):
    config = ConfigList(plugins=[PluginEntry(type="noop", conf={{"do": do}})])
    client = Client(config, PoolInvoker(helpers, [{str(node.host.bin)!r}]), timeout=100)
    result = client.invoke(Request(state="create", id="x"), "create")[0].result
    return result.extra["id"]["parent"]
while run() == os.getpid():
    time.sleep(0.01)
note = "open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{os.getppid()}}')"
run(note + "; spread({str(pids) + "2"!r}); time.sleep(1000)")
"""
    process = subprocess.Popen([sys.executable, "-c", code], env={"PYTHONPATH": SOURCE})
    try:
        assert wait_until(lambda: os.path.exists(f"{pids}2") and Path(f"{pids}2").read_text(), SOON)
    finally:
        process.kill()
        process.wait()
    gone = [*map(int, pids.read_text().split()), int(Path(f"{pids}2").read_text())]
    assert wait_until(lambda: not any(map(is_running, gone)), 5)
    assert wait_until(lambda: not node.host.processes(), 5)


# Many at once


def test_many_at_once_are_all_right(node: Warm) -> None:
    for type_ in ("a", "b"):
        node.install(type_)
        node.warm(type_)
    node.helpers.tidy()
    before = open_fds()
    wrong: list[Any] = []
    pids: list[int] = []

    def work(number: int) -> None:
        for turn in range(25):
            said = f"{number}-{turn}"
            try:
                result = node.run(f"result.metadata['n'] = {said!r}; print({said!r})", "ab"[turn % 2])
                if (
                    result.metadata["n"] != said
                    or result.plugin != "ab"[turn % 2]
                    or result.extra["id"]["count"] != 1
                ):
                    wrong.append(result)
                pids.append(result.extra["id"]["pid"])
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(pids) == 200
    assert sorted(line.split(": ")[1] for line in node.lines) == sorted(
        f"{n}-{t}" for n in range(8) for t in range(25)
    )
    node.helpers.tidy()  # as the bridge does: the last ones may have been answered at the same time
    assert wait_until(lambda: len(open_fds()) <= len(before), 5)


def test_others_do_not_wait_behind_one_that_hangs(node: Warm) -> None:
    node.install()
    node.warm()
    helper = node.helper()
    slow = threading.Thread(target=lambda: node.run("time.sleep(1.0)"))
    slow.start()
    took = []
    others = [threading.Thread(target=timed, args=(node.run, took)) for _ in range(6)]
    time.sleep(0.1)
    for other in others:
        other.start()
    for other in others:
        other.join()
    slow.join()
    assert max(took) < 0.9
    assert node.helper() == helper


def timed(what: Callable[[], object], took: list[float]) -> None:
    started = time.monotonic()
    what()
    took.append(time.monotonic() - started)


def test_one_under_way_is_let_finish_when_its_binary_is_replaced(node: Warm) -> None:
    path = node.install()
    node.warm()
    mark = node.host.root / "mark"
    results: list[Any] = []
    do = f"open({str(mark)!r}, 'w'); time.sleep(0.5)"
    thread = threading.Thread(target=lambda: results.append(node.run(do)))
    thread.start()
    assert wait_until(mark.exists, SOON)
    new = path.with_suffix(".new")
    new.write_text(node.text(VERSION="2"))
    new.chmod(0o755)
    new.rename(path)
    assert node.run().metadata == {"version": "2"}
    node.helpers.keep([])
    thread.join()
    assert [result.metadata for result in results] == [{"version": "1"}]
    assert results[0].extra["id"]["parent"] != os.getpid()


# Not for people


@pytest.mark.parametrize("stdin", ["file", "pipe", "closed", "stream"])
def test_ahead_without_a_hosts_socket_is_refused_in_one_line(node: Warm, stdin: str) -> None:
    path = node.install()
    ours, theirs = socket.socketpair()
    given: Any = {"file": subprocess.DEVNULL, "pipe": subprocess.PIPE, "stream": theirs}.get(stdin)
    command = ["sh", "-c", f"exec {path} prefork <&-"] if stdin == "closed" else [str(path), "prefork"]
    process = subprocess.Popen(command, stdin=given, stdout=-1, stderr=-1)
    out, err = process.communicate(timeout=SOON)
    ours.close()
    theirs.close()
    assert (process.returncode, out) == (2, b"")
    assert err.startswith(b"noop prefork: stdin is no connected socket: ")
    assert err.count(b"\n") == 1
