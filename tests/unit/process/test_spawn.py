"""The descriptors, signals and environment of a process that is started: by Python, and by the C library itself."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.process import libc_spawn
from nri.process.children import end_child
from nri.process.spawn import PLUGIN_ENVIRONMENT, pipe, spawn, use
from tests.support.processes import MEASURED, open_fds
from tests.support.waiting import SOON


@pytest.fixture(autouse=True, params=["os", "libc", "libc without closefrom"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = use(libc_spawn.spawn_unlocked)
    if request.param == "os":
        use(before)
    if request.param == "libc without closefrom":  # an old C library
        monkeypatch.setattr(libc_spawn, "add_close_from", None)
    yield
    use(before)


def printed(argv: list[str], **options: Any) -> bytes:
    reads, writes = pipe()
    try:
        pid = spawn(argv[0], argv, (0, writes, 2), **options)
    finally:
        os.close(writes)
    with open(reads, "rb") as file:
        text = file.read()
    assert end_child(pid, SOON) == 0
    return text


ROOT = Path(__file__).parents[3]
LOW_NUMBERS = """
import os, sys
from nri.process import libc_spawn
from nri.process.children import end_child
from nri.process.spawn import spawn, use
way, folder, *order = sys.argv[1:]
if way != "os":
    use(libc_spawn.spawn_unlocked)
if way == "libc without closefrom":
    libc_spawn.add_close_from = None
for number in range(4):
    os.dup2(os.open(f"{folder}/file{number}", os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
argv = ["sh", "-c", "for fd in 0 1 2 3; do printf $fd >/proc/$$/fd/$fd; done"]
sys.exit(end_child(spawn("/bin/sh", argv, [int(number) for number in order]), 60))
"""


@pytest.mark.parametrize("order", ["0123", "3210", "1230"])
def test_descriptors_may_have_each_others_numbers(
    request: pytest.FixtureRequest, tmp_path: Path, order: str
) -> None:
    """In a process of its own, whose low numbers are the test's."""
    argv = [
        sys.executable,
        "-c",
        LOW_NUMBERS,
        request.node.callspec.params["way"],
        str(tmp_path),
        *order,
    ]
    assert (
        subprocess.run(argv, env={"PYTHONPATH": str(ROOT), **MEASURED}, check=False).returncode == 0
    )
    assert [(tmp_path / f"file{number}").read_text() for number in order] == ["0", "1", "2", "3"]


def test_environment_is_that_of_a_plugin_unless_another_is_given() -> None:
    lines = printed(["/usr/bin/env"]).decode().splitlines()
    assert dict(line.split("=", 1) for line in lines) == PLUGIN_ENVIRONMENT
    assert printed(["/usr/bin/env"], environment={"A": "b"}) == b"A=b\n"


def test_arguments_and_environment_may_be_any_text_without_nul() -> None:
    text = "é \udcff\n'"
    argv = ["/bin/sh", "-c", 'printf "%s|%s" "$1" "$A"', "sh", text]
    assert printed(argv, environment={"A": text}) == b"|".join([os.fsencode(text)] * 2)
    before = open_fds()
    for arguments in (["a\0b"], ["a", "\0"]):
        with pytest.raises(ValueError, match="null byte"):
            spawn("/bin/true", arguments, (0, 1, 2))
    assert open_fds() == before


def test_child_leads_a_session_and_has_no_other_descriptor() -> None:
    """Neither one that Python keeps from children nor one that our caller has left open."""
    kept, left_open = os.open("/dev/null", os.O_RDONLY), os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(left_open, True)
    far = fcntl.fcntl(left_open, fcntl.F_DUPFD, 700)
    script = "read -r pid name state parent group session rest < /proc/$$/stat"
    script += "; echo $$ $group $session; ls /proc/$$/fd"
    try:
        pid, group, session, *names = printed(["/bin/sh", "-c", script]).decode().split()
    finally:
        for fd in (kept, left_open, far):
            os.close(fd)
    assert group == session == pid
    assert names == ["0", "1", "2"]


def test_signals_have_their_defaults_and_none_is_blocked() -> None:
    ignored = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGTERM})
    try:
        status = printed(["/bin/cat", "/proc/self/status"]).decode()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGUSR1, ignored)
    sets = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Sig"))
    c_librarys = sum(1 << number - 1 for number in (32, 33, 34))  # no program can set these
    found = [int(sets[name], 16) & ~c_librarys for name in ("SigBlk", "SigIgn", "SigCgt")]
    assert found == [0, 0, 0]


@pytest.mark.parametrize(
    ("path", "error"), [("/nonexistent", FileNotFoundError), ("/dev/null", PermissionError)]
)
def test_failed_start_is_named_and_leaks_no_descriptor(path: str, error: type[OSError]) -> None:
    before = open_fds()
    with pytest.raises(error) as failure:
        spawn(path, ["a"], (2, 1, 0, 0))
    assert failure.value.filename == path
    assert open_fds() == before
