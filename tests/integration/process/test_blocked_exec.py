"""A program whose exec blocks, as behind a cold disk or a security agent: other threads of the host go on."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import threading
import time
from pathlib import Path

import pytest

from nri.process.children import end_child
from nri.process.libc_spawn import spawn_unlocked
from tests.support.waiting import SOON

BLOCKED = 3.0
"""Seconds for which the exec blocks."""

# fanotify_init(2), fanotify_mark(2).
_CLASS_CONTENT, _CLOEXEC, _MARK_ADD, _AT_FDCWD = (0x4, 0x1, 0x1, -100)
_OPEN_EXEC_PERM, _ALLOW = 0x40000, 0x1


def test_other_threads_go_on_while_an_exec_blocks(tmp_path: Path) -> None:
    program = str(tmp_path / shutil.copy("/bin/true", tmp_path))
    libc = ctypes.CDLL(None, use_errno=True)
    agent: int = libc.fanotify_init(_CLASS_CONTENT | _CLOEXEC, os.O_RDONLY)
    mask = ctypes.c_uint64(_OPEN_EXEC_PERM)
    if agent < 0 or libc.fanotify_mark(agent, _MARK_ADD, mask, _AT_FDCWD, os.fsencode(program)) < 0:
        pytest.skip(f"needs fanotify(7) with permission events: {os.strerror(ctypes.get_errno())}")
    pids: list[int] = []
    starting = threading.Thread(
        target=lambda: pids.append(spawn_unlocked(program, ["true"], {}, (0, 1, 2)))
    )
    starting.start()
    # The kernel asks the agent; with os.posix_spawn this thread would never come here.
    *_, event, _ = struct.unpack_from("=IBBHQii", os.read(agent, 4096))
    until = time.monotonic() + BLOCKED
    turns = 0
    while time.monotonic() < until:
        turns += 1
        time.sleep(0.01)
    assert turns > 10
    assert starting.is_alive()
    os.write(agent, struct.pack("=iI", event, _ALLOW))
    for fd in (event, agent):
        os.close(fd)
    starting.join(SOON)
    assert end_child(pids[0], SOON) == 0
