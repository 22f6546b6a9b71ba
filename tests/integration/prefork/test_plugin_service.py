"""The part of a server that forks workers."""

from __future__ import annotations

import subprocess
import sys

from tests.integration.prefork.preforked import SOURCE
from tests.support.waiting import SOON

SERVER = """
import os, socket, sys
from nri.prefork import protocol
from nri.prefork.server.plugin_service import PluginService

def become():
    raise OSError("in the worker")

def descriptors():
    return len(os.listdir("/proc/self/fd"))

host, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
service = PluginService(None, control, become)
host.send(protocol.encode_message(protocol.MORE, b""))
before = descriptors()
try:
    service.act([])
except OSError as error:
    print("the server:", error)
"""


def run(script: str) -> list[str]:
    """Return the lines that a server's process, and whoever takes itself for it, writes to stdout."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": SOURCE},
        capture_output=True,
        encoding="utf-8",
        timeout=SOON,
        check=True,
    )
    return done.stdout.splitlines()


def test_a_worker_that_cannot_begin_ends_and_does_not_go_on_as_the_server() -> None:
    reaped = "print(*[os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) for worker in service.workers], flush=True)"
    assert run(SERVER + reaped) == ["1"]


def test_a_server_that_cannot_fork_keeps_no_descriptor() -> None:
    refuses = """
import os
def refuse():
    raise OSError(11, "no process is left")
os.fork = refuse
"""
    left = "print(descriptors() - before)"
    assert run(refuses + SERVER + left) == ["the server: [Errno 11] no process is left", "0"]
