"""Plugins that misbehave: the runtime gets an error, nothing is left of them, and the next request is served."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nri.client import resident, standing
from nri.process import children, conversation
from nri.v1bridge.runs import MARGIN
from nri.v2.stub.session import ANSWER_EARLY
from tests.integration.v1bridge.site import AMPLE, SHORT, Site
from tests.support import scripts
from tests.support.host import Host
from tests.support.processes import all_reaped, kill, open_fds
from tests.support.waiting import wait_until

ANY = ("cold", "warm", "foreign")

CLEAN = b'{"plugin": "rude", "version": "0.1", "error": ""}'
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
    """What a plugin does, the ways in which it is started, and the error, as a pattern; "" for none."""

    do: str
    ways: tuple[str, ...]
    error: str


KILLED = r"killed: no result after [\d.]+ s"
NOTHING = "no valid result: it wrote nothing to stdout, expected a result"
TOO_LONG = "killed: it wrote more than 1048576 bytes to stdout, expected one result"

CASES = {
    # Three faults in every way, each of the others in one.
    "hangs": Case("time.sleep(1000)", ANY, KILLED),
    "crashes": Case("os.kill(os.getpid(), signal.SIGSEGV)", ANY, f"{NOTHING}; ended by signal 11"),
    "leaves a child that holds all open": Case(SPREAD.replace("{prepare}", "pass"), ANY, ""),
    # It does not end.
    "hangs and ignores what it can": Case(
        "for n in (1, 2, 3, 13, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: time.sleep(1000)",
        ("warm",),
        KILLED,
    ),
    "is stopped": Case("os.kill(os.getpid(), signal.SIGSTOP)", ("warm",), KILLED),
    "closes all that is open and hangs": Case(
        "os.closerange(0, 1000)\ntime.sleep(1000)", ("warm",), KILLED
    ),
    "hangs in a thread when it is done": Case(
        "import threading\nthreading.Thread(target=time.sleep, args=(1000,)).start()",
        ("cold",),
        KILLED,
    ),
    "hangs at its exit": Case(
        "import atexit\natexit.register(time.sleep, 1000)", ("warm",), KILLED
    ),
    "writes its result and hangs": Case(f"say({CLEAN!r}); time.sleep(1000)", ("foreign",), KILLED),
    # It ends.
    "closes all that is open and exits": Case(
        "os.closerange(0, 1000)\nos._exit(0)", ("foreign",), NOTHING
    ),
    "exits without a result": Case("os._exit(3)", ("warm",), f"{NOTHING}; exit status 3"),
    "is clean and exits with 3": Case(
        f"say({CLEAN!r}); os._exit(3)",
        ("foreign",),
        "exit status 3, although it wrote a result without error",
    ),
    "raises": Case("raise RuntimeError('no such device')", ("warm", "foreign"), ".*no such device"),
    "eats memory": Case(
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))\nbytearray(1 << 30)",
        ("warm",),
        ".*MemoryError",
    ),
    # It writes too much, or the wrong thing.
    "writes 8 MB of a result": Case("result.metadata['x'] = 'x' * (8 << 20)", ("warm",), TOO_LONG),
    "writes 100 MB": Case("for _ in range(1600): say(b'x' * 65536)", ("foreign",), TOO_LONG),
    "floods stderr": Case(
        "for _ in range(100): os.write(2, b'x' * 65536 + b'\\n')", ("warm", "foreign"), ""
    ),
    "says that it is another": Case("result = result.replace(plugin='konfine')", ("cold",), ""),
    "writes half a result": Case(
        f"say({CLEAN!r}[:-9]); os._exit(0)",
        ("foreign",),
        "no valid result: line 1 column 38: unterminated string",
    ),
    "writes no UTF-8": Case(
        r"say(b'\xff\xfe{}'); os._exit(0)", ("foreign",), r"no valid result: .*"
    ),
    "writes no UTF-8 in a string": Case(
        r"""say(b'{"plugin": "rude", "version": "0.1", "metadata": {"x": "\xff"}}'); os._exit(0)""",
        ("foreign",),
        "",
    ),
    "writes something before its result": Case(
        "say(b'ready!')", ("foreign",), "no valid result: .*: ready!{"
    ),
    "writes something after its result": Case(
        f"say({CLEAN!r} + b'bye'); os._exit(0)", ("foreign",), r"no valid result: .*bye"
    ),
    "forks and answers twice": Case(
        "pid = os.fork()\nif pid: os.waitpid(pid, 0)", ("warm",), r"no valid result: .*\}\\n\{.*"
    ),
    "forks, and only the second process answers": Case(
        "pid = os.fork()\nif pid: os.waitpid(pid, 0); os._exit(0)", ("warm",), ""
    ),
    "answers past nri.skel": Case(
        f"for fd in range(3, 20):\n    try: os.write(fd, {CLEAN!r})\n    except OSError: pass",
        ("cold", "warm"),
        "(no valid result: .*|ended by signal 9, although it wrote a result without error)",
    ),
}


Sites = Callable[[str], Site]


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """Returns the site of a way; the tests share it, and each leaves it as it was."""
    before = open_fds()
    made: dict[str, Site] = {}

    def site_of(way: str) -> Site:
        if way not in made:
            made[way] = Site(Host(tmp_path_factory.mktemp(way)), way)
        return made[way]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(resident, "LONGEST_PAUSE", 0.05)
        patched.setattr(standing, "is_built", scripts.is_plugin)
        yield site_of
    for site in made.values():
        site.end()
    for site in made.values():  # no thread and no process of any may be left
        site.close()
        site.bridge.close()
    assert all_reaped()
    assert wait_until(lambda: open_fds().items() <= before.items()), "descriptors are left open"


def asked(site: Site, do: str, seconds: float = AMPLE, **options: Any) -> tuple[str, int]:
    """Have the plugin do this, in a process that waited if there are any; return the error, and the process's number.

    :param seconds: its deadline. On a busy machine it may be killed before it has begun; then it gets twice the time.
    """
    for _ in range(20):
        ready = site.make_ready()
        site.configure(do, timeout=seconds, **options)
        before = len(site.served())
        error = site.start()
        assert site.keeps_the_bridge()
        begun = site.served()[before:]
        if not begun:
            seconds *= 2
        elif not ready or begun[-1] in ready:
            return error, begun[-1]
    pytest.fail("no process that waited has ever been asked")


@pytest.mark.parametrize(
    ("name", "way"), [(name, way) for name, case in CASES.items() for way in case.ways]
)
def test_fault_leaves_nothing_and_spares_the_next_request(
    sites: Sites, name: str, way: str
) -> None:
    site, case = sites(way), CASES[name]
    child = site.host.root / "child"
    do = case.do.replace("{root}", str(site.host.root))
    error, served_by = asked(site, do, SHORT if case.error == KILLED else AMPLE)
    if case.error:
        assert re.search(f"plugin rude: {case.error}", error), error
    else:
        assert error == ""
    stays = way == "warm" and case.error != KILLED
    gone = {
        *([] if stays else [served_by]),
        *([int(pid) for pid in child.read_text().split()] if "child" in case.do else []),
    }
    assert wait_until(lambda: not gone & set(site.host.processes()))
    serves_well(site)


def serves_well(site: Site) -> None:
    """Check that the next request is served."""
    well = site.host.root / "well"
    site.configure(f"note({str(well)!r}, 'well')")
    assert site.start() == ""
    assert well.read_text() == "well\n"
    well.unlink()
    site.configure()


def test_margin_of_the_bridge_is_enough_to_reap_a_killed_plugin() -> None:
    assert children.REAP_LATE < MARGIN - ANSWER_EARLY


@pytest.mark.parametrize("way", ["cold", "warm"])
def test_unkillable_plugin_delays_no_answer(
    sites: Sites, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one in an uninterruptible system call: here it is not killed at all."""
    site = sites(way)
    with monkeypatch.context() as patched:
        patched.setattr(conversation, "kill_group", lambda _pid: None)
        patched.setattr(resident, "kill_group", lambda _pid: None)
        error, stuck = asked(site, "time.sleep(1000)", SHORT, failure_policy="ignore")
        assert error == ""
    assert stuck in site.host.processes()
    for pid in set(site.host.processes()) & set(site.served()):
        kill(pid)
    site.configure()
    assert site.start() == ""
    assert wait_until(lambda: not os.path.exists(f"/proc/{stuck}"))


# Files


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


SPOILT: dict[str, tuple[Callable[[Path], object], tuple[str, ...], str]] = {
    "removed": (Path.unlink, ANY, "not found: no such executable in"),
    "directory": (
        make_directory,
        ("cold",),
        "not run: .* is a directory; expected an executable file",
    ),
    "mode": (
        lambda path: path.chmod(0o644),
        ("warm",),
        r"not run: .* is not executable \(mode 0644\); expected one",
    ),
    "empty": (
        lambda path: path.write_bytes(b""),
        ("foreign",),
        "cannot be started: .*Exec format error; expected a program for this machine",
    ),
}


@pytest.mark.parametrize(
    ("name", "way"), [(name, way) for name, (_, ways, _) in SPOILT.items() for way in ways]
)
def test_spoilt_file_is_named_at_once(sites: Sites, name: str, way: str) -> None:
    spoil, _, error = SPOILT[name]
    site = sites(way)
    site.make_ready()
    path = site.host.bin / "rude"
    spoil(path)
    for _ in range(2):
        assert re.search(f"plugin rude: {error}", found := site.start()), found
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    site.install()
    assert site.start() == ""
    assert site.keeps_the_bridge()
