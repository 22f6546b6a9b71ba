"""Residents: seen from outside, a request to one is the same as a request to a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.client import ChainError, resident, standing
from nri.client.standing import Standing, about
from nri.config.entries import PluginEntry
from nri.doctor.trying import try_resident
from nri.process import conversation
from tests.support import scripts
from tests.support.host import Host
from tests.support.processes import has_zombie, is_running, kill, open_fds
from tests.support.resident_host import ResidentHost
from tests.support.system_faults import Failing
from tests.support.waiting import SOON, wait_until

SOURCE = str(Path(__file__).parents[3])

PLUGIN = """#!PYTHON
import sys
sys.path.insert(0, SOURCE)
import os, signal, time
from nri import skel

VERSION = "1"
COUNT = 0
FILES = []

def facts():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return {
        "argv": sys.argv[1:],
        "environment": sorted(f"{k}={v}" for k, v in os.environ.items()),
        "cwd": os.getcwd(),
        "umask": int(status["Umask"], 8),
        "ignored": status["SigIgn"], "blocked": status["SigBlk"], "caught": status["SigCgt"],
        "leads its group": os.getpgid(0) == os.getpid(),
        "same session": os.getsid(0) == os.getsid(os.getppid()),
        "inheritable": [fd for fd in range(64) if os.path.exists(f"/proc/self/fd/{fd}") and os.get_inheritable(fd)],
        "kinds": [os.readlink(f"/proc/self/fd/{fd}").split(":")[0] for fd in range(3)],
        "stdout is stderr": os.readlink("/proc/self/fd/1") == os.readlink("/proc/self/fd/2"),
        "threads": len(os.listdir("/proc/self/task")),
        "handler": str(signal.getsignal(signal.SIGINT)),
        "main": __name__,
    }

def spread(path, prepare=lambda: None):
    ready, done = os.pipe()
    if os.fork() == 0:
        prepare()
        with open(path, "w") as file:
            file.write(str(os.getpid()))
        os.close(ready); os.close(done)
        time.sleep(1000)
    os.close(done)
    os.read(ready, 1)
    os.close(ready)

class Scripted(skel.Plugin):
    type = "TYPE"
    resident = True
    version = "3"
    ATTRIBUTES

    def invoke(self, request):
        global COUNT
        COUNT += 1
        result = request.new_result(self.type, metadata={"version": VERSION})
        result.extra["id"] = {"pid": os.getpid(), "count": COUNT}
        exec((request.conf or {}).get("do", ""), globals(), {"request": request, "result": result, "plugin": self})
        return result

if __name__ == "__main__":
    skel.main(Scripted())
"""


class ResidentNode(ResidentHost):
    """A host whose plugins are residents, and do what a test tells them to."""

    def __init__(self, host: Host) -> None:
        super().__init__(host, "noop")
        self.lines: list[str] = []

    def text(
        self, type_: str = "noop", *, loads: str = "", attributes: str = "pass", version: str = "1"
    ) -> str:
        """Return the plugin's text.

        :param loads: what it does when it is loaded.
        :param attributes: more attributes of its class.
        """
        text = (
            PLUGIN.replace("PYTHON", sys.executable)
            .replace("SOURCE", repr(SOURCE))
            .replace("TYPE", type_)
        )
        text = text.replace("ATTRIBUTES", attributes).replace(
            'VERSION = "1"', f"VERSION = {version!r}"
        )
        return text.replace("COUNT = 0", f"COUNT = 0\n{loads}", 1)

    def install(self, type_: str = "noop", **changes: str) -> Path:
        return self.put(type_, self.text(type_, **changes))

    def make_ready(self, type_: str = "noop") -> int:
        """Wait until the resident is ready, and return its process id."""

        def is_ready() -> bool:
            self.run(type_=type_)
            self.renew()
            return self.standing(type_).state == "ready"

        assert wait_until(is_ready)
        self.lines.clear()
        return int(self.run(type_=type_).extra["id"]["pid"])

    def run(self, do: str = "", type_: str = "noop", **options: Any) -> Any:
        """Send a request, and return the result."""
        options.setdefault("log", lambda name, line: self.lines.append(f"{name}: {line}"))
        return self.ask({"do": do}, type_, **options)

    def failure(self, do: str, **options: Any) -> str:
        with pytest.raises(ChainError) as caught:
            self.run(do, **options)
        return str(caught.value)


@pytest.fixture
def node(host: Host, monkeypatch: pytest.MonkeyPatch) -> Iterator[ResidentNode]:
    monkeypatch.setattr(standing, "is_built", scripts.is_plugin)  # scripts, too
    for name in ("READY_WITHIN", "BEGUN_WITHIN"):  # a machine may be busy
        monkeypatch.setattr(resident, name, SOON)
    monkeypatch.setattr(resident, "PAUSE", 0.01)
    monkeypatch.setattr(resident, "LONGEST_PAUSE", 0.02)
    node = ResidentNode(host)
    node.install()
    node.keep("noop")
    yield node
    node.residents.close()
    assert wait_until(
        lambda: not any(thread.name == "resident" for thread in threading.enumerate())
    )
    node.residents.close()
    assert wait_until(lambda: not host.processes())
    assert wait_until(lambda: not has_zombie())


def test_one_process_answers_one_request_after_the_other(node: ResidentNode) -> None:
    answers = [node.run(f"print({number})").extra["id"] for number in range(20)]
    assert {each["pid"] for each in answers} == {node.host.processes()[0]}
    assert [each["count"] for each in answers] == list(range(1, 21))
    assert node.lines == [f"noop: {number}" for number in range(20)]
    assert node.standing() == Standing("ready", build="3")


def test_each_request_has_a_plugin_of_its_own(node: ResidentNode) -> None:
    do = "result.extra['seen'] = plugin.__dict__.get('seen', 0); plugin.seen = 1"
    assert [node.run(do).extra["seen"] for _ in range(3)] == [0, 0, 0]


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
    "result.metadata = {1: object()}",
    "import atexit; atexit.register(os._exit, 3)",
    "import atexit; atexit.register(print, 'at the end'); atexit.register(lambda: 1 / 0)",
    "import threading; threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()",
    "import concurrent.futures as f; f.ThreadPoolExecutor(1).submit(lambda: (time.sleep(0.1), print(1)))",
    "import tempfile; global D; D = tempfile.TemporaryDirectory()",
    "global F; F = open(2, 'w', closefd=False); F.write('in a buffer')",
    "global F; F = open('/dev/null', 'w')",
    "os.kill(os.getpid(), 11)",
    "os.close(2); os.close(1)",
    "os.closerange(3, 100)",
    "result.extra['x'] = 'y' * 300_000",
]


def outcome(node: ResidentNode, do: str, *, spawned: bool) -> dict[str, Any]:
    """Return all of a request that can be seen, without what differs between any two processes."""
    node.lines.clear()
    seen: list[Any] = []
    found: dict[str, Any] = {}
    try:
        node.run(do, spawned=spawned, on_step=seen.append)
    except ChainError as error:
        found["error"] = str(error).partition("; the end of its stderr: ")[0]
    (step,) = seen
    try:
        document = json.loads(step.stdout)
        document.pop("id", None)
        found["stdout"] = document
    except ValueError:
        found["stdout"] = re.sub(rb'"id":{[^}]*}', b"", step.stdout)
    # A traceback's places.
    found["lines"] = [line for line in node.lines if not line.startswith("noop:   ")]
    return json.loads(re.sub(r"0x[0-9a-f]+", "0x", json.dumps(found, default=repr)))  # type: ignore[no-any-return]


@pytest.mark.parametrize("do", SAME, ids=range(len(SAME)))
def test_request_is_answered_as_by_a_process_of_its_own(node: ResidentNode, do: str) -> None:
    spawned = outcome(node, do, spawned=True)
    for _ in range(2):
        node.make_ready()
        assert outcome(node, do, spawned=False) == spawned


CHANGES = {
    "umask": "os.umask(0o77)",
    "directory": "os.chdir('/proc')",
    "environment": "os.environ['A'] = 'b'",
    "locale": (
        "import locale; own = locale.setlocale(locale.LC_CTYPE)\n"
        "locale.setlocale(locale.LC_CTYPE, 'C.UTF-8' if own == 'C' else 'C')"
    ),
    "sys.path": "import sys; sys.path.append('/srv')",
    "SigIgn": "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "SigBlk": "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])",
    "limits": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))",
    "timers": "signal.setitimer(signal.ITIMER_VIRTUAL, 1000)",
    "descriptors": (
        "links = {n: os.path.realpath(f'/proc/self/fd/{n}') for n in range(3, 20)}\n"
        "zero = os.open('/dev/zero', os.O_RDONLY)\n"
        "for n in [n for n, link in links.items() if link == '/dev/null']: os.dup2(zero, n)\n"
        "os.close(zero)"
    ),
    "priority": "os.nice(3)",
    "scheduling": "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))",
    "oom_score_adj": "open('/proc/self/oom_score_adj', 'w').write('100')",
    "NoNewPrivs": "import ctypes; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)",
    "putenv": "os.putenv('A', 'b')",
    "unsetenv": "os.unsetenv('PATH')",
    "personality": "import ctypes; ctypes.CDLL(None).personality(0x0040000)",
    "timer slack": "import ctypes; ctypes.CDLL(None).prctl(29, 100_000, 0, 0, 0)",
    "locked memory": "import ctypes; ctypes.CDLL(None).mlockall(1)",
    "memory policy": (
        "import ctypes; nodes = ctypes.c_ulong(1); assert os.path.exists('/proc/self/numa_maps')\n"
        "assert ctypes.CDLL(None).syscall(238, 3, ctypes.byref(nodes), 64) == 0"
    ),
    "a patched module": "os.listdir = os.scandir",
    "a patched class": "import nri.skel.plugin as p; p.Refusal = ValueError",
    "memory": "global M; M = bytearray(os.urandom(1 << 16) * 1000)",
    "a thread": "import _thread; _thread.start_new_thread(time.sleep, (1000,))",
    "a child": "spread('/dev/null')",
    "an open file": "FILES.append(open('/dev/null'))",
    "stderr": "sys.stderr = sys.stdin",
    "a handler": "import logging; logging.getLogger().addHandler(logging.StreamHandler())",
}


@pytest.mark.parametrize("do", CHANGES.values(), ids=CHANGES)
def test_process_that_a_request_has_changed_answers_no_other(node: ResidentNode, do: str) -> None:
    before = node.make_ready()
    assert node.run(do).extra["id"]["pid"] == before
    after = node.run().extra["id"]
    assert (after["pid"] != before, after["count"]) == (True, 1)
    assert wait_until(lambda: not is_running(before))
    assert node.make_ready() != before


@pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="one CPU: a process cannot be kept from another"
)
def test_cpus_that_another_program_changes_end_no_resident(node: ResidentNode) -> None:
    """konfine moves the container of its own bridge."""
    pid = node.make_ready()
    for cpus in ({min(os.sched_getaffinity(0))}, os.sched_getaffinity(0)):
        os.sched_setaffinity(pid, cpus)
        assert node.run().extra["id"]["pid"] == pid
        assert node.make_ready() == pid


def test_reason_of_a_change_is_logged_once(
    node: ResidentNode, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        node.make_ready()
        node.run("os.umask(0o77)")
    node.residents.tidy()
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert (
        line
        == "noop is started for each request: a request changes its process: Umask: 0022, then 0077"
    )


LATE = """
links = {fd: os.path.realpath(f"/proc/self/fd/{fd}") for fd in range(3, 50)}
out = [fd for fd, link in links.items() if "pipe:" in link]
child = os.fork()
while child and os.getsid(child) != child:
    time.sleep(0.001)
if child == 0:
    os.setsid()
    while True:
        for fd in (1, 2, *out):
            try:
                os.write(fd, b'{"late": 1}\\n')
            except OSError:
                pass
        time.sleep(0.005)
"""


def test_late_output_of_a_child_is_in_no_other_result(node: ResidentNode) -> None:
    node.make_ready()
    outcome(node, LATE, spawned=False)
    (late,) = [pid for pid in node.host.processes() if os.getsid(pid) == pid]
    node.make_ready()
    for _ in range(100):
        assert set(node.run().extra) == {"id"}
    assert node.lines == []
    assert is_running(late)
    kill(late)


# A process that ends, hangs or is stopped


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_killed_or_stopped_resident_costs_no_request(
    node: ResidentNode, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    for name in ("READY_WITHIN", "BEGUN_WITHIN", "STUCK_AFTER"):
        monkeypatch.setattr(resident, name, 0.1)
    before = node.make_ready()
    (file,) = node.residents._files.values()  # noqa: SLF001 - whether it is ready again is not said
    assert file.resident is not None
    assert wait_until(file.resident.is_ready)
    os.kill(before, number)
    for turn in range(3):
        assert node.run(f"result.metadata['n'] = '{turn}'").metadata["n"] == str(turn)
    assert node.make_ready() != before


@pytest.mark.parametrize("do", ["os.kill(os.getpid(), 9)", "os._exit(3)"])
def test_request_that_was_begun_is_not_run_again(node: ResidentNode, do: str) -> None:
    note = node.host.root / "note"
    node.make_ready()
    assert node.failure(f"open({str(note)!r}, 'a').write('x'); {do}").startswith("plugin noop: ")
    assert note.read_text() == "x"


def test_one_that_hangs_is_killed_with_its_group_and_is_replaced(node: ResidentNode) -> None:
    before, file = node.make_ready(), node.host.root / "pid"
    do = f"spread({str(file)!r})\nfor n in (15, 1, 2): signal.signal(n, signal.SIG_IGN)\ntime.sleep(1000)"
    assert "killed: no result after 1 s" in node.failure(do, timeout=1)
    assert node.run("result.metadata['a'] = 'b'").metadata["a"] == "b"
    assert wait_until(lambda: not is_running(int(file.read_text())))
    assert node.make_ready() != before


def test_flood_is_bounded(node: ResidentNode) -> None:
    node.make_ready()
    assert "1048576" in node.failure("result.extra['x'] = 'y' * 5_000_000")
    node.make_ready()
    assert "no result after" in node.failure(
        "while True: os.write(2, b'x' * 4095 + b'\\n')", timeout=0.5
    )
    assert sum(map(len, node.lines)) < 2_000_000
    assert node.run().metadata == {"version": "1"}


def test_one_that_talks_to_its_host_without_end_is_killed_at_its_deadline(
    node: ResidentNode,
) -> None:
    node.make_ready()
    flood = """
controls = [int(fd) for fd in os.listdir("/proc/self/fd") if fd > "2"]
controls = [fd for fd in controls if os.path.exists(f"/proc/self/fd/{fd}")]
controls = [fd for fd in controls if os.readlink(f"/proc/self/fd/{fd}").startswith("socket")]
for _ in range(4):
    os.fork()
while True:
    os.write(controls[0], b"ready")
"""
    assert "killed: no result after 0.5 s" in node.failure(flood, timeout=0.5)
    assert node.run().metadata == {"version": "1"}


SAY = """
controls = [int(fd) for fd in os.listdir("/proc/self/fd") if fd > "2"]
controls = [fd for fd in controls if os.path.exists(f"/proc/self/fd/{fd}")]
controls = [fd for fd in controls if os.readlink(f"/proc/self/fd/{fd}").startswith("socket")]
os.write(controls[0], WORDS)
time.sleep(1000)
"""


@pytest.mark.parametrize("status", ["256", "-1", "x", "", "1000000000000", "0\x1b[2J"])
def test_status_that_no_process_has_is_a_protocol_error(node: ResidentNode, status: str) -> None:
    pid = node.make_ready()
    failure = node.failure(SAY.replace("WORDS", repr(f"ended {status}".encode())))
    assert "it could not be waited for or read: it said 'ended" in failure
    assert failure.endswith("expected a status from 0 to 255")
    assert failure.isprintable()
    assert wait_until(lambda: not is_running(pid))


def test_reason_of_a_resident_has_no_control_characters(
    node: ResidentNode, caplog: pytest.LogCaptureFixture
) -> None:
    node.make_ready()
    node.failure(SAY.replace("WORDS", repr(b"changed by \x1b[2J and \xff")), timeout=0.5)
    node.residents.tidy()
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert (
        line
        == "noop is started for each request: a request changes its process: by \\x1b[2J and \\xff"
    )


def test_request_of_a_megabyte_arrives(node: ResidentNode) -> None:
    do = "result.extra['n'] = len(request.labels['text'])"
    before = node.make_ready()
    for _ in range(2):
        result = node.run(do, labels={"text": "x" * 1_000_000})
        assert (result.extra["n"], result.extra["id"]["pid"]) == (1_000_000, before)


def test_process_ends_after_a_number_of_requests(node: ResidentNode) -> None:
    node.install(loads="import nri.skel.resident; nri.skel.resident.MOST = 15")
    before = node.make_ready()
    pids = {node.run().extra["id"]["pid"] for _ in range(20)}
    assert before in pids
    assert len(pids) > 1
    assert node.make_ready() != before
    assert node.standing().reason == ""


# Which plugins are residents


def test_replaced_or_removed_executable_counts_at_once(node: ResidentNode) -> None:
    path = node.install()
    node.make_ready()
    node.install(version="2")
    assert node.run().metadata == {"version": "2"}
    before = node.make_ready()
    path.write_text(node.text(version="3"))
    assert node.run().metadata == {"version": "3"}
    assert node.make_ready() != before
    path.unlink()
    assert "not found" in node.failure("")
    node.install()
    assert node.run().metadata == {"version": "1"}


def test_busy_resident_keeps_no_request_waiting(node: ResidentNode) -> None:
    before, begun, go = node.make_ready(), node.host.root / "begun", node.host.root / "go"
    do = f"open({str(begun)!r}, 'w')\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)"
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(node.run(do)))
    thread.start()
    assert wait_until(begun.exists)
    for _ in range(3):
        assert node.run().extra["id"]["pid"] != before
    node.install(version="2")
    assert node.run().metadata == {"version": "2"}
    node.residents.keep([])
    go.touch()
    thread.join()
    assert [result.metadata for result in results] == [{"version": "1"}]
    node.residents.tidy()
    assert not is_running(before)


def test_unwanted_residents_are_started_for_each_request(node: ResidentNode) -> None:
    node.install("other")
    node.keep("noop", "other")
    pids = {type_: node.make_ready(type_) for type_ in ("noop", "other")}
    entries = [PluginEntry(type=type_) for type_ in ("noop", "other")]
    node.residents.keep([*entries, PluginEntry(type="other", resident=False)])
    assert not is_running(pids["other"])
    assert node.run(type_="other").extra["id"]["count"] == 1
    node.residents.prepare(SOON)
    assert node.standing("other").state == "off"
    assert node.standing("other").reason == "its entry or the options say so"
    assert node.run().extra["id"]["pid"] == pids["noop"]


def test_foreign_plugins_and_scripts_are_only_asked_to_invoke(
    node: ResidentNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = node.host.root / "notes"
    node.host.script(
        "shell",
        f'#!/bin/sh\necho shell $1 >> {notes}\necho \'{{"plugin": "x", "version": "0.1"}}\'\n',
    )
    node.keep("shell")
    for _ in range(3):
        node.run(type_="shell")
        node.keep("shell")
    assert notes.read_text().splitlines() == ["shell invoke"] * 3
    assert node.standing("shell") == Standing("off", "it was not built with nri build")
    path = str(node.install())
    monkeypatch.undo()
    assert about(path, "noop") == Standing("off", "it was not built with nri build")
    assert try_resident(path, "noop") == ""


FOREIGN = """#!/bin/sh
cat >> ROOT/stdin.$1
if [ "$1" = version ]; then
    echo '{"type": "shell", "nri": "0.1", "version": "7", "states": STATES}'
else
    echo '{"plugin": "shell", "version": "0.1"}'
fi
"""


@pytest.mark.parametrize(
    ("states", "acts"),
    [
        ('["create"]', [True, False, False]),
        ('["setup", "delete"]', [False, True, True]),
        ('["create", "no-state"]', [True, True, True]),
        ("null", [True, True, True]),
        ("[]", [True, True, True]),
    ],
)
def test_states_that_a_foreign_plugin_names_are_those_that_it_is_run_for(
    node: ResidentNode, states: str, acts: list[bool]
) -> None:
    text = FOREIGN.replace("ROOT", str(node.host.root)).replace("STATES", states)
    node.host.script("shell", text)
    node.keep("shell")
    asked = ["create", "delete", "setup"]
    assert [node.residents.acts_on("shell", state) for state in asked] == acts
    assert node.standing("shell").build == "7"
    for _ in range(3):
        node.keep("shell")
    # What it gets for `version`, once, means nothing to a plugin that takes any verb for invoke.
    given = json.loads((node.host.root / "stdin.version").read_text())
    assert (given["state"], given["id"]) == ("nri-check", "nri-check")


def test_answer_of_a_program_that_takes_version_for_invoke_does_not_count(
    node: ResidentNode,
) -> None:
    answer = '{"plugin": "x", "version": "0.1", "states": ["create"]}'
    node.host.script("shell", f"#!/bin/sh\necho '{answer}'\n")
    node.keep("shell")
    assert node.residents.acts_on("shell", "delete")
    assert node.standing("shell") == Standing("off", "it was not built with nri build")


@pytest.mark.parametrize("answer", ['"type": "other"', '"type": "shell"'])
def test_answer_of_another_plugin_or_a_failure_does_not_count(
    node: ResidentNode, answer: str
) -> None:
    document = f'{{{answer}, "nri": "0.1", "states": ["create"]}}'
    status = 0 if "other" in answer else 3
    node.host.script("shell", f"#!/bin/sh\necho '{document}'\nexit {status}\n")
    node.keep("shell")
    assert node.residents.acts_on("shell", "delete")


def test_no_event_waits_for_what_a_plugin_says_of_itself(node: ResidentNode) -> None:
    notes = node.host.root / "notes"
    says = '{"type": "shell", "nri": "0.1", "states": ["create"], "createSuffices": true}'
    text = f"#!/bin/sh\necho $1 >> {notes}\necho '{says}'\n"
    node.host.script("shell", text)
    assert not node.residents.create_suffices("shell")
    assert not notes.exists()
    node.keep("shell")
    assert node.residents.create_suffices("shell")
    assert notes.read_text() == "version\n"


def test_plugins_that_do_not_opt_in_or_answer_are_no_residents(node: ResidentNode) -> None:
    path = str(node.install(attributes="resident = False"))
    assert about(path, "noop") == Standing("off", "it does not opt in (resident = True)", "3")
    assert try_resident(path, "noop") == ""
    node.host.script(
        "old",
        '#!/bin/sh\n# nri.skel\necho \'{"type": "old", "nri": "0.1", "version": "0.7", "resident": 7}\'\n',
    )
    reason = "its nri.skel has another version of serve: found the number 7, expected 1"
    assert about(str(node.host.bin / "old"), "old") == Standing("off", reason, "0.7")
    node.host.script("mute", "#!/bin/sh\n# nri.skel\necho nothing to say >&2\n")
    standing = about(str(node.host.bin / "mute"), "mute")
    assert standing == Standing("failed", "it does not answer 'version': nothing to say")


UNFIT = {
    "ends": (
        "if 'serve' in sys.argv: sys.exit('no licence')",
        "it ends while it is loaded: no licence",
    ),
    "hangs": ("import time\nif 'serve' in sys.argv: time.sleep(1000)", "it does not become ready"),
    "talks": (
        "import os\nif 'serve' in sys.argv:\n    os.fork(), os.fork()\n    while True: os.write(0, b'word')",
        "it does not become ready",
    ),
    "no module": (
        "import nri.skel\nnri.skel.Plugin.uses = ('nothing.of.it',)",
        "ModuleNotFoundError: No module",
    ),
    "no copy": ("import nri.skel, threading\nnri.skel.Plugin.lock = None", ""),
}


@pytest.mark.parametrize(("loads", "reason"), UNFIT.values(), ids=UNFIT)
def test_no_resident_if_unfit(
    node: ResidentNode, monkeypatch: pytest.MonkeyPatch, loads: str, reason: str
) -> None:
    monkeypatch.setattr(resident, "ANSWER_WITHIN", 2.0 if reason.endswith("ready") else SOON)
    monkeypatch.setattr(standing, "ANSWER_WITHIN", 2.0 if reason.endswith("ready") else SOON)
    node.install(loads=loads)
    node.run()
    node.keep("noop")
    known = node.standing()
    assert (known.state == "failed", known.reason[: len(reason)]) == (bool(reason), reason)
    assert [node.run().extra["id"]["count"] for _ in range(2)] == ([1, 1] if reason else [1, 2])


def test_serve_on_a_terminal_says_what_it_is_for(node: ResidentNode) -> None:
    path = node.install()
    ran = subprocess.run(
        [path, "serve"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("noop serve: stdin is no connected socket: ")
    path = node.install(attributes="resident = False")
    ran = subprocess.run(
        [path, "serve"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (2, "noop serve: class Scripted is not resident\n")


# Short of something


@pytest.mark.parametrize("call", ["read", "write"])
def test_call_that_fails_is_an_error_that_names_it(
    node: ResidentNode, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    node.make_ready()
    with monkeypatch.context() as patch:
        patch.setattr(conversation, "os", Failing(os, call, 5))
        error = node.failure("")
    assert (
        "Input/output error" in error
        or "no valid result" in error
        or "no request" in error
        or "EOF" in error
    )
    assert node.run().metadata == {"version": "1"}


def test_many_threads_at_once_are_all_answered(node: ResidentNode) -> None:
    node.install("other")
    node.keep("noop", "other")
    node.residents.tidy()
    before = open_fds()
    answers: list[tuple[str, str]] = []

    def work(number: int) -> None:
        for turn in range(10):
            text = f"{number}-{turn}"
            result = node.run(f"result.metadata['n'] = {text!r}", ("noop", "other")[turn % 2])
            answers.append((result.metadata["n"], result.plugin))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == sorted(
        (f"{n}-{t}", ("noop", "other")[t % 2]) for n in range(4) for t in range(10)
    )
    node.residents.tidy()
    assert wait_until(lambda: len(open_fds()) <= len(before))
