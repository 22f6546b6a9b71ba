"""v2 resources and namespaces in OCI's words: byte for byte what the Go adapter wrote."""

import json

from nri.v2 import api
from nri.v2.api import convert
from tests.unit.adjust.documents import RESOURCES
from tests.unit.v2.api.test_from_oci import MESSAGE

NOT_NRIS = ("checkBeforeUpdate", "burst", "idle")


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
