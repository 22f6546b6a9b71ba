"""The CPUs of this node that konfine can give to single containers, and which are free: from its conf and record."""

from __future__ import annotations

from collections.abc import Iterable

from nri.cgroups import parse_cpus
from nri.config import ConfigList
from nri.plugins.konfine import KonfineConf
from nri.plugins.konfine.record import Record

Set = frozenset[int]


def conf_of(config: ConfigList) -> KonfineConf:
    """Return the conf of the first entry of konfine that gives out CPUs; one that gives out none if there is none.

    :raises nri.types.DecodeError: an entry's conf is not valid.
    """
    confs = []
    for entry in config.plugins:
        if entry.type == "konfine":
            confs.append(KonfineConf.from_value(entry.conf))

    return next((conf for conf in confs if conf.gives_out), KonfineConf())


class NodeCpus:
    """The CPUs of the node that single containers can have, as devices of the kubelet.

    The kubelet must find a free device wherever the scheduler has counted one. So those that a container has by
    another way (an annotation, a pool) are unhealthy, which takes them out of the count; and of the CPUs that can be
    shared as many are no devices as have to stay shared.

    :ivar devices: each device's CPU, with whether a container can have it or has it.
    :ivar allocated: the devices of containers that run, or are admitted.
    :ivar shareable: those that containers can share, if no other has them alone.
    :ivar alone: the CPUs that no other container has, whoever has them.
    """

    def __init__(self, record: Record, conf: KonfineConf) -> None:
        self.record = record
        self.conf = conf
        self.topology = record.topology
        topology = self.topology
        given = conf.exclusive
        fixed = conf.fixed_pools(topology.online)
        self.pools = fixed | {name: parse_cpus(cpus) for name, cpus in record.pools.items()}
        entries = [entry for entry in record.containers.values() if entry["cpus"]]
        self.allocated = _joined(
            [parse_cpus(entry["counted"]) for entry in entries if "counted" in entry]
        )
        pools = _joined(self.pools.values())
        self.alone = pools | _joined([parse_cpus(entry["cpus"]) for entry in entries])
        others = self.alone - self.allocated
        unreserved = topology.online - conf.system_reserved
        usable = unreserved - topology.isolated
        isolated = unreserved & topology.isolated
        self.shareable = usable - _joined(fixed.values())
        self.devices: dict[int, bool] = {}
        if not given.counted:
            return
        spare = len(usable - others) - given.min_shared
        units = self._units(isolated)
        units += sorted(self._units(usable), key=lambda unit: not unit & self.allocated)
        for unit in units:
            if unit & others:
                self.devices |= dict.fromkeys(unit, False)
            elif unit <= isolated or len(unit) <= spare or unit & self.allocated:
                self.devices |= dict.fromkeys(unit, True)
                spare -= len(unit & usable)
        self.devices |= dict.fromkeys(self.allocated - topology.online, False)

    def _units(self, cpus: Set) -> list[Set]:
        """Return what konfine gives at least: a CPU, or a core.

        The last CPUs come first, since the system's are usually the first ones.
        """
        if self.conf.exclusive.whole_cores:
            units = self.topology.whole_cores(cpus)
        else:
            units = [frozenset([cpu]) for cpu in sorted(cpus)]
        return units[::-1]

    def counted(self, own: Set) -> tuple[int, int, int]:
        """Return how many of some CPUs are devices, how many of these are healthy, and how many of those are free."""
        healthy = frozenset([cpu for cpu, is_healthy in self.devices.items() if is_healthy]) & own
        return len(own & self.devices.keys()), len(healthy), len(healthy - self.allocated)

    def node_of(self, cpu: int) -> int | None:
        """Return the NUMA node of a CPU; None for one that is offline."""
        return next(iter(self.topology.nodes_of([cpu])), None)


def _joined(sets: Iterable[Set]) -> Set:
    return frozenset[int]().union(*sets)
