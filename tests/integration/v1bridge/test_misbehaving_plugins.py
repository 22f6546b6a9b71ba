"""Plugins that misbehave, each way that they are started: what the runtime is told; that nothing is left of it."""

from __future__ import annotations

import errno
import os
import re
import shutil
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from nri.process import conversation, launch, wait
from nri.stub.session import ANSWER_EARLY
from nri.v1bridge import served as module
from tests.integration.v1bridge.site import Site
from tests.support.processes import kill
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.host import Host

SHORT = 2.0
"""Seconds that a real runtime gives the bridge."""

MARGIN = 1.0
"""Of these; more than in earnest, so that a machine that is busy with other tests is not what is tested."""

ANY = ("cold", "warm", "foreign", "prestarted")
BUILT = ("cold", "warm")
FOREIGN = ("foreign", "prestarted")

CLEAN = b'{"plugin": "rude", "version": "0.1", "error": ""}'
FLOOD = "x" * 65536
SPREAD = """
ready, done = os.pipe()
if os.fork() == 0:
    {prepare}
    note("{root}/child", str(os.getpid()))
    os.close(ready); os.close(done)
    time.sleep(1000)
os.close(done)
os.read(ready, 1)
os.close(ready)
"""


class Case(NamedTuple):
    """What a plugin does, started in these ways, and the error, as a pattern; "" where it is none."""

    do: str
    ways: tuple[str, ...]
    error: str


KILLED = r"killed: no result after [01](\.\d+)? s"
NOTHING = "no valid result: it wrote nothing to stdout, expected a result"
TOO_LONG = "killed: it wrote more than 1048576 bytes to stdout, expected one result"

CASES = {
    "hangs": Case("time.sleep(1000)", ANY, KILLED),
    "hangs and ignores what it can": Case(
        "for n in (1, 2, 3, 13, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: time.sleep(1000)", ANY, KILLED
    ),
    "is stopped": Case("os.kill(os.getpid(), signal.SIGSTOP)", ANY, KILLED),
    "closes all that is open and hangs": Case("os.closerange(0, 1000)\ntime.sleep(1000)", ANY, KILLED),
    "closes all that is open and exits": Case("os.closerange(0, 1000)\nos._exit(0)", ANY, NOTHING),
    "hangs in a thread when it is done": Case(
        "import threading\nthreading.Thread(target=time.sleep, args=(1000,)).start()", ANY, KILLED
    ),
    "hangs at its exit": Case("import atexit\natexit.register(time.sleep, 1000)", ANY, KILLED),
    "writes its result and hangs": Case(f"say({CLEAN!r}); time.sleep(1000)", FOREIGN, KILLED),
    "leaves its group and hangs": Case(
        "pid = os.fork() or time.sleep(1000)\nos.setpgid(pid, pid)\nos.setpgid(0, pid)\nos.kill(pid, 9)\n"
        "time.sleep(1000)",
        ANY,
        KILLED,
    ),
    "kills its server": Case("os.getppid() == {host} or os.kill(os.getppid(), signal.SIGKILL)", ("warm",), ""),
    "stops its server": Case("os.getppid() == {host} or os.kill(os.getppid(), signal.SIGSTOP)", ("warm",), ""),
    "crashes": Case("os.kill(os.getpid(), signal.SIGSEGV)", ANY, f"{NOTHING}; ended by signal 11"),
    "is killed": Case("os.kill(os.getpid(), signal.SIGKILL)", ANY, f"{NOTHING}; ended by signal 9"),
    "exits without a result": Case("os._exit(3)", ANY, f"{NOTHING}; exit status 3"),
    "exits with 0 without a result": Case("os._exit(0)", ANY, NOTHING),
    "raises": Case("raise RuntimeError('no such device')", ANY, ".*no such device"),
    "eats memory": Case(
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))\nbytearray(1 << 30)",
        ANY,
        ".*MemoryError",
    ),
    "writes 8 MB of a result": Case("result.metadata['x'] = 'x' * (8 << 20)", BUILT, TOO_LONG),
    "says that it is another": Case("result = result.replace(plugin='konfine')", BUILT, ""),
    "says that it is another, by hand": Case(
        f"say({CLEAN!r}.replace(b'rude', b'konfine')); os._exit(0)", FOREIGN, ""
    ),
    "is clean and exits with 3": Case(
        f"say({CLEAN!r}); os._exit(3)", FOREIGN, "exit status 3, although it wrote a result without error"
    ),
    "writes half a result": Case(
        f"say({CLEAN!r}[:-9]); os._exit(0)", FOREIGN, "no valid result: line 1 column 38: unterminated string"
    ),
    "writes 100 MB": Case("for _ in range(1600): say(b'x' * 65536)", FOREIGN, TOO_LONG),
    "writes no UTF-8": Case(r"say(b'\xff\xfe{}'); os._exit(0)", FOREIGN, r"no valid result: .*"),
    "writes no UTF-8 in a string": Case(
        r"""say(b'{"plugin": "rude", "version": "0.1", "metadata": {"x": "\xff"}}'); os._exit(0)""", FOREIGN, ""
    ),
    "writes something before its result": Case("say(b'ready!')", FOREIGN, "no valid result: .*: ready!{"),
    "writes something after its result": Case(
        f"say({CLEAN!r} + b'bye'); os._exit(0)", FOREIGN, r"no valid result: .*bye"
    ),
    "forks and answers twice": Case(
        "pid = os.fork()\nif pid: os.waitpid(pid, 0)", BUILT, r"no valid result: .*\}\\n\{.*"
    ),
    "forks and answers twice, the first time with an error": Case(
        "pid = os.fork()\nif pid: os.waitpid(pid, 0)\nelse: raise RuntimeError('no such device')",
        BUILT,
        r"no valid result: .*\}\\n\{.*",
    ),
    "forks, and only the second process answers": Case(
        "pid = os.fork()\nif pid: os.waitpid(pid, 0); os._exit(0)", BUILT, ""
    ),
    "answers past nri.skel": Case(
        f"for fd in range(3, 20):\n    try: os.write(fd, {CLEAN!r})\n    except OSError: pass",
        BUILT,
        "(no valid result: .*|ended by signal 9, although it wrote a result without error)",
    ),
    "answers twice by hand": Case(f"say({CLEAN!r} + {CLEAN!r}); os._exit(0)", FOREIGN, r"no valid result: .*\}\{.*"),
    "floods stderr": Case(f"for _ in range(100): os.write(2, {FLOOD!r}.encode() + b'\\n')", ANY, ""),
    "leaves a child that holds all open": Case(SPREAD.replace("{prepare}", "pass"), ANY, ""),
}


@pytest.fixture
def sites() -> Iterator[Callable[..., Site]]:
    """Makes a site; it is closed after the test."""
    opened: list[Site] = []

    def make(host: Host, way: str, **options: Any) -> Site:
        opened.append(Site(host, way, **options))
        return opened[-1]

    yield make
    for site in opened:
        site.close()


@pytest.mark.parametrize(("name", "way"), [(name, way) for name, case in CASES.items() for way in case.ways])
def test_one_that_misbehaves_is_named_leaves_nothing_and_the_next_request_is_unharmed(
    host: Host, sites: Callable[..., Site], name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    monkeypatch.setattr(module, "MARGIN", MARGIN)
    site = sites(host, way, timeout=SHORT if case.error == KILLED else SOON)
    for attempt in range(20):  # a busy machine may have a plugin started as ever, which is not what is tested
        ready = site.make_ready()
        site.configure(case.do.replace("{root}", str(host.root)).replace("{host}", str(os.getpid())))
        error = site.start()
        assert site.keeps_the_bridge(), f"attempt {attempt}"
        if not ready or site.served_by() in ready:
            break
    else:
        pytest.fail("no process that waited has ever been asked")
    if case.error:
        assert re.search(f"plugin rude: {case.error}", error), error
    else:
        assert error == ""
    gone = [site.served_by(), *([int((host.root / "child").read_text())] if "child" in case.do else [])]
    assert wait_until(lambda: not [pid for pid in host.processes() if pid in gone])
    site.configure("note(NOTES, 'well')".replace("NOTES", repr(str(host.root / "well"))))
    assert site.start() == ""
    assert (host.root / "well").read_text() == "well\n"


@pytest.mark.parametrize("way", ["foreign", "prestarted"])
def test_one_that_closes_its_stdin_unread_may_while_a_megabyte_is_sent(
    host: Host, sites: Callable[..., Site], way: str
) -> None:
    site = sites(host, way, reads=False)
    for _ in range(5):
        assert site.start(annotations={"large": "x" * (1 << 20)}) == ""
    assert site.keeps_the_bridge()


def test_what_the_bridge_keeps_of_its_time_is_enough_to_wait_for_one_that_was_killed() -> None:
    assert wait.REAP_LATE < module.MARGIN - ANSWER_EARLY


@pytest.mark.parametrize("way", ANY)
def test_a_killed_one_that_the_kernel_does_not_let_go_delays_no_answer_and_is_reaped_later(
    host: Host, sites: Callable[..., Site], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one in an uninterruptible call: here it is not killed at all."""
    monkeypatch.setattr(module, "MARGIN", wait.REAP_WITHIN / 2)
    site = sites(host, way, timeout=2 * wait.REAP_WITHIN)
    site.make_ready()
    with monkeypatch.context() as patched:
        patched.setattr(conversation.Conversation, "_kill", lambda _self: None)
        site.configure("time.sleep(1000)", failure_policy="ignore")
        assert site.start() == ""
        assert site.keeps_the_bridge()
    stuck = site.served_by()
    if way != "warm":  # its server is replaced, and kills once more what it has made
        assert stuck in host.processes()
    kill(stuck)
    site.configure()
    assert site.start() == ""
    assert wait_until(lambda: not os.path.exists(f"/proc/{stuck}"))


# Files


def remove(path: Path) -> None:
    path.unlink()


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def take_permission(path: Path) -> None:
    path.chmod(0o644)


def break_interpreter(path: Path) -> None:
    path.write_text("#!/nowhere/python\n")


def forget_interpreter(path: Path) -> None:
    path.write_text("print('hello')\n")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def link_to_nothing(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


@pytest.mark.parametrize("way", ANY)
@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (remove, "not found: no such executable in"),
        (make_directory, "not run: .* is a directory; expected an executable file"),
        (take_permission, r"not run: .* is not executable \(mode 0644\); expected one like 0755"),
        (break_interpreter, "cannot be started: .*: its interpreter '.*' does not exist"),
        (forget_interpreter, "cannot be started: .*Exec format error; expected a program for this machine"),
        (empty, "cannot be started: .*Exec format error; expected a program for this machine"),
        (link_to_nothing, "not run: .* is a link to nowhere, which does not exist"),
    ],
)
def test_a_file_that_cannot_be_run_is_named_at_once_and_a_good_one_serves_the_next_request(
    host: Host, sites: Callable[..., Site], way: str, spoil: Callable[[Path], None], error: str
) -> None:
    site = sites(host, way)
    site.make_ready()
    path = host.bin / "rude"
    spoil(path)
    for _ in range(2):
        assert re.search(f"plugin rude: {error}", found := site.start()), found
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    site.install()
    assert site.start() == ""
    assert site.keeps_the_bridge()
    site.make_ready()


def runs_what_is_written(program: Path) -> bool:
    try:
        pid = os.posix_spawn(program, [program.name, "-c", ":"], {})
    except OSError as error:
        return error.errno != errno.ETXTBSY
    os.waitpid(pid, 0)
    return True


@pytest.mark.parametrize("way", ANY)
def test_a_file_that_is_being_written_is_waited_for(
    host: Host, sites: Callable[..., Site], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = sites(host, way)
    site.make_ready()
    path = host.bin / "rude"
    shutil.copy2("/bin/sh", host.root / "sh")
    path.write_text(f"#!{host.root}/sh\ncat >/dev/null\necho '{{}}'\n")
    errors = []
    is_busy = threading.Event()

    def sleep(seconds: float) -> None:
        is_busy.set()
        time.sleep(seconds)

    monkeypatch.setattr(launch, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    with (host.root / "sh").open("ab"):  # the interpreter is what the kernel finds busy
        if runs_what_is_written(host.root / "sh"):
            pytest.skip("needs a kernel that does not run what is being written (not Linux 6.11 and 6.12)")
        thread = threading.Thread(target=lambda: errors.append(site.start()))
        thread.start()
        assert is_busy.wait(SOON)
        assert errors == []
    thread.join(SOON)
    assert errors == [""]


@pytest.mark.parametrize("way", ANY)
def test_one_that_is_replaced_while_it_works_ends_as_it_is_and_the_next_is_the_new_one(
    host: Host, sites: Callable[..., Site], way: str
) -> None:
    site = sites(host, way)
    site.make_ready()
    site.configure(
        f"note({str(host.root / 'begun')!r}, '')\n"
        f"while not os.path.exists({str(host.root / 'go')!r}): time.sleep(0.01)\n"
        f"note({str(host.root / 'old')!r}, 'ended')"
    )
    errors = []
    thread = threading.Thread(target=lambda: errors.append(site.start()))
    thread.start()
    assert wait_until((host.root / "begun").exists)
    new = host.root / "new"
    new.write_text(f"#!/bin/sh\ncat >/dev/null\necho new >> {host.root}/new-ran\necho '{{}}'\n")
    new.chmod(0o755)
    new.rename(host.bin / "rude")
    (host.root / "go").touch()
    thread.join(SOON)
    assert errors == [""]
    assert (host.root / "old").read_text() == "ended\n"
    assert site.start() == ""
    assert (host.root / "new-ran").read_text() == "new\n"
