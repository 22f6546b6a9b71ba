"""What the scheduler may count is what konfine can give, after whatever has come and gone before."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from nri.cgroups import parse_cpus, render_cpus
from nri.config import ConfigList, PluginEntry
from nri.kubernetes.cpus import NodeCpus, conf_of
from nri.plugins.konfine import COUNTED, Konfine, KonfineConf
from nri.plugins.konfine.record import Record
from nri.testing import invoke
from nri.types import DecodeError
from tests.support.giving import GivingNode

if TYPE_CHECKING:
    from pathlib import Path


def cpus_of(node: GivingNode) -> NodeCpus:
    record = Record(str(node.root / "run"), node.sys)
    record.load()
    return NodeCpus(record, KonfineConf.from_value(node.conf))


def healthy(cpus: NodeCpus) -> str:
    return render_cpus(cpu for cpu, is_healthy in cpus.devices.items() if is_healthy)


@pytest.mark.parametrize(
    ("conf", "machine", "expected"),
    [
        ({}, {}, "1-7"),
        ({"exclusive": {"counted": False}}, {}, ""),
        ({"exclusive": {"counted": True, "minShared": 3}}, {}, "3-7"),
        ({"systemReserved": [0, 4]}, {}, "2-3,5-7"),
        ({"systemReserved": [0, 4]}, {"isolated": "3,7"}, "2-3,5-7"),
        ({"systemReserved": [0, 4]}, {"isolated": "1-3,5-7"}, "1-3,5-7"),
        ({"exclusive": {"counted": True, "wholeCores": True}}, {}, "1-3,5-7"),
        ({"pools": [{"name": "a", "cpus": "6-7", "namespaces": ["x"]}]}, {}, "1-5"),
    ],
)
def test_as_many_as_can_be_given(
    tmp_path: Path, conf: dict[str, Any], machine: dict[str, Any], expected: str
) -> None:
    node = GivingNode(tmp_path, cores=4, threads=2, **machine)
    node.conf |= {"allow": {}, "exclusive": {"counted": True}} | conf
    cpus = cpus_of(node)
    every, good, free = cpus.counted(cpus.topology.online)
    if "pools" in conf:
        assert cpus.devices[6] is cpus.devices[7] is False
    assert healthy(cpus) == expected
    assert (good, free) == (sum(cpus.devices.values()), good)
    assert every == len(cpus.devices)


def test_cpu_of_a_container_that_has_gone_offline_is_unhealthy(tmp_path: Path) -> None:
    node = GivingNode(tmp_path, cores=4)
    node.conf |= {"allow": {}, "exclusive": {"counted": True}}
    start(node, "db/main", frozenset([3]))
    (node.root / "sys/devices/system/cpu/online").write_text("0-2\n")
    cpus = cpus_of(node)
    assert (cpus.devices, cpus.node_of(3), cpus.node_of(2)) == (
        {3: False, 2: True, 1: True},
        None,
        0,
    )


def test_first_entry_that_gives_cpus_out_counts() -> None:
    config = ConfigList(
        plugins=[
            PluginEntry(type="konfine"),
            PluginEntry(type="clearcfs", conf={"exclusive": 1}),
            PluginEntry(type="konfine", conf={"exclusive": {"counted": True}}),
        ]
    )
    assert conf_of(config).exclusive.counted
    assert not conf_of(ConfigList(plugins=config.plugins[:2])).gives_out
    with pytest.raises(DecodeError):
        conf_of(ConfigList(plugins=[PluginEntry(type="konfine", conf={"exclusive": 1})]))


def start(node: GivingNode, name: str, devices: frozenset[int]) -> bool:
    """Start a container to which the kubelet has given devices; return whether it was not refused."""
    node.started[name] = node.make(name)
    request = node.request("create", name, annotations={COUNTED: render_cpus(devices)})
    result = invoke(Konfine(), request.replace(own_annotations=(COUNTED,)))
    assert result.refused or not result.error
    return not result.error


CONFS: list[tuple[dict[str, Any], int]] = [
    ({}, 1),
    ({"minShared": 3}, 1),
    ({"wholeCores": True, "spread": True}, 2),
]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("exclusive", "unit"), CONFS)
def test_free_devices_are_free_whatever_came_before(
    tmp_path: Path, exclusive: dict[str, Any], unit: int, seed: int
) -> None:
    rng = random.Random(f"{exclusive} {seed}")
    node = GivingNode(
        tmp_path, packages=2, cores=4, threads=2, isolated=rng.choice(["", "2-3,10-11"])
    )
    node.conf |= {"systemReserved": [0], "allow": {"exclusive": True}}
    node.conf["exclusive"] = {"counted": True, "spread": True} | exclusive
    if rng.random() < 0.5:
        node.conf["pools"] = [{"name": "batch", "namespaces": ["shop"], "max": 3}]
    node.start("web")
    held: dict[str, frozenset[int]] = {}  # what the kubelet has allocated
    for step in range(60):
        name = f"p{step}/c"
        # Until none is left.
        kind = rng.choice(["device", "device", "annotation", "stop"]) if step < 40 else "device"
        cpus = cpus_of(node)
        taken = frozenset().union(*held.values())
        free = sorted(
            cpu for cpu, is_healthy in cpus.devices.items() if is_healthy and cpu not in taken
        )
        if kind == "device" and free:
            if unit == 2:  # the kubelet takes what the plugin prefers: whole cores
                devices = frozenset(
                    rng.choice([core for core in cpus.topology.cores if core <= {*free}])
                )
            else:
                devices = frozenset(rng.sample(free, rng.randint(1, min(3, len(free)))))
            assert start(node, name, devices), (step, free, devices)
            held[name] = devices
        elif kind == "annotation":
            path = node.make(name)
            if node.run("create", name, ask=unit * rng.randint(1, 2)).error:
                node.remove(path)
            else:
                node.started[name] = path
        elif kind == "stop" and len(node.started) > 1:
            gone = rng.choice([name for name in node.started if name != "web"])
            held.pop(gone, None)
            node.stop(gone, is_told=rng.random() < 0.7)
            node.run("update", "web")
        sets = [
            parse_cpus(entry["cpus"])
            for entry in node.state()["containers"].values()
            if entry["cpus"]
        ]
        assert sum(map(len, sets)) == len(frozenset().union(*sets))
    assert not free
    node.refusal("last", ask=unit)
