"""The cost of a call without v0.1 plugins: mux, ttrpc and stub, between two processes.

The handler is empty. The reference, measured in turns with it, sends the same number of bytes over a socketpair to
another process and back without a protocol: the cost of kernel and interpreter alone.
"""

from __future__ import annotations

import os
import socket
import statistics
import time
from typing import TYPE_CHECKING

from bench.node import pod_number
from bench.report import Row
from nri import adaptation
from nri.v2 import api, stub

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.v2.ttrpc import Call

WARM_UP = 100


class Empty(stub.V2Plugin):
    """A v2 plugin with an empty handler."""

    def run_pod_sandbox(self, request: api.RunPodSandboxRequest, call: Call) -> None:
        """Return at once."""


def measure(*, calls: int) -> list[Row]:
    """Return the rows of the table."""
    size = api.RunPodSandboxRequest(pod=pod_number(1)).ByteSize() + 100
    plain = _fork(_echo)  # before there are threads
    served = _fork(lambda sock: stub.Runner(Empty(), name="nothing", index="10", sock=sock).run())
    runtime = adaptation.Runtime()
    runtime.attach(served)
    data = bytes(size)

    def ping_pong() -> None:
        plain.sendall(data)
        plain.recv(size, socket.MSG_WAITALL)

    pod = pod_number(1)
    pauses = {"back to back": 0.0, "after 5 ms": 0.005}
    rows = []
    for when, pause in pauses.items():
        echoed, called = _turns(
            ping_pong,
            lambda: runtime.run_pod_sandbox(pod),
            calls if not pause else calls // 10,
            pause,
        )
        rows.append(
            Row(
                name=f"an event with an empty handler, {when}",
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
    """Run both in turns; return their medians in milliseconds."""
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
            serve(theirs)  # until the parent closes its end
        finally:
            os._exit(0)
    theirs.close()
    return ours


def _echo(sock: socket.socket) -> None:
    while data := sock.recv(65536):
        sock.sendall(data)
