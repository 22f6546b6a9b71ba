"""``make soak``: run the bridge for a long time; check every verdict and every growth.

The chain has three plugins: a compiled one, which is a resident; a script in shell, and one in Python that was built
with nri.skel, both started for each event. Pods come four at a time, one in five with a fault.
Each needs an answer in time and with the right verdict. The bridge is measured after a warm-up and at the end, both
times when its figures no longer change.
"""

from __future__ import annotations

import argparse
import logging
import math
import random
import re
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from harness.node import BINARIES
from nri import adaptation
from nri.v2 import api
from soak.faults import FAULTS, choose, node
from soak.figures import BRIDGE, Row, resident, rows, settled

DEADLINE = 2.0
"""Seconds that the runtime waits for an answer to an event."""

PODS = 4
"""Pods at a time."""

SAMPLES = 10
"""Measurements of the bridge's memory, in the warm-up and after it; the median of the last half counts."""

SHOWN = 10
"""Maximum number of wrong verdicts that are printed."""


class Soak:
    """The bridge on an embedded runtime, and the verdicts of its events."""

    def __init__(self, scratch: Path, bridge: Path, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - not a secret
        self._lock = threading.Lock()
        self._left = 0
        self.wrong: list[str] = []
        self.seen: Counter[str] = Counter()
        self.slowest = 0.0
        self.node = node(scratch, bridge, request_timeout=DEADLINE, on_exchange=self._note)

    def run(self, events: int) -> None:
        """Send this number of events."""
        self._left = events
        threads = [
            threading.Thread(target=self._work, name=f"pod-{number}") for number in range(PODS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(self) -> None:
        while True:
            with self._lock:
                if self._left == 0 or not self.node.is_served:
                    return
                self._left -= 1
                number, (plugin, fault) = self._left, choose(self._random)
            pod = api.PodSandbox(
                id=f"pod{number:06d}", name=f"soak-{number}", namespace="default", uid=f"u{number}"
            )
            pod.linux.cgroups_path = f"/kubepods/pod{number}"
            if plugin:
                pod.annotations["fault"] = f"{plugin}/{fault}"
            message = ""
            try:
                self.node.runtime.run_pod_sandbox(pod)
            except adaptation.EventError as error:
                message = str(error)
            self._judge(plugin, fault, message)
            self.node.runtime.remove_pod_sandbox(pod)

    def _judge(self, plugin: str, fault: str, message: str) -> None:
        expected = FAULTS[plugin][fault] if plugin else ""
        is_right = (
            re.search(f"plugin {plugin}: {expected}", message) is not None
            if expected
            else message == ""
        )
        with self._lock:
            self.seen[f"{plugin} {fault}".strip() or "no fault"] += 1
            if not is_right:
                self.wrong.append(
                    f"{plugin} {fault}: expected {expected or 'no error'}, found {message[:300] or 'none'}"
                )

    def _note(self, exchange: adaptation.Exchange) -> None:
        self.slowest = max(self.slowest, exchange.seconds)


def main() -> int:
    """Run it and print a table; return 1 when a limit does not hold."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument(
        "--events", type=int, default=20_000, help="events after the warm-up (default 20000)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed for the choice of faults (default 1)"
    )
    parser.add_argument(
        "--bridge", type=Path, default=BINARIES / "v1bridge", help="the bridge's executable"
    )
    arguments = parser.parse_args()
    logging.disable()  # every outcome is checked: the embedded runtime need not log it
    with tempfile.TemporaryDirectory(prefix="nri-soak-") as folder:
        soak = Soak(Path(folder), arguments.bridge.absolute(), arguments.seed)
        with soak.node:
            if not soak.node.is_served:
                sys.exit(
                    f"{arguments.bridge} did not register with the runtime; make binaries builds it"
                )
            memory = _run(soak, max(300, arguments.events // 10))
            start = settled(soak.node.pid) | {BRIDGE: memory}
            began, judged = time.monotonic(), sum(soak.seen.values())
            memory = _run(soak, arguments.events)
            took, judged = time.monotonic() - began, sum(soak.seen.values()) - judged
            end = _end(soak, start) | {BRIDGE: memory}
            figures = [
                Row("verdicts that are wrong", 0, len(soak.wrong), 0),
                Row("events without an answer", 0, arguments.events - judged, 0),
                Row("slowest answer, s", 0, round(soak.slowest, 2), DEADLINE),
                *rows(start, end),
            ]
    return _report(soak, figures, arguments.events, took)


def _end(soak: Soak, start: dict[str, float]) -> dict[str, float]:
    """Return the figures at the end; infinite ones when the runtime has lost the bridge."""
    return settled(soak.node.pid, start) if soak.node.is_served else dict.fromkeys(start, math.inf)


def _run(soak: Soak, events: int) -> float:
    """Send this number of events; return the bridge's memory in MiB."""
    samples = []
    for part in range(SAMPLES):
        soak.run(events * (part + 1) // SAMPLES - events * part // SAMPLES)
        if soak.node.is_served:
            samples.append(resident(soak.node.pid))
    return statistics.median(samples[-(SAMPLES // 2) :] or [math.inf])


def _report(soak: Soak, rows: list[Row], events: int, took: float) -> int:
    faults = sum(soak.seen.values()) - soak.seen["no fault"]
    print(
        f"{events} events in {took:.0f} s after the warm-up; {faults} faults of {len(soak.seen) - 1} kinds in all\n"
    )
    print(f"{'':30}{'start':>9}{'end':>9}{'at most':>9}")
    for row in rows:
        print(
            f"{row.name:30}{row.start:9.4g}{row.end:9.4g}{row.most:9.4g}  {'holds' if row.holds else 'DOES NOT HOLD'}"
        )
    for wrong in soak.wrong[:SHOWN]:
        print(f"wrong: {wrong}")
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
