"""The node's NodeResourceTopology: per NUMA node how many CPUs there are, and how many are free; and the pools below.

Schedulers that know NUMA nodes can read it. The API is
``topology.node.k8s.io/v1alpha2``: API.md and types.go of github.com/k8stopologyawareschedwg/noderesourcetopology-api.
The object is applied (server-side apply), so that one request makes or replaces it, and the API server refuses it if
another exporter has written the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lightkube import ApiError, Client
from lightkube.generic_resource import create_global_resource
from lightkube.models.meta_v1 import ObjectMeta

from nri.errors import NRIError
from nri.kubernetes.cpus import NodeCpus, Set
from nri.plugins.konfine import RESOURCE
from nri.types.gojson import shorten

MANAGER = "nri-device-plugin"

AT_MOST_EVERY = 5.0
AT_LEAST_EVERY = 300.0
"""Seconds between two writes: of something new, and of the same."""

_GROUP = "topology.node.k8s.io"
_VERSION = "v1alpha2"
_PLURAL = "noderesourcetopologies"
_Topology = create_global_resource(_GROUP, _VERSION, "NodeResourceTopology", _PLURAL)


def document(cpus: NodeCpus) -> dict[str, Any]:
    """Return the zones and attributes of the object."""
    topology = cpus.topology
    conf = cpus.conf
    reserved = conf.system_reserved
    zones: list[dict[str, Any]] = []
    for number, own in topology.nodes.items():
        allocatable = own - reserved - topology.isolated
        resources = [_counts("cpu", len(own), len(allocatable), len(allocatable - cpus.alone))]
        if conf.exclusive.counted:
            resources.append(_counts(RESOURCE, *cpus.counted(own)))
        costs = []
        for other, far in topology.distances[number].items():
            costs.append({"name": f"node-{other}", "value": far})

        zones.append(
            {"name": f"node-{number}", "type": "Node", "costs": costs, "resources": resources}
        )
    for name, own in sorted(cpus.pools.items()):
        zones.append(_pool(name, own, cpus))
    given = conf.exclusive
    attributes = {
        "policy": "konfine",
        "systemReserved": len(reserved),
        "minShared": given.min_shared,
        "spread": given.spread,
        "wholeCores": given.whole_cores,
    }
    listed = []
    for name, value in attributes.items():
        listed.append({"name": f"konfine.nri.io/{name}", "value": str(value).lower()})

    return {"zones": zones, "attributes": listed}


def _pool(name: str, own: Set, cpus: NodeCpus) -> dict[str, Any]:
    entries = cpus.record.containers.values()
    given = sum([entry.get("milli", 0) for entry in entries if entry.get("pool") == name])
    left = max(0, 1000 * len(own) - given)
    zone: dict[str, Any] = {"name": f"pool-{name}", "type": "Pool"}
    if len(nodes := cpus.topology.nodes_of(own)) == 1:
        zone["parent"] = f"node-{nodes[0]}"
    return zone | {"resources": [_counts("cpu", len(own), len(own), f"{left}m")]}


def _counts(name: str, capacity: int, allocatable: int, available: int | str) -> dict[str, str]:
    return {
        "name": name,
        "capacity": str(capacity),
        "allocatable": str(allocatable),
        "available": str(available),
    }


class TopologyWriter:
    """Writes the object of one node, as often as it may and must.

    :param node: the node's name in the cluster; "" to write nothing.
    :param clock: ``time.monotonic``.
    :ivar content: what was written last; empty if nothing was.
    :ivar written: when that was, by the clock.
    """

    def __init__(self, node: str, clock: Callable[[], float]) -> None:
        self._node = node
        self._clock = clock
        self.content: dict[str, Any] = {}
        self.written = -math.inf

    def write(self, cpus: NodeCpus) -> None:
        """Write the object if it is due.

        :raises NRIError: the API server refuses it, or is away.
        """
        if not self._node:
            return
        content = document(cpus)
        now = self._clock()
        pause = AT_MOST_EVERY
        if content == self.content:
            pause = AT_LEAST_EVERY
        if now - self.written < pause:
            return
        labels = {"app.kubernetes.io/managed-by": MANAGER}
        made = _Topology(metadata=ObjectMeta(name=self._node, labels=labels), **content)
        self._try("written", lambda client: client.apply(made, field_manager=MANAGER))
        self.content = content
        self.written = self._clock()

    def remove(self) -> None:
        """Delete the object, which no one keeps up from now on.

        :raises NRIError: as for ``write``.
        """
        self._try("deleted", lambda client: client.delete(_Topology, self._node))

    def _try(self, done: str, call: Callable[[Client], object]) -> None:
        fault = f"NodeResourceTopology {self._node} cannot be {done}"
        try:
            call(Client())
        except ApiError as error:
            code = error.response.status_code
            said = shorten(str(error), 300)
            fix = _FIXES.get(code, "")
            if code == 404 and done == "deleted":
                return
            raise NRIError(f"{fault}: {code}: {said}{fix}") from error
        except Exception as error:  # lightkube lets those of its HTTP library through
            said = shorten(f"{type(error).__name__}: {error}", 300)
            raise NRIError(
                f"{fault}: {said}; expected the API server of a cluster, and a service account"
            ) from error


_FIXES = {
    403: f"; expected the service account to be allowed create, patch and delete of {_PLURAL}.{_GROUP}",
    404: f"; expected the CustomResourceDefinition of {_GROUP}/{_VERSION}",
    409: "; expected no other exporter of this node's topology, such as that of node-feature-discovery",
}
