"""An embedded runtime with the compiled bridge, and what can be seen of the bridge's processes from outside."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from nri import adaptation, api

PAUSE = 0.005
"""Seconds between paced events: a node does not start pods back to back."""


class Node:
    """A runtime that has launched the bridge, whose plugins are those of one configuration file.

    :param known: pods with one container each that there are before the bridge is started.
    """

    def __init__(self, scratch: Path, binaries: Path, plugins: list[str], *, known: int = 0, **settings: Any) -> None:
        scratch.mkdir()
        for name in ("plugins", "conf.d", "resource.d"):
            (scratch / name).mkdir()
        (scratch / "plugins/10-v1bridge").symlink_to(binaries / "v1bridge")
        document = {"version": "0.1", "plugins": [{"type": plugin} for plugin in plugins]}
        (scratch / "resource.d/10.conf").write_text(json.dumps(document))
        settings |= {"confDir": str(scratch / "resource.d"), "binDirs": [str(binaries)], "logLevel": "error"}
        settings["logFile"] = str(scratch / "log")
        (scratch / "conf.d/10-v1bridge.conf").write_text(json.dumps(settings))
        self.synchronized_in = 0.0
        self.runtime = adaptation.Runtime(
            plugin_dir=str(scratch / "plugins"), config_dir=str(scratch / "conf.d"), on_exchange=self._note
        )
        for number in range(known):
            pod = pod_number(number)
            self.runtime.store.pods[pod.id] = pod
            container = api.Container(id=f"container{number}", pod_sandbox_id=pod.id, name="app", labels=pod.labels)
            self.runtime.store.containers[container.id] = container
        started = time.perf_counter()
        self.runtime.start()
        self.registered_in = time.perf_counter() - started
        self.pid = next(pid for pid in children(os.getpid()) if str(scratch).encode() in command(pid))

    def event(self, number: int = 0) -> float:
        """One RunPodSandbox; how long it took, in milliseconds."""
        pod = pod_number(number)
        started = time.perf_counter()
        self.runtime.run_pod_sandbox(pod)
        return (time.perf_counter() - started) * 1000

    def prepare_process(self) -> None:
        """Wait until its plugins are ready, as they are a moment after the first event."""
        for _ in range(30):
            self.event()
            time.sleep(0.02)

    def family(self) -> list[int]:
        """The processes that the bridge has started, and those that these have."""
        found = children(self.pid)
        return found + [pid for parent in found for pid in children(parent)]

    def _note(self, exchange: adaptation.Exchange) -> None:
        if exchange.event == "Synchronize":
            self.synchronized_in += exchange.seconds


def turns(first: Node, second: Node, events: int, *, between: Node | None = None) -> tuple[list[float], list[float]]:
    """How long paced events take of both, in milliseconds; ``between`` has one before each."""
    times: tuple[list[float], list[float]] = ([], [])
    for node in (first, second):
        node.prepare_process()
    for number in range(events):
        for node, taken in zip((first, second), times, strict=True):
            if between is not None:
                between.event(number)
            time.sleep(PAUSE)
            taken.append(node.event(number))
    return times


def pod_number(number: int) -> api.PodSandbox:
    """A pod as a runtime tells of it."""
    pod = api.PodSandbox(id=f"pod{number}", name=f"bench-{number}", namespace="default", uid=f"uid-{number}")
    pod.labels["app"] = "bench"
    pod.annotations["io.kubernetes.cri.sandbox-name"] = "bench"
    pod.linux.cgroups_path = f"/kubepods/pod{number}"
    return pod


def children(pid: int) -> list[int]:
    """The living children of a process."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    except OSError:
        pass  # it, or one of its threads, has just ended
    return [child for child in found if state(child) not in ("", "Z", "X")]


def state(pid: int) -> str:
    """The letter of a process's state; "" when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except OSError:
        return ""


def command(pid: int) -> bytes:
    """The command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def name(pid: int) -> str:
    """What a process calls itself."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


def megabytes(pid: int, file: str, key: str) -> float:
    """A line of ``status`` or ``smaps_rollup``."""
    text = Path(f"/proc/{pid}/{file}").read_text()
    line = next(line for line in text.splitlines() if line.startswith(key + ":"))
    return int(line.split()[1]) / 1024


def descriptors(pid: int) -> int:
    """How many a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))
