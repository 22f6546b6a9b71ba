"""What a call costs without any plugin of v0.1: multiplex, ttrpc and stub, between two processes.

The handler does nothing. Beside it stand, taken turn by turn, as many bytes passed to and fro over a socketpair
between two processes without any protocol: what the kernel and the interpreter take by themselves.
"""

from __future__ import annotations

import os
import socket
import statistics
import time
from typing import TYPE_CHECKING

from bench.node import pod_number
from bench.report import Row
from nri import adaptation, api, stub

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.ttrpc import Call

WARM_UP = 100


class Nothing(stub.V2Plugin):
    """Has a handler, which does nothing."""

    def run_pod_sandbox(self, request: api.RunPodSandboxRequest, call: Call) -> None:
        """Nothing."""


def measure(*, calls: int) -> list[Row]:
    """The rows."""
    size = api.RunPodSandboxRequest(pod=pod_number(1)).ByteSize() + 100
    plain = _fork(_echo)  # before there are threads
    served = _fork(lambda sock: stub.Runner(Nothing(), name="nothing", index="10", sock=sock).run())
    runtime = adaptation.Runtime()
    runtime.attach(served)
    data = bytes(size)

    def ping_pong() -> None:
        plain.sendall(data)
        plain.recv(size, socket.MSG_WAITALL)

    pod = pod_number(1)
    there = {"back to back": 0.0, "after 5 ms": 0.005}
    rows = []
    for when, pause in there.items():
        echoed, called = _turns(
            ping_pong, lambda: runtime.run_pod_sandbox(pod), calls if not pause else calls // 10, pause
        )
        rows.append(
            Row(
                name=f"an event that nobody does anything for, {when}",
                figure=called,
                unit="ms",
                reference=0.25 if not pause else echoed,
                of="limit" if not pause else "socketpair",
                goal=1.0 if not pause else None,
            )
        )
        if not pause:
            rows.append(Row(name=f"socketpair to and fro, {when}", figure=echoed, unit="ms"))
    runtime.close()
    plain.close()
    return rows


def _turns(
    first: Callable[[], object], second: Callable[[], object], calls: int, pause: float
) -> tuple[float, float]:
    """The medians of both, in milliseconds."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(calls + WARM_UP):
        for run, taken in zip((first, second), times, strict=True):
            if pause:
                time.sleep(pause)
            started = time.perf_counter()
            run()
            taken.append((time.perf_counter() - started) * 1000)
            if number < WARM_UP:
                taken.clear()
    return statistics.median(times[0]), statistics.median(times[1])


def _fork(serve: Callable[[socket.socket], object]) -> socket.socket:
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        try:
            serve(theirs)  # until we are gone
        finally:
            os._exit(0)
    theirs.close()
    return ours


def _echo(sock: socket.socket) -> None:
    while data := sock.recv(65536):
        sock.sendall(data)
