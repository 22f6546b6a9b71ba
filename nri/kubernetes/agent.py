"""Looks at configuration and record again and again, and keeps the kubelet and the API server up to date.

Each part that fails is a line that says what to do, and is tried again at once, then after 1 s, 2 s, 4 s, up to 30 s.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from nri.config import ConfigError
from nri.errors import NRIError, reason_of
from nri.kubernetes.cpus import NodeCpus, conf_of
from nri.kubernetes.devices import DevicePlugin, DirectoryGoneError
from nri.kubernetes.pod_resources import SOCKET, listed
from nri.kubernetes.topology import TopologyWriter
from nri.node.in_use import InUse
from nri.plugins.konfine import RESOURCE
from nri.plugins.konfine.record import Record

INTERVAL = 1.0
"""Seconds between two looks."""

HANGS_AFTER = 60.0
"""Seconds without a look after which the agent counts as hanging. One in which no other answers takes 30."""

LONGEST_PAUSE = 30.0

PREFIX = "nri_device_plugin_"


class Agent(Collector):
    """The device plugin and the topology of one node.

    :param kubelet_dir: where the kubelet's socket for device plugins is.
    :param node: the node's name in the cluster, to write its NodeResourceTopology; "" for none.
    :param report: takes a line for people.
    :param clock: ``time.monotonic``.
    :param pod_resources: the kubelet's socket of the PodResources API.
    :ivar devices: the device plugin.
    :ivar ending: why this process must be started anew; "" if it need not.
    :ivar faults: what does not work, by part: ``configuration`` (and record), ``kubelet``,
        ``promises``, ``topology``.
    """

    def __init__(
        self,
        in_use: InUse,
        kubelet_dir: str,
        node: str,
        report: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
        pod_resources: str = SOCKET,
    ) -> None:
        self._in_use = in_use
        self._report = report
        self._clock = clock
        self.devices = DevicePlugin(kubelet_dir, clock)
        self._pod_resources = pod_resources
        self._is_listing: bool | None = None  # whether the kubelet has said who has which devices
        self._node = node
        self._writer = TopologyWriter(node, clock)
        # When the next one is due, and the pause before it.
        self._tries: dict[str, tuple[float, float]] = {}
        self._cpus: NodeCpus | None = None
        self._looked = clock()
        self._kubelet: object = None  # whose socket was seen last
        self.ending = ""
        self.faults: dict[str, str] = {}

    def look(self) -> None:
        """Do what is to be done now. It raises nothing."""
        self._try("configuration", self._read, 0)
        if (cpus := self._cpus) is not None:
            if cpus.conf.exclusive.counted or self.devices.is_registered:
                self.devices.update(cpus)
                kubelet = self.devices.kubelet
                if kubelet != self._kubelet:
                    self._kubelet = kubelet
                    self._tries.pop("kubelet", None)  # one has started: it is not kept waiting
                self._try("kubelet", self.devices.keep_registered)
                self._try("promises", self._follow)
            self._try("topology", lambda: self._writer.write(cpus))
        self._looked = self._clock()

    def close(self) -> None:
        """Withdraw the devices and the topology."""
        self.devices.close()
        if self._writer.content:
            self._tries.pop("topology", None)
            self._try("topology", self._writer.remove)

    def problems(self) -> list[str]:
        """Return what does not work, a line for each fault."""
        problems = [f"{part}: {reason}" for part, reason in [*self.faults.items()]]
        late = self._clock() - self._looked
        if late > HANGS_AFTER:
            problems.append(f"has not looked for {late:.0f} s")
        return problems

    def _try(self, part: str, action: Callable[[], object], longest: float = LONGEST_PAUSE) -> None:
        due, pause = self._tries.get(part, (0.0, 0.0))
        if self._clock() < due:
            return
        before = self.faults.get(part, "")
        try:
            action()
        except (NRIError, OSError) as error:
            if isinstance(error, DirectoryGoneError):
                self.ending = reason_of(error)
            self._tries[part] = self._clock() + pause, min(max(1.0, 2 * pause), longest)
            self.faults[part] = reason = reason_of(error)
            if reason != before:
                self._report(f"{part}: {reason}")
            return
        self._tries.pop(part, None)
        if self.faults.pop(part, ""):
            self._report(f"{part}: well again")

    def _follow(self) -> None:
        """End the promises of pods that are gone, as the kubelet says."""
        if not self.devices.is_registered:
            return
        devices = listed(self._pod_resources, RESOURCE)
        if devices is not None:
            self._is_listing = True
            self.devices.follow(devices)
        elif self._is_listing is not False:
            self._is_listing = False
            without = "CPUs of a pod that fails before it starts are free ten minutes later"
            self._report(f"{self._pod_resources}: the kubelet does not answer there: {without}")

    def _read(self) -> None:
        self._in_use.look()
        if self._in_use.config is None:
            raise ConfigError(self._in_use.rejected)
        conf = conf_of(self._in_use.config)
        record = Record(conf.run, conf.sys)
        record.load()
        if self._cpus is None:
            known = {}
        else:
            known = self._cpus.record.containers
        if record.rebuilt and any(entry["cgroup"] for entry in known.values()):
            raise NRIError(
                f"konfine's record: {record.rebuilt}; expected the next event to make it again"
            )
        self._cpus = NodeCpus(record, conf)
        if not (conf.exclusive.counted or self._node):
            raise NRIError(
                f"no entry of konfine has exclusive.counted; expected one, for {RESOURCE}"
            )

    def collect(self) -> Iterator[Metric]:
        """Yield the series: docs/counted-cpus.md."""
        if (cpus := self._cpus) is not None:
            text = (
                "CPUs that single containers can have, by NUMA node and state: free, allocated, "
                "unhealthy."
            )
            devices = GaugeMetricFamily(PREFIX + "cpus", text, labels=("node", "state"))
            for number, own in cpus.topology.nodes.items():
                every, healthy, free = cpus.counted(own)
                for state, count in (
                    ("free", free),
                    ("allocated", healthy - free),
                    ("unhealthy", every - healthy),
                ):
                    devices.add_metric([str(number), state], count)
            yield devices
        text = "1 if the kubelet watches the CPUs, else 0."
        yield GaugeMetricFamily(PREFIX + "registered", text, float(self.devices.is_registered))
        text = "1 if the kubelet lists the devices of pods (its PodResources API), else 0."
        yield GaugeMetricFamily(PREFIX + "pod_resources", text, float(bool(self._is_listing)))
        if self._writer.content:
            age = self._clock() - self._writer.written
            yield GaugeMetricFamily(
                PREFIX + "topology_age_seconds", "Seconds since the topology was written.", age
            )
        yield GaugeMetricFamily(
            PREFIX + "faults", "Parts that do not work.", float(len(self.problems()))
        )
