"""The cost of single steps of a plugin's run in microseconds, which explains the times of the other tables."""

from __future__ import annotations

import os
import socket
import statistics
import sys
import time
from typing import TYPE_CHECKING

from bench.plugin_start import REQUEST, document
from bench.report import Row
from nri.types.v1 import Request

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def measure(binaries: Path, *, runs: int) -> list[Row]:
    """Return the rows of the table."""
    bare = os.path.realpath(sys.executable)
    request = document(REQUEST)
    decoded = Request.from_json(request)
    result = decoded.new_result("clearcfs", metadata={"quota": "50000/100000"})
    noop, clearcfs = str(binaries / "noop"), str(binaries / "clearcfs")
    started = _median(lambda: _spawn([noop, "invoke"]), runs)
    interpreter = _median(lambda: _spawn([bare, "-I", "-S", "-c", "pass"]), runs // 4)
    loaded = _median(lambda: _spawn([clearcfs, "version"]), runs // 4)
    figures = {
        "a system call (getppid), with its call from Python": _median(
            lambda: [os.getppid() for _ in range(100)], runs
        )
        / 100,
        "pipe: made and closed": _median(_pipe, runs),
        "fork and exec: a C program, until it is reaped": started,
        "exec: a bare interpreter, beyond that": interpreter - started,
        "import: a compiled plugin, beyond that": loaded - interpreter,
        "JSON: a request decoded": _median(lambda: Request.from_json(request), runs),
        "JSON: a result encoded": _median(result.to_json, runs),
        "scheduling: a byte to another process and back": _ping_pong(runs, 0.0),
        "scheduling: the same after 5 ms of rest": _ping_pong(runs // 4, 0.005),
    }
    return [Row(name=name, figure=figure, unit="µs") for name, figure in figures.items()]


def _median(run: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        run()
        times.append((time.perf_counter() - started) * 1e6)
    return statistics.median(times)


def _pipe() -> None:
    for end in os.pipe():
        os.close(end)


def _spawn(argv: list[str]) -> None:
    actions = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1)]
    os.waitpid(os.posix_spawn(argv[0], argv, {}, file_actions=actions), 0)


def _ping_pong(runs: int, pause: float) -> float:
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        while data := theirs.recv(1):
            theirs.sendall(data)
        os._exit(0)
    theirs.close()
    times = []
    for _ in range(runs):
        time.sleep(pause)
        started = time.perf_counter()
        ours.sendall(b".")
        ours.recv(1)
        times.append((time.perf_counter() - started) * 1e6)
    ours.close()
    os.waitpid(pid, 0)
    return statistics.median(times)
