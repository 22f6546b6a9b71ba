"""``make soak``: the bridge for a long time; each event is judged, and what has grown is told.

The chain has four plugins: a compiled one, which is warm; a script that is started for each event; the same, started
ahead; and one that was built with nri.skel, warm too. Pods come four at a time, one in five with a fault. Each has to
be answered in time and with the right verdict. The bridge is measured after a warm-up and at the end, both times when
it is calm.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import random
import re
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from nri import adaptation, api
from soak.faults import FAULTS, ROOT, choose, lay_out
from soak.figures import BRIDGE, Row, below, calm, resident, rows

DEADLINE = 2.0
"""Seconds that a runtime gives the bridge for an event."""

PODS = 4
"""That come at a time."""

SAMPLES = 10
"""Of the bridge's memory, in the warm-up and after it; the median of the last half counts."""

SHOWN = 10
"""Wrong verdicts that are printed."""


class Soak:
    """The bridge on an embedded runtime, and what has become of the events."""

    def __init__(self, scratch: Path, bridge: Path, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - not a secret
        self._lock = threading.Lock()
        self._left = 0
        self.wrong: list[str] = []
        self.seen: Counter[str] = Counter()
        self.slowest = 0.0
        lay_out(scratch, bridge)
        self.runtime = adaptation.Runtime(
            plugin_dir=str(scratch / "plugins"),
            config_dir=str(scratch / "conf.d"),
            request_timeout=DEADLINE,
            on_exchange=self._note,
        )
        self.runtime.start()
        self.pid = next((pid for pid in below(os.getpid()) if _is_of(pid, scratch)), 0)

    @property
    def is_served(self) -> bool:
        """Whether the runtime has the bridge."""
        return self.pid != 0 and self.runtime.plugins == ["10-v1bridge"]

    def run(self, events: int) -> None:
        """So many events."""
        self._left = events
        threads = [threading.Thread(target=self._work, name=f"pod-{number}") for number in range(PODS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def close(self) -> None:
        """End the runtime and the bridge; and what that leaves, so that a run which fails leaves nothing either."""
        family = [pidfd for pid in (below(self.pid) if self.pid else []) if (pidfd := _pidfd(pid)) >= 0]
        self.runtime.close()
        for pidfd in family:
            try:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            except ProcessLookupError:
                pass
            os.close(pidfd)

    def _work(self) -> None:
        while True:
            with self._lock:
                if self._left == 0 or not self.is_served:
                    return
                self._left -= 1
                number, (plugin, fault) = self._left, choose(self._random)
            pod = api.PodSandbox(id=f"pod{number:06d}", name=f"soak-{number}", namespace="default", uid=f"u{number}")
            pod.linux.cgroups_path = f"/kubepods/pod{number}"
            if plugin:
                pod.annotations["fault"] = f"{plugin}/{fault}"
            said = ""
            try:
                self.runtime.run_pod_sandbox(pod)
            except adaptation.EventError as error:
                said = str(error)
            self._judge(plugin, fault, said)
            self.runtime.remove_pod_sandbox(pod)

    def _judge(self, plugin: str, fault: str, said: str) -> None:
        expected = FAULTS[plugin][fault] if plugin else ""
        is_right = re.search(f"plugin {plugin}: {expected}", said) is not None if expected else said == ""
        with self._lock:
            self.seen[f"{plugin} {fault}".strip() or "no fault"] += 1
            if not is_right:
                self.wrong.append(
                    f"{plugin} {fault}: expected {expected or 'no error'}, found {said[:300] or 'none'}"
                )

    def _note(self, exchange: adaptation.Exchange) -> None:
        self.slowest = max(self.slowest, exchange.seconds)


def main() -> int:
    """Run it, print a table; 1 when something does not hold."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--events", type=int, default=20_000, help="after the warm-up (default 20000)")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of faults (default 1)")
    parser.add_argument("--bridge", type=Path, default=ROOT / "dist/nri/v1bridge", help="the bridge's executable")
    arguments = parser.parse_args()
    logging.disable()  # what the embedded runtime would log is judged
    with tempfile.TemporaryDirectory(prefix="nri-soak-") as folder:
        soak = Soak(Path(folder), arguments.bridge.absolute(), arguments.seed)
        try:
            if not soak.is_served:
                sys.exit(f"{arguments.bridge} did not register with the runtime; make binaries builds it")
            memory = _run(soak, max(300, arguments.events // 10))
            start = calm(soak.pid) | {BRIDGE: memory}
            began, judged = time.monotonic(), sum(soak.seen.values())
            memory = _run(soak, arguments.events)
            took, judged = time.monotonic() - began, sum(soak.seen.values()) - judged
            end = calm(soak.pid, start) | {BRIDGE: memory} if soak.is_served else dict.fromkeys(start, math.inf)
            found = [
                Row("verdicts that are wrong", 0, len(soak.wrong), 0),
                Row("events without an answer", 0, arguments.events - judged, 0),
                Row("slowest answer, s", 0, round(soak.slowest, 2), DEADLINE),
                *rows(start, end),
            ]
        finally:
            soak.close()
    return _report(soak, found, arguments.events, took)


def _run(soak: Soak, events: int) -> float:
    """So many events; the bridge's memory, in MB."""
    samples = []
    for part in range(SAMPLES):
        soak.run(events * (part + 1) // SAMPLES - events * part // SAMPLES)
        if soak.is_served:
            samples.append(resident(soak.pid))
    return statistics.median(samples[-(SAMPLES // 2) :] or [math.inf])


def _report(soak: Soak, found: list[Row], events: int, took: float) -> int:
    faults = sum(soak.seen.values()) - soak.seen["no fault"]
    print(
        f"{events} events in {took:.0f} s after the warm-up; {faults} faults of {len(soak.seen) - 1} kinds in all\n"
    )
    print(f"{'':30}{'start':>9}{'end':>9}{'at most':>9}")
    for row in found:
        print(
            f"{row.name:30}{row.start:9.4g}{row.end:9.4g}{row.most:9.4g}  {'holds' if row.holds else 'DOES NOT HOLD'}"
        )
    for wrong in soak.wrong[:SHOWN]:
        print(f"wrong: {wrong}")
    return 0 if all(row.holds for row in found) else 1


def _pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1  # it has ended


def _is_of(pid: int, scratch: Path) -> bool:
    try:
        return os.fsencode(scratch) in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
