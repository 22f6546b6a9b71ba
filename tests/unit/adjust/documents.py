"""An ``adjust`` and an array of ``updates`` with every key; some values are easily taken for missing ones."""

import copy
from string import ascii_lowercase
from typing import Any

from nri.adjust import Abilities, Changes
from nri.types.v1 import Request, Result

HOOK = {"path": "/bin/hook", "args": ["hook", "-v"], "env": ["A=1"], "timeout": 5}
THROTTLE = [{"major": 8, "minor": 0, "rate": 1000}]
RESOURCES: dict[str, Any] = {
    "memory": {
        "limit": 1 << 30,
        "reservation": 1 << 20,
        "swap": -1,
        "kernel": 1,
        "kernelTCP": 2,
        "swappiness": 0,
        "disableOOMKiller": False,
        "useHierarchy": True,
        "checkBeforeUpdate": True,
    },
    "cpu": {
        "shares": 0,
        "quota": -1,
        "burst": 0,
        "period": 100000,
        "realtimeRuntime": 950000,
        "realtimePeriod": 1000000,
        "cpus": "0-3",
        "mems": "0",
        "idle": 1,
    },
    "pids": {"limit": 0},
    "blockIO": {
        "weight": 10,
        "leafWeight": 1000,
        "throttleReadBpsDevice": THROTTLE,
        "throttleWriteBpsDevice": THROTTLE,
        "throttleReadIOPSDevice": THROTTLE,
        "throttleWriteIOPSDevice": THROTTLE,
    },
    "hugepageLimits": [{"pageSize": "2MB", "limit": 0}, {"pageSize": "1GB", "limit": 2**64 - 1}],
    "network": {"classID": 1048577, "priorities": [{"name": "eth0", "priority": 500}]},
    "rdma": {"mlx5_1": {"hcaHandles": 3, "hcaObjects": 10000}},
    "unified": {"cpu.idle": "1", "memory.high": "max"},
    "devices": [
        {"allow": False},
        {"allow": True, "type": "c", "major": 10, "minor": 0, "access": "rw"},
    ],
    "blockioClass": "",
    "rdtClass": "gold",
}
ADJUST: dict[str, Any] = {
    "annotations": {"a": "1", "old": None, "-older": None},
    "env": {"A": "1", "OLD": None, "-OLDER": None},
    "args": ["", "sh", "-c", "true"],
    "mounts": {
        "/data": {"type": "bind", "source": "/srv", "options": ["rbind", "rw"]},
        "/tmp": {"type": "tmpfs", "source": "tmpfs"},
        "/old": None,
        "-/older": None,
    },
    "hooks": {
        "prestart": [HOOK],
        "createRuntime": [HOOK],
        "createContainer": [HOOK],
        "startContainer": [HOOK],
        "poststart": [HOOK],
        "poststop": [HOOK, {"path": "/bin/true"}],
    },
    "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 2**64 - 1, "soft": 1024}],
    "cdiDevices": ["vendor.com/net=eth0", "vendor.com/gpu=0"],
    "scheduler": {
        "policy": "SCHED_DEADLINE",
        "nice": -20,
        "priority": 1,
        "flags": ["SCHED_FLAG_RESET_ON_FORK"],
        "runtime": 1,
        "deadline": 2,
        "period": 3,
    },
    "linux": {
        "devices": [
            {
                "path": "/dev/fuse",
                "type": "c",
                "major": 10,
                "minor": 229,
                "fileMode": 0,
                "uid": 0,
                "gid": 5,
            },
            {"path": "/dev/pipe", "type": "p"},
            {"path": "/dev/old", "remove": True},
        ],
        "resources": RESOURCES,
        "cgroupsPath": "/demo/web",
        "oomScoreAdj": -1000,
        "sysctl": {"net.ipv4.ip_forward": "1", "kernel.shm_rmid_forced": None, "-kernel.old": None},
        "namespaces": [
            {"type": "network", "path": "/run/netns/a"},
            {"type": "user", "remove": True},
        ],
        "seccomp": {
            "defaultAction": "SCMP_ACT_ERRNO",
            "defaultErrnoRet": 0,
            "architectures": ["SCMP_ARCH_X86_64"],
            "flags": ["SECCOMP_FILTER_FLAG_LOG"],
            "listenerPath": "/run/listener",
            "listenerMetadata": "x",
            "syscalls": [
                {
                    "names": ["read"],
                    "action": "SCMP_ACT_ALLOW",
                    "errnoRet": 0,
                    "args": [{"index": 3, "value": 1, "valueTwo": 2, "op": "SCMP_CMP_EQ"}],
                }
            ],
        },
        "ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 7},
        "intelRdt": {
            "closID": "",
            "l3CacheSchema": "L3:0=ff",
            "memBwSchema": "MB:0=50",
            "schemata": ["L3:0=f"],
            "enableMonitoring": False,
            "remove": True,
        },
        "netDevices": {"eth1": {"name": "net1"}, "eth2": {}, "eth3": None, "-eth4": None},
        "memoryPolicy": {"mode": "MPOL_BIND", "nodes": "0-1", "flags": ["MPOL_F_STATIC_NODES"]},
    },
}
UPDATES = [
    {"id": "other", "resources": RESOURCES, "ignoreFailure": True},
    {"id": "third", "resources": {}},
]


def merged(*documents: dict[str, Any], by: str = ascii_lowercase) -> dict[str, Any]:
    """Return the documents of several plugins, put together.

    :param by: the plugins, a letter each.
    :raises AdjustError: two of them set the same.
    """
    changes = Changes(Abilities(), {})
    for plugin, each in zip(by, documents, strict=False):
        result = Result(plugin=plugin, adjust=copy.deepcopy(each))
        changes.take(plugin, Request(state="setup", id="own"), result)
    return changes.adjust
