"""What a unary call costs: 2 KiB there and back over a trunk between two processes, one call at a time.

Beside it stands, taken in the same run, turn by turn, the same number of bytes passed to and fro over a socketpair
between two processes without any protocol: what the kernel and the interpreter take by themselves. Printed are the
median and the 99th percentile; the ratio is of the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from nri.api import PodSandbox  # noqa: E402 - found through the line above
from nri.multiplex import PLUGIN_SERVICE, Trunk  # noqa: E402
from nri.ttrpc import Client, Server  # noqa: E402
from nri.ttrpc.server import unary  # noqa: E402

SERVICE, METHOD = "bench.Service", "Echo"
REQUEST = PodSandbox(name="x" * 2045)  # with its tag and length 2 KiB
OVERHEAD = 8 + 10 + 2 + len(SERVICE) + 2 + len(METHOD) + 3 + 7  # of a request: frame, message, envelope, timeout


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10000, help="of each (default 10000)")
    parser.add_argument("--json", default=str(ROOT / "build/bench-ttrpc-call.json"), help="where the figures go")
    arguments = parser.parse_args()
    cases = {"socketpair, the same bytes": (_ping_pong(), []), "ttRPC call over a trunk": (_calls(), [])}
    for number in range(arguments.runs + 100):
        for run, times in cases.values():
            started = time.perf_counter()
            run()
            times.append((time.perf_counter() - started) * 1e6)
            if number < 100:
                times.clear()
    _report({name: times for name, (_, times) in cases.items()}, arguments)


def _fork(serve: Callable[[socket.socket], object]) -> socket.socket:
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        serve(theirs)  # until we are gone
        os._exit(0)
    theirs.close()
    return ours


def _ping_pong() -> Callable[[], None]:
    size = REQUEST.ByteSize() + OVERHEAD

    def serve(sock: socket.socket) -> None:
        while data := sock.recv(size, socket.MSG_WAITALL):
            sock.sendall(data)

    sock, data = _fork(serve), bytes(size)

    def run() -> None:
        sock.sendall(data)
        sock.recv(size, socket.MSG_WAITALL)

    return run


def _calls() -> Callable[[], None]:
    def serve(sock: socket.socket) -> None:
        server, trunk = Server({(SERVICE, METHOD): unary(PodSandbox, lambda request, _: request)}), Trunk(sock)
        server.send = trunk.open(PLUGIN_SERVICE, server)
        trunk.run()

    trunk, client = Trunk(_fork(serve)), Client()
    client.send = trunk.open(PLUGIN_SERVICE, client)
    Thread(target=trunk.run, name="bench-reader", daemon=True).start()
    return lambda: client.call(SERVICE, METHOD, REQUEST, PodSandbox, timeout=10) and None


def _report(cases: dict[str, list[float]], arguments: argparse.Namespace) -> None:
    print(
        f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, "
        f"{arguments.runs} runs each, {REQUEST.ByteSize()} bytes there and back, microseconds\n"
    )
    print(f"{'':42}{'median':>8}{'99 %':>8}{'ratio':>7}")
    plain = statistics.median(next(iter(cases.values())))
    rows = []
    for name, times in cases.items():
        median, slow = statistics.median(times), statistics.quantiles(times, n=100)[-1]
        print(f"{name:42}{median:8.1f}{slow:8.1f}{median / plain:7.1f}")
        rows.append({"case": name, "median_us": median, "p99_us": slow, "ratio": median / plain})
    path = Path(arguments.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"platform": platform.platform(), "runs": arguments.runs, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
