"""OCI's words become the v2 messages that mean the same, and messages OCI's words as the Go adapter wrote them."""

import json
from typing import Any

from google.protobuf import json_format

from nri.adjust.document import read_adjust
from nri.v2 import api
from nri.v2.api import oci
from nri.v2.api.oci import container_to_oci, resources_of, resources_to_oci
from tests.unit.adjust.documents import ADJUST, HOOK, RESOURCES

FULL = ADJUST | {"annotations": {"a": "1", "gone": None, "-taken": None, "taken": "2"}}
LINUX = FULL["linux"]
HOOK_MESSAGE = HOOK | {"timeout": {"value": 5}}
DEVICE = {"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229}
DEVICE |= {"file_mode": {}, "uid": {}, "gid": {"value": 5}}
SECCOMP: dict[str, Any] = {
    "default_action": "SCMP_ACT_ERRNO",
    "default_errno": {},
    "architectures": ["SCMP_ARCH_X86_64"],
    "flags": ["SECCOMP_FILTER_FLAG_LOG"],
    "listener_path": "/run/listener",
    "listener_metadata": "x",
    "syscalls": [
        {
            "names": ["read"],
            "action": "SCMP_ACT_ALLOW",
            "errno_ret": {},
            "args": [{"index": 3, "value": 1, "value_two": 2, "op": "SCMP_CMP_EQ"}],
        }
    ],
}
RDT = {"clos_id": {}, "schemata": {"value": ["L3:0=f"]}, "enable_monitoring": {}}
MESSAGE: dict[str, Any] = {
    "annotations": {"a": "1", "-gone": "", "-taken": "", "taken": "2"},
    "mounts": [
        {"destination": "-/old"},
        {"destination": "-/older"},
        {"destination": "/data", **FULL["mounts"]["/data"]},
        {"destination": "/tmp", **FULL["mounts"]["/tmp"]},
    ],
    "env": [{"key": "-OLD"}, {"key": "-OLDER"}, {"key": "A", "value": "1"}],
    "hooks": {field.name: [HOOK_MESSAGE] for field in api.Hooks.DESCRIPTOR.fields}
    | {"poststop": [HOOK_MESSAGE, {"path": "/bin/true"}]},
    "rlimits": FULL["rlimits"],
    "CDI_devices": [{"name": "vendor.com/net=eth0"}, {"name": "vendor.com/gpu=0"}],
    "args": FULL["args"],
    "linux": {
        "devices": [DEVICE, {"path": "/dev/pipe", "type": "p"}, {"path": "-/dev/old"}],
        "resources": {
            "memory": {
                "limit": {"value": 1 << 30},
                "reservation": {"value": 1 << 20},
                "swap": {"value": -1},
                "kernel": {"value": 1},
                "kernel_tcp": {"value": 2},
                "swappiness": {},
                "disable_oom_killer": {},
                "use_hierarchy": {"value": True},
            },
            "cpu": {
                "shares": {},
                "quota": {"value": -1},
                "period": {"value": 100000},
                "realtime_runtime": {"value": 950000},
                "realtime_period": {"value": 1000000},
                "cpus": "0-3",
                "mems": "0",
            },
            "hugepage_limits": [
                {"page_size": "2MB", "limit": 0},
                {"page_size": "1GB", "limit": 2**64 - 1},
            ],
            "blockio_class": {},
            "rdt_class": {"value": "gold"},
            "unified": {"cpu.idle": "1", "memory.high": "max"},
            "devices": [
                {},
                {"allow": True, "type": "c", "major": {"value": 10}, "minor": {}, "access": "rw"},
            ],
            "pids": {},
        },
        "cgroups_path": "/demo/web",
        "oom_score_adj": {"value": -1000},
        "io_priority": LINUX["ioPriority"],
        "seccomp_policy": SECCOMP,
        "namespaces": [{"type": "network", "path": "/run/netns/a"}, {"type": "-user"}],
        "sysctl": {"-kernel.shm_rmid_forced": "", "-kernel.old": "", "net.ipv4.ip_forward": "1"},
        "net_devices": {"eth1": {"name": "net1"}, "eth2": {}, "-eth3": {}, "-eth4": {}},
        "scheduler": FULL["scheduler"],
        "rdt": RDT | {"remove": True},
        "memory_policy": LINUX["memoryPolicy"],
    },
}


def test_every_field_becomes_that_of_the_message() -> None:
    message = oci.adjustment(read_adjust(FULL))
    assert message == json_format.ParseDict(MESSAGE, api.ContainerAdjustment())
    zero = oci.adjustment({"linux": {"oomScoreAdj": 0}})
    assert zero == api.ContainerAdjustment(linux={"oom_score_adj": {}})
    assert oci.adjustment({}) == api.ContainerAdjustment()
    update = oci.update({"id": "b", "resources": {"cpu": {"shares": 2}}, "ignoreFailure": True})
    assert (
        update.container_id,
        update.ignore_failure,
        update.linux.resources.cpu.shares.value,
    ) == ("b", True, 2)


CONTAINER: dict[str, Any] = {
    "args": FULL["args"],
    "env": ["A=1"],
    "rlimits": FULL["rlimits"],
    "hooks": MESSAGE["hooks"],
    "mounts": MESSAGE["mounts"][2:],
    "user": {"uid": 1, "gid": 2, "additional_gids": [3]},
    "linux": {
        "oom_score_adj": {},
        "io_priority": LINUX["ioPriority"],
        "scheduler": FULL["scheduler"],
        "cgroups_path": "/there",
        "devices": [DEVICE],
        "namespaces": [{"type": "ipc", "path": "/proc/1/ns/ipc"}, {"type": "pid"}],
        "sysctl": {"net.x": "1"},
        "net_devices": {"eth1": {"name": "net0"}},
        "seccomp_policy": SECCOMP,
        "rdt": RDT,
    },
}


def test_a_container_in_ocis_words_is_what_was_asked_for() -> None:
    config = container_to_oci(json_format.ParseDict(CONTAINER, api.Container()), {"a": "1"})
    assert config == {
        "annotations": {"a": "1"},
        "process": {
            "args": FULL["args"],
            "env": ["A=1"],
            "user": {"uid": 1, "gid": 2, "additionalGids": [3]},
            "rlimits": FULL["rlimits"],
            "oomScoreAdj": 0,
            "ioPriority": LINUX["ioPriority"],
            "scheduler": FULL["scheduler"],
        },
        "mounts": [{"destination": path, **FULL["mounts"][path]} for path in ("/data", "/tmp")],
        "hooks": FULL["hooks"],
        "linux": {
            "resources": None,
            "namespaces": [{"type": "ipc", "path": "/proc/1/ns/ipc"}, {"type": "pid"}],
            "cgroupsPath": "/there",
            "devices": LINUX["devices"][:1],
            "sysctl": {"net.x": "1"},
            "netDevices": {"eth1": {"name": "net0"}},
            "seccomp": LINUX["seccomp"],
            "intelRdt": {"closID": "", "schemata": ["L3:0=f"], "enableMonitoring": False},
        },
    }
    highest = container_to_oci(
        api.Container(linux={"io_priority": {"class": "IOPRIO_CLASS_RT"}}), {}
    )
    assert highest["process"]["ioPriority"] == {"class": "IOPRIO_CLASS_RT", "priority": 0}
    for container in (api.Container(), api.Container(id="a", linux={})):
        little = container_to_oci(container, {})
        assert little["process"] == {"args": [], "env": []}
        assert "hooks" not in little


# What a plugin is shown: byte for byte what the Go adapter wrote

EVERYTHING = api.LinuxResources(**MESSAGE["linux"]["resources"])


def test_everything_comes_out_in_gos_order_zeros_too() -> None:
    for message in (EVERYTHING, EVERYTHING.memory, EVERYTHING.cpu, EVERYTHING.devices[1]):
        assert {field.name for field, _ in message.ListFields()} == set(
            message.DESCRIPTOR.fields_by_name
        )
    nris = {part: dict(RESOURCES[part]) for part in ("memory", "cpu")}
    for part, key in (("memory", "checkBeforeUpdate"), ("cpu", "burst"), ("cpu", "idle")):
        del nris[part][key]  # NRI does not have it
    oci = {"devices": RESOURCES["devices"], **nris}
    oci |= {key: RESOURCES[key] for key in ("pids", "hugepageLimits", "unified")}
    assert json.dumps(resources_to_oci(EVERYTHING)) == json.dumps(oci)


def test_pids_without_a_limit_are_an_empty_object() -> None:
    oci = resources_to_oci(api.LinuxResources(pids={"limit": -1}))
    assert oci == {"memory": {}, "cpu": {}, "pids": {}}


def test_reading_what_is_absent_does_not_make_it_present() -> None:
    pod = api.PodSandbox(id="6efd")
    assert resources_of(pod.linux) is None
    assert resources_to_oci(None) is None
    assert resources_to_oci(api.LinuxResources()) == {"memory": {}, "cpu": {}}
    assert pod == api.PodSandbox(id="6efd")
    for linux in (api.LinuxPodSandbox, api.LinuxContainer):
        assert resources_of(linux(resources={})) == api.LinuxResources()
