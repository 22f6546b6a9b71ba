"""A node whose events are timed as the runtime sees them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from harness.node import BridgeNode
from harness.processes import command_line, descendants
from nri import adaptation
from nri.v2 import api

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    Entry = str | Mapping[str, Any]

PAUSE = 0.005
"""Seconds between paced events: a node does not start pods back to back."""


class TimedNode(BridgeNode):
    """A runtime that has launched the bridge, with one configuration file.

    :param scratch: the node's directory, which is made.
    :param plugins: the configured plugins: types, or whole entries.
    :param pods: number of pods, with one container each, that exist before the bridge starts.
    :param state: of these containers; those that run are served late.
    :param options: more bridge options.
    :ivar registered_in: seconds until the bridge was launched and registered.
    :ivar synchronized_in: seconds that Synchronize took.
    """

    def __init__(
        self,
        scratch: Path,
        binaries: Path,
        plugins: Sequence[Entry],
        *,
        pods: int = 0,
        state: api.ContainerState = api.ContainerState.CONTAINER_UNKNOWN,
        **options: Any,
    ) -> None:
        scratch.mkdir()
        super().__init__(
            scratch,
            binaries / "v1bridge",
            bin_dirs=[binaries],
            options={**options, "logLevel": "error"},
            on_exchange=self._note,
        )
        self.configure(
            "10.conf",
            *({"type": plugin} if isinstance(plugin, str) else plugin for plugin in plugins),
        )
        self.synchronized_in = 0.0
        for number in range(pods):
            pod = pod_number(number)
            self.runtime.store.pods[pod.id] = pod
            container = api.Container(
                id=f"container{number}",
                pod_sandbox_id=pod.id,
                name="app",
                labels=pod.labels,
                state=state,
            )
            self.runtime.store.containers[container.id] = container
        started = time.perf_counter()
        self.start()
        self.registered_in = time.perf_counter() - started
        if not self.is_served:
            raise SystemExit(f"the bridge did not register; its log: {self.log()}")

    def event(self, number: int = 0) -> float:
        """Send one RunPodSandbox; return its duration in milliseconds."""
        pod = pod_number(number)
        started = time.perf_counter()
        self.runtime.run_pod_sandbox(pod)
        return (time.perf_counter() - started) * 1000

    def warm_up(self, events: int = 30) -> None:
        """Send events until the residents are ready, which happens a moment after the first one."""
        for _ in range(events):
            self.event()
            time.sleep(0.02)

    def family(self) -> list[int]:
        """Return the processes below the bridge: watchdog and plugins."""
        return descendants(self.pid)

    def resident(self) -> int:
        """Return the process of a resident."""
        return next(pid for pid in self.family() if command_line(pid).endswith(b"\0serve\0"))

    def _note(self, exchange: adaptation.Exchange) -> None:
        if exchange.event == "Synchronize":
            self.synchronized_in += exchange.seconds


def turns(
    first: TimedNode, second: TimedNode, events: int, *, between: TimedNode | None = None
) -> tuple[list[float], list[float]]:
    """Return the durations of paced events on two nodes in turns, in milliseconds.

    :param between: a node that gets an event before each of them.
    """
    times: tuple[list[float], list[float]] = ([], [])
    for node in (first, second):
        node.warm_up()
    for number in range(events):
        for node, taken in zip((first, second), times, strict=True):
            if between is not None:
                between.event(number)
            time.sleep(PAUSE)
            taken.append(node.event(number))
    return times


def back_to_back(nodes: Sequence[TimedNode], events: int, rounds: int) -> list[list[float]]:
    """Return the durations of events without a pause, of each node in milliseconds.

    :param events: number of events for each node, in so many turns.
    """
    times: list[list[float]] = [[] for _ in nodes]
    for _ in range(rounds):
        for node, taken in zip(nodes, times, strict=True):
            taken += [node.event(number) for number in range(events // rounds)]
    return times


def pod_number(number: int) -> api.PodSandbox:
    """Return a pod as a runtime describes it."""
    pod = api.PodSandbox(
        id=f"pod{number}", name=f"bench-{number}", namespace="default", uid=f"uid-{number}"
    )
    pod.labels["app"] = "bench"
    pod.annotations["io.kubernetes.cri.sandbox-name"] = "bench"
    pod.linux.cgroups_path = f"/kubepods/pod{number}"
    return pod
