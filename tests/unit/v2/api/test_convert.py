"""v2 resources and namespaces in OCI's words: byte for byte what the Go adapter wrote."""

import json
from typing import Any

from nri.testing import recorded, recordings
from nri.v2 import api
from nri.v2.api import convert
from tests.unit.adjust.documents import RESOURCES
from tests.unit.v2.api.test_from_oci import MESSAGE

GOLDEN = recordings("*adapter*")
NOT_NRIS = ("checkBeforeUpdate", "burst", "idle")


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


def test_resources_and_namespaces_match_the_adapters_requests() -> None:
    assert len(GOLDEN) == 8
    for name in GOLDEN:
        oci, namespaces = spec(name)["resources"], spec(name).get("namespaces", {})
        linux = api.LinuxContainer() if oci is None else api.LinuxContainer(resources=from_oci(oci))
        sent = api.LinuxContainer.FromString(linux.SerializeToString())
        assert json.dumps(convert.resources_to_oci(convert.resources_of(sent))) == json.dumps(oci)
        pod = api.LinuxPodSandbox(namespaces=[{"type": kind, "path": path} for kind, path in namespaces.items()])
        assert convert.namespaces_to_paths(pod.namespaces) == namespaces


EVERYTHING = api.LinuxResources(**MESSAGE["linux"]["resources"])


def test_everything_comes_out_in_gos_order_zeros_too() -> None:
    for message in (EVERYTHING, EVERYTHING.memory, EVERYTHING.cpu, EVERYTHING.devices[1]):
        assert {field.name for field, _ in message.ListFields()} == set(message.DESCRIPTOR.fields_by_name)
    memory, cpu = (
        {key: item for key, item in RESOURCES[part].items() if key not in NOT_NRIS} for part in ("memory", "cpu")
    )
    oci = {"devices": RESOURCES["devices"], "memory": memory, "cpu": cpu}
    oci |= {key: RESOURCES[key] for key in ("pids", "hugepageLimits", "unified")}
    assert json.dumps(convert.resources_to_oci(EVERYTHING)) == json.dumps(oci)


def test_pids_without_a_limit_are_an_empty_object() -> None:
    oci = convert.resources_to_oci(api.LinuxResources(pids={"limit": -1}))
    assert oci == {"memory": {}, "cpu": {}, "pids": {}}


def test_reading_what_is_absent_does_not_make_it_present() -> None:
    pod = api.PodSandbox(id="6efd")
    assert convert.resources_of(pod.linux) is None
    assert convert.namespaces_to_paths(pod.linux.namespaces) == {}
    assert convert.resources_to_oci(None) is None
    assert convert.resources_to_oci(api.LinuxResources()) == {"memory": {}, "cpu": {}}
    assert pod == api.PodSandbox(id="6efd")
    for linux in (api.LinuxPodSandbox, api.LinuxContainer):
        assert convert.resources_of(linux(resources={})) == api.LinuxResources()
