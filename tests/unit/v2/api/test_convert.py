"""v2 resources and namespaces in OCI's words: byte for byte what the Go adapter wrote."""

import json
from typing import Any

import pytest

from nri.testing import recorded, recordings
from nri.v2 import api
from nri.v2.api import convert

GOLDEN = recordings("*adapter*")
SHARES = {"shares": {"value": 512}, "quota": {"value": 50000}, "period": {"value": 100000}}


def spec(name: str) -> Any:
    return recorded(name)["spec"]


def from_oci(oci: Any) -> dict[str, Any]:
    """The v2 message that the runtime must have sent for ``oci`` to come out."""
    known = {"devices", "memory", "cpu"}
    assert set(oci) <= known, f"the golden requests have more than {known} now"
    return {
        "devices": [{"allow": rule["allow"], "access": rule["access"]} for rule in oci.get("devices", [])],
        "memory": {key: {"value": value} for key, value in oci["memory"].items()},
        "cpu": {key: {"value": value} for key, value in oci["cpu"].items()},
    }


def test_resources_and_namespaces_come_out_as_in_the_adapters_requests() -> None:
    assert len(GOLDEN) == 8
    for name in GOLDEN:
        oci, namespaces = spec(name)["resources"], spec(name).get("namespaces", {})
        linux = api.LinuxContainer() if oci is None else api.LinuxContainer(resources=from_oci(oci))
        sent = api.LinuxContainer.FromString(linux.SerializeToString())
        assert json.dumps(convert.resources_to_oci(convert.resources_of(sent))) == json.dumps(oci)
        pod = api.LinuxPodSandbox(namespaces=[{"type": kind, "path": path} for kind, path in namespaces.items()])
        assert convert.namespaces_to_paths(pod.namespaces) == namespaces


EVERYTHING: tuple[dict[str, Any], str] = (
    {
        "memory": {
            "limit": {"value": 1 << 30},
            "reservation": {"value": 1 << 29},
            "swap": {"value": -1},
            "kernel": {"value": 1},
            "kernel_tcp": {"value": 2},
            "swappiness": {"value": 60},
            "disable_oom_killer": {"value": True},
            "use_hierarchy": {"value": True},
        },
        "cpu": SHARES
        | {
            "realtime_runtime": {"value": 950000},
            "realtime_period": {"value": 1000000},
            "cpus": "0-3,8",
            "mems": "0",
        },
        "hugepage_limits": [{"page_size": "2MB", "limit": 1 << 21}, {"page_size": "1GB", "limit": 0}],
        "blockio_class": {"value": "slow"},
        "rdt_class": {"value": "gold"},
        "unified": {"memory.high": "1", "cpu.idle": "1"},
        "devices": [
            {"allow": False, "access": "rwm"},
            {"allow": True, "type": "c", "major": {"value": 1}, "minor": {"value": 3}, "access": "rw"},
        ],
        "pids": {"limit": 100},
    },
    (
        '{"devices": [{"allow": false, "access": "rwm"},'
        ' {"allow": true, "type": "c", "major": 1, "minor": 3, "access": "rw"}],'
        ' "memory": {"limit": 1073741824, "reservation": 536870912, "swap": -1, "kernel": 1, "kernelTCP": 2,'
        ' "swappiness": 60, "disableOOMKiller": true, "useHierarchy": true},'
        ' "cpu": {"shares": 512, "quota": 50000, "period": 100000, "realtimeRuntime": 950000,'
        ' "realtimePeriod": 1000000,'
        ' "cpus": "0-3,8", "mems": "0"},'
        ' "pids": {"limit": 100},'
        ' "hugepageLimits": [{"pageSize": "2MB", "limit": 2097152}, {"pageSize": "1GB", "limit": 0}],'
        ' "unified": {"cpu.idle": "1", "memory.high": "1"}}'
    ),
)
ZERO = {"value": 0}
TABLE = {
    "everything": EVERYTHING,
    "zero is set": (
        {"memory": {"limit": ZERO, "disable_oom_killer": {}}, "cpu": {"quota": ZERO, "shares": {}}},
        '{"memory": {"limit": 0, "disableOOMKiller": false}, "cpu": {"shares": 0, "quota": 0}}',
    ),
    "pids": ({"pids": {}}, '{"memory": {}, "cpu": {}, "pids": {"limit": 0}}'),
    "pids without a limit": ({"pids": {"limit": -1}}, '{"memory": {}, "cpu": {}, "pids": {}}'),
    "a device rule for all": ({"devices": [{}]}, '{"devices": [{"allow": false}], "memory": {}, "cpu": {}}'),
    "a device rule for number 0": (
        {"devices": [{"allow": True, "type": "b", "major": ZERO, "minor": ZERO}]},
        '{"devices": [{"allow": true, "type": "b", "major": 0, "minor": 0}], "memory": {}, "cpu": {}}',
    ),
}


@pytest.mark.parametrize(("message", "oci"), TABLE.values(), ids=TABLE)
def test_resources_come_out_as_go_writes_them(message: Any, oci: Any) -> None:
    assert json.dumps(convert.resources_to_oci(api.LinuxResources(**message))) == oci


def test_the_case_of_everything_has_every_field() -> None:
    everything = api.LinuxResources(**EVERYTHING[0])
    for message in (everything, everything.memory, everything.cpu, everything.devices[1], everything.pids):
        assert {field.name for field, _ in message.ListFields()} == set(message.DESCRIPTOR.fields_by_name)


def test_reading_what_is_absent_does_not_make_it_present() -> None:
    pod = api.PodSandbox(id="6efd")
    assert convert.resources_of(pod.linux) is None
    assert convert.namespaces_to_paths(pod.linux.namespaces) == {}
    assert convert.resources_to_oci(None) is None
    assert convert.resources_to_oci(api.LinuxResources()) == {"memory": {}, "cpu": {}}
    assert pod == api.PodSandbox(id="6efd")
    for linux in (api.LinuxPodSandbox, api.LinuxContainer):
        assert convert.resources_of(linux(resources={})) == api.LinuxResources()
