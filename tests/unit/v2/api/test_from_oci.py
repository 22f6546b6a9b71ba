"""Changes in OCI's words become the v2 messages that mean the same, and a container becomes OCI's words."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import json_format

from nri.adjust.document import ADJUST
from nri.adjust.fields import FIELDS, walk
from nri.adjust.reading import read_adjust
from nri.types.oci_values import HOOKS
from nri.v2 import api
from nri.v2.api import from_oci
from nri.v2.api.oci_config import container_to_oci

HOOK = {"path": "/bin/hook", "args": ["hook", "-v"], "env": ["A=1"], "timeout": 5}
RESOURCES: dict[str, Any] = {
    "memory": {
        "limit": 1,
        "reservation": 2,
        "swap": 3,
        "kernel": 4,
        "kernelTCP": 5,
        "swappiness": 0,
        "disableOOMKiller": False,
        "useHierarchy": True,
    },
    "cpu": {
        "shares": 0,
        "quota": -1,
        "period": 100,
        "realtimeRuntime": 7,
        "realtimePeriod": 8,
        "cpus": "0-1",
        "mems": "0",
    },
    "pids": {"limit": 0},
    "hugepageLimits": [{"pageSize": "2MB", "limit": 9}],
    "unified": {"memory.high": "max"},
    "devices": [{"allow": True, "type": "c", "major": 1, "minor": 0, "access": "rw"}, {"allow": False}],
    "blockioClass": "",
    "rdtClass": "gold",
}
FULL: dict[str, Any] = {
    "annotations": {"a": "1", "gone": None, "-taken": None, "taken": "2"},
    "env": {"A": "", "GONE": None},
    "args": ["", "sh"],
    "mounts": {"/data": {"type": "bind", "source": "/srv", "options": ["rbind"]}, "/gone": None},
    "hooks": {kind: [HOOK] for kind in HOOKS},
    "rlimits": [{"type": "RLIMIT_CORE", "hard": 2**64 - 1, "soft": 0}],
    "cdiDevices": ["vendor.com/class=one"],
    "scheduler": {
        "policy": "SCHED_DEADLINE",
        "flags": ["SCHED_FLAG_RECLAIM"],
        "runtime": 1,
        "deadline": 2,
        "period": 3,
    },
    "linux": {
        "devices": [
            {"path": "/dev/x", "type": "c", "major": 1, "minor": 3, "fileMode": 0, "uid": 0, "gid": 5},
            {"path": "/dev/gone", "remove": True},
        ],
        "resources": RESOURCES,
        "cgroupsPath": "/there",
        "oomScoreAdj": 0,
        "sysctl": {"net.x": "1", "net.gone": None},
        "namespaces": [{"type": "ipc", "path": "/proc/1/ns/ipc"}, {"type": "uts", "remove": True}],
        "seccomp": {
            "defaultAction": "SCMP_ACT_ERRNO",
            "defaultErrnoRet": 0,
            "architectures": ["SCMP_ARCH_X86_64"],
            "flags": ["SECCOMP_FILTER_FLAG_LOG"],
            "listenerPath": "/run/agent",
            "listenerMetadata": "m",
            "syscalls": [
                {
                    "names": ["mkdir"],
                    "action": "SCMP_ACT_ERRNO",
                    "errnoRet": 0,
                    "args": [{"index": 1, "value": 2, "valueTwo": 3, "op": "SCMP_CMP_EQ"}],
                }
            ],
        },
        "ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 4},
        "intelRdt": {"closID": "", "schemata": ["L3:0=f"], "enableMonitoring": False, "remove": True},
        "netDevices": {"eth1": {"name": "net0"}, "gone": None},
        "memoryPolicy": {"mode": "MPOL_BIND", "nodes": "0-1", "flags": ["MPOL_F_STATIC_NODES"]},
    },
}
"""Every field that NRI v2 has, with values that are easily taken for missing ones."""

HOOK_MESSAGE = {"path": "/bin/hook", "args": ["hook", "-v"], "env": ["A=1"], "timeout": {"value": "5"}}
MESSAGE = {
    "annotations": {"a": "1", "-gone": "", "-taken": "", "taken": "2"},
    "mounts": [
        {"destination": "/data", "type": "bind", "source": "/srv", "options": ["rbind"]},
        {"destination": "-/gone"},
    ],
    "env": [{"key": "-GONE"}, {"key": "A"}],
    "hooks": {field.name: [HOOK_MESSAGE] for field in api.Hooks.DESCRIPTOR.fields},
    "rlimits": [{"type": "RLIMIT_CORE", "hard": "18446744073709551615"}],
    "CDI_devices": [{"name": "vendor.com/class=one"}],
    "args": ["", "sh"],
    "linux": {
        "devices": [
            {
                "path": "/dev/x",
                "type": "c",
                "major": "1",
                "minor": "3",
                "file_mode": {},
                "uid": {},
                "gid": {"value": 5},
            },
            {"path": "-/dev/gone"},
        ],
        "resources": {
            "memory": {
                "limit": {"value": "1"},
                "reservation": {"value": "2"},
                "swap": {"value": "3"},
                "kernel": {"value": "4"},
                "kernel_tcp": {"value": "5"},
                "swappiness": {},
                "disable_oom_killer": {},
                "use_hierarchy": {"value": True},
            },
            "cpu": {
                "shares": {},
                "quota": {"value": "-1"},
                "period": {"value": "100"},
                "realtime_runtime": {"value": "7"},
                "realtime_period": {"value": "8"},
                "cpus": "0-1",
                "mems": "0",
            },
            "hugepage_limits": [{"page_size": "2MB", "limit": "9"}],
            "blockio_class": {},
            "rdt_class": {"value": "gold"},
            "unified": {"memory.high": "max"},
            "devices": [{"allow": True, "type": "c", "major": {"value": "1"}, "minor": {}, "access": "rw"}, {}],
            "pids": {},
        },
        "cgroups_path": "/there",
        "oom_score_adj": {},
        "io_priority": {"class": "IOPRIO_CLASS_BE", "priority": 4},
        "seccomp_policy": {
            "default_action": "SCMP_ACT_ERRNO",
            "default_errno": {},
            "architectures": ["SCMP_ARCH_X86_64"],
            "flags": ["SECCOMP_FILTER_FLAG_LOG"],
            "listener_path": "/run/agent",
            "listener_metadata": "m",
            "syscalls": [
                {
                    "names": ["mkdir"],
                    "action": "SCMP_ACT_ERRNO",
                    "errno_ret": {},
                    "args": [{"index": 1, "value": "2", "value_two": "3", "op": "SCMP_CMP_EQ"}],
                }
            ],
        },
        "namespaces": [{"type": "ipc", "path": "/proc/1/ns/ipc"}, {"type": "-uts"}],
        "sysctl": {"-net.gone": "", "net.x": "1"},
        "net_devices": {"eth1": {"name": "net0"}, "-gone": {}},
        "scheduler": {
            "policy": "SCHED_DEADLINE",
            "flags": ["SCHED_FLAG_RECLAIM"],
            "runtime": "1",
            "deadline": "2",
            "period": "3",
        },
        "rdt": {"clos_id": {}, "schemata": {"value": ["L3:0=f"]}, "enable_monitoring": {}, "remove": True},
        "memory_policy": {"mode": "MPOL_BIND", "nodes": "0-1", "flags": ["MPOL_F_STATIC_NODES"]},
    },
}


def test_every_field_becomes_that_of_the_message() -> None:
    message = from_oci.adjustment(read_adjust(FULL))
    assert json_format.MessageToDict(message, preserving_proto_field_name=True) == MESSAGE


def test_the_document_has_every_field_that_nri_applies() -> None:
    assert ADJUST.accepts(FULL)
    named = {field.name for field, _ in walk(FULL)}
    assert {field.name for field in FIELDS if field.nri < (1, 0)} <= named


def test_nothing_becomes_nothing() -> None:
    assert from_oci.adjustment({}) == api.ContainerAdjustment()


def test_an_update_is_of_its_container() -> None:
    update = from_oci.update({"id": "b", "resources": {"cpu": {"shares": 2}}, "ignoreFailure": True})
    assert update.container_id == "b"
    assert update.ignore_failure
    assert update.linux.resources.cpu.shares.value == 2


CONTAINER: dict[str, Any] = (
    {key: MESSAGE[key] for key in ("hooks", "rlimits", "args")}
    | {
        "env": ["A=1"],
        "mounts": [{"destination": "/data", "type": "bind", "source": "/srv", "options": ["rbind"]}],
        "user": {"uid": 1, "gid": 2, "additional_gids": [3]},
        "linux": {
            key: MESSAGE["linux"][key]  # type: ignore[index]
            for key in ("oom_score_adj", "io_priority", "seccomp_policy", "scheduler", "cgroups_path")
        }
        | {
            "devices": MESSAGE["linux"]["devices"][:1],  # type: ignore[index]
            "namespaces": [{"type": "ipc", "path": "/proc/1/ns/ipc"}, {"type": "pid"}],
            "sysctl": {"net.x": "1"},
            "net_devices": {"eth1": {"name": "net0"}},
            "rdt": {"clos_id": {}, "schemata": {"value": ["L3:0=f"]}, "enable_monitoring": {}},
        },
    }
)


def test_a_container_in_ocis_words_is_what_was_asked_for() -> None:
    config = container_to_oci(json_format.ParseDict(CONTAINER, api.Container()), {"a": "1"})
    linux = FULL["linux"]
    assert config == {
        "annotations": {"a": "1"},
        "process": {
            "args": ["", "sh"],
            "env": ["A=1"],
            "user": {"uid": 1, "gid": 2, "additionalGids": [3]},
            "rlimits": FULL["rlimits"],
            "oomScoreAdj": 0,
            "ioPriority": linux["ioPriority"],
            "scheduler": FULL["scheduler"],
        },
        "mounts": [{"destination": "/data", **FULL["mounts"]["/data"]}],
        "hooks": FULL["hooks"],
        "linux": {
            "resources": None,
            "namespaces": [{"type": "ipc", "path": "/proc/1/ns/ipc"}, {"type": "pid"}],
            "cgroupsPath": "/there",
            "devices": linux["devices"][:1],
            "sysctl": {"net.x": "1"},
            "netDevices": {"eth1": {"name": "net0"}},
            "seccomp": linux["seccomp"],
            "intelRdt": {"closID": "", "schemata": ["L3:0=f"], "enableMonitoring": False},
        },
    }


@pytest.mark.parametrize("container", [api.Container(), api.Container(id="a", linux={})])
def test_a_container_of_which_little_is_known_has_little(container: api.Container) -> None:
    config = container_to_oci(container, {})
    assert config["process"] == {"args": [], "env": []}
    assert "hooks" not in config
