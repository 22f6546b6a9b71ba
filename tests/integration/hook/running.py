"""The hook in the test's own process, the hook as a process, and a plugin that hangs."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from nri.hook import Arguments, run
from tests.support.host import OCI_CONFIG, Host, plugin
from tests.support.processes import MEASURED
from tests.support.waiting import SOON, wait_until

SOURCE = str(Path(__file__).parents[3])
NRI = [sys.executable, "-c", "from nri.cli.entry import main; main()"]


class Ran:
    """One run of the hook in this process."""

    def __init__(
        self,
        host: Host,
        state: bytes | None = None,
        verb: str = "create",
        *,
        stdin: int = -1,
        **arguments: Any,
    ) -> None:
        places: dict[str, Any] = {"conf_dir": str(host.conf), "conf_file": f"{host.root}/conf.json"}
        places |= {"bin_dirs": [str(host.bin)], "record_dir": f"{host.root}/record"}
        given = Arguments(verb, **(places | {"timeout": SOON, "deadline": 10 * SOON} | arguments))
        stderr = io.StringIO()
        with TemporaryFile() as file:
            file.write(host.state() if state is None else state)
            file.seek(0)
            self.status = run(given, file.fileno() if stdin < 0 else stdin, stderr)
        self.stderr = stderr.getvalue()


def failure(host: Host, state: bytes | None = None, verb: str = "create", **arguments: Any) -> str:
    """The one line of a run that must fail."""
    ran = Ran(host, state, verb, **arguments)
    assert ran.status == 1
    assert ran.stderr.endswith("\n")
    assert ran.stderr[:-1].isprintable(), ran.stderr
    assert len(ran.stderr) < 1000
    return ran.stderr[:-1]


HANGING = """#!{python} -IS
import os, time
if os.fork() == 0:
    os.setpgid(0, 0)
with open({pids!r}, "a") as file:
    file.write(f"{{os.getpid()}} ")
time.sleep(1000)
"""
"""Hangs with a child in a group of its own."""


def make_hang(host: Host) -> Host:
    """Give the host a bundle and one plugin, which hangs with a child."""
    host.bundle(OCI_CONFIG)
    host.script("hanging", HANGING.format(python=sys.executable, pids=str(host.root / "pids")))
    host.configure(plugin("hanging"))
    return host


def start(host: Host, *words: str, **options: Any) -> subprocess.Popen[bytes]:
    """The hook as a process, as a runtime starts it: in the session and the group of its caller."""
    pipe = subprocess.PIPE
    streams: dict[str, Any] = {"stdin": pipe, "stdout": pipe, "stderr": pipe, **options}
    # No test but those of the deadline depends on the time that the start of the process takes.
    words = (*NRI, "hook", "create", *host.options, "--deadline=300", "--timeout=300", *words)
    return subprocess.Popen(words, env={"PYTHONPATH": SOURCE, **MEASURED}, **streams)


def give(process: subprocess.Popen[bytes], state: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(state)
    process.stdin.close()
    process.stdin = None


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Its exit status and stderr, when both have come to their end."""
    with process:
        _, stderr = process.communicate(timeout=4 * SOON)
    return process.returncode, (stderr or b"").decode()


def hanging(host: Host) -> list[int]:
    """The plugin and its child, when they hang."""
    pids = host.root / "pids"
    assert wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2, 4 * SOON)
    return [int(pid) for pid in pids.read_text().split()]
