"""A program whose exec blocks, as behind a cold disk or a security agent: other threads of the host go on."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.process.children import end_child
from nri.process.libc_spawn import spawn_unlocked
from tests.support.waiting import SOON

BLOCKED = 3.0
"""Seconds for which the exec blocks."""

_CLASS_CONTENT, _CLOEXEC, _MARK_ADD, _AT_FDCWD = 0x4, 0x1, 0x1, -100  # fanotify_init(2), fanotify_mark(2)
_OPEN_EXEC_PERM, _ALLOW = 0x40000, 0x1
_EVENT = struct.Struct("=IBBHQii")


class Agent:
    """A security agent: the kernel asks it before the program is executed."""

    def __init__(self, program: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = libc.fanotify_init(_CLASS_CONTENT | _CLOEXEC, os.O_RDONLY)
        path, mask = os.fsencode(program), ctypes.c_uint64(_OPEN_EXEC_PERM)
        if self.fd < 0 or libc.fanotify_mark(self.fd, _MARK_ADD, mask, _AT_FDCWD, path) < 0:
            pytest.skip(f"needs fanotify(7) with permission events: {os.strerror(ctypes.get_errno())}")

    def wait(self) -> int:
        """Wait until the program is about to be executed; return the event's descriptor."""
        return int(_EVENT.unpack_from(os.read(self.fd, 4096))[5])

    def allow(self, event: int) -> None:
        os.write(self.fd, struct.pack("=iI", event, _ALLOW))
        os.close(event)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return tmp_path / shutil.copy("/bin/true", tmp_path)


@pytest.fixture
def agent(program: Path) -> Iterator[Agent]:
    agent = Agent(program)
    yield agent
    os.close(agent.fd)


def test_other_threads_go_on_while_an_exec_blocks(program: Path, agent: Agent) -> None:
    pids: list[int] = []
    starting = threading.Thread(target=lambda: pids.append(spawn_unlocked(str(program), ["true"], {}, (0, 1, 2))))
    starting.start()
    event = agent.wait()  # with os.posix_spawn this thread would never come here
    until = time.monotonic() + BLOCKED
    turns = 0
    while time.monotonic() < until:
        turns += 1
        time.sleep(0.01)
    assert turns > 10
    assert starting.is_alive()
    agent.allow(event)
    starting.join(SOON)
    assert end_child(pids[0], SOON) == 0
