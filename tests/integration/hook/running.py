"""The hook as a process, and a plugin that hangs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.host import OCI_CONFIG, plugin
from tests.support.processes import MEASURED
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from tests.support.host import Host

SOURCE = str(Path(__file__).parents[3])
NRI = [sys.executable, "-c", "from nri.cli.entry import main; main()"]

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
    words = (*NRI, "hook", "create", *host.options, *words)
    process: subprocess.Popen[bytes] = subprocess.Popen(words, env={"PYTHONPATH": SOURCE, **MEASURED}, **streams)
    return process


def give(process: subprocess.Popen[bytes], state: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(state)
    process.stdin.close()
    process.stdin = None


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Its exit status and stderr, when both have come to their end."""
    with process:
        _, stderr = process.communicate(timeout=SOON)
    return process.returncode, (stderr or b"").decode()


def hanging(host: Host) -> list[int]:
    """The plugin and its child, when they hang."""
    pids = host.root / "pids"
    assert wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2, SOON)
    return [int(pid) for pid in pids.read_text().split()]
