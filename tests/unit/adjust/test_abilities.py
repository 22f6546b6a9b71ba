"""The fields that each runtime can apply, and the reasons that plugins get for the others."""

from typing import Any

import pytest

from nri.adjust import Abilities, NRIAbilities, OCIAbilities
from nri.adjust.fields import FIELDS, NEVER

Version = tuple[int, int]

NEW_IN_NRI: dict[Version, set[str]] = {
    (0, 2): {
        "annotations", "env", "mounts", "hooks.prestart", "hooks.createRuntime", "hooks.createContainer",
        "hooks.startContainer", "hooks.poststart", "hooks.poststop", "linux.devices", "linux.cgroupsPath",
        "linux.resources.memory.limit", "linux.resources.cpu.shares", "linux.resources.cpu.quota",
        "linux.resources.cpu.period", "linux.resources.cpu.realtimeRuntime", "linux.resources.cpu.realtimePeriod",
        "linux.resources.cpu.cpus", "linux.resources.cpu.mems", "linux.resources.hugepageLimits",
        "linux.resources.unified", "linux.resources.blockioClass", "linux.resources.rdtClass",
    },
    (0, 3): set(),
    (0, 4): {"rlimits"},
    (0, 6): set(),
    (0, 7): {"cdiDevices", "linux.oomScoreAdj", "linux.resources.pids.limit"},
    (0, 9): set(),
    (0, 10): {
        "args", "linux.namespaces", "linux.seccomp", "linux.ioPriority", "linux.resources.devices",
    },
    (0, 11): {
        "scheduler", "linux.sysctl", "linux.netDevices", "linux.intelRdt.remove", "linux.intelRdt.closID",
        "linux.intelRdt.schemata", "linux.intelRdt.enableMonitoring",
    },
    (0, 12): {"linux.memoryPolicy"},
}  # fmt: skip
"""The Adjust functions of pkg/runtime-tools/generate in the tags of containerd/nri."""

NEW_IN_OCI: dict[Version, set[str]] = {
    (1, 0): set(),
    (1, 1): {
        "scheduler", "linux.ioPriority", "linux.resources.cpu.burst", "linux.resources.cpu.idle",
        "linux.resources.memory.checkBeforeUpdate",
    },
    (1, 2): set(),
    (1, 3): {
        "linux.intelRdt.schemata", "linux.intelRdt.enableMonitoring", "linux.netDevices", "linux.memoryPolicy",
    },
}  # fmt: skip

UPDATED_BY_NRI = {
    "cpu.shares", "cpu.quota", "cpu.period", "cpu.cpus", "cpu.mems", "memory.limit", "unified", "hugepageLimits",
}  # fmt: skip
UPDATED_BY_OCI = UPDATED_BY_NRI - {"hugepageLimits"} | {
    "cpu.realtimeRuntime", "cpu.realtimePeriod", "cpu.burst", "cpu.idle", "pids.limit", "memory.reservation",
    "memory.swap", "memory.checkBeforeUpdate",
}  # fmt: skip


def runc(version: Version) -> OCIAbilities:
    return OCIAbilities("runc", lambda: version)


CONTAINERD, RUNC = NRIAbilities("containerd 1.7.1", (0, 3)), runc((1, 0))


def field(name: str) -> Any:
    return next(each for each in FIELDS if each.name == name)


def applied(abilities: Abilities) -> set[str]:
    return {each.name for each in FIELDS if not abilities.why_no_field(each)}


def updated(abilities: Abilities) -> set[str]:
    resources = "linux.resources."
    names = {each.name for each in FIELDS if not abilities.why_no_updated_field(each)}
    assert all(name.startswith(resources) for name in names)
    return {name.removeprefix(resources) for name in names}


def test_nri_runtime_applies_fields_up_to_its_version() -> None:
    known: set[str] = set()
    for version, new in NEW_IN_NRI.items():
        known |= new
        assert applied(NRIAbilities("containerd 2.0", version)) == known
    assert {each.nri for each in FIELDS} <= {*NEW_IN_NRI, NEVER}


def test_oci_runtime_applies_the_fields_of_its_specification() -> None:
    known = {each.name for each in FIELDS} - set().union(*NEW_IN_OCI.values())
    known -= {"linux.resources.blockioClass", "linux.resources.rdtClass", "cdiDevices"}
    for version, new in NEW_IN_OCI.items():
        known |= new
        assert applied(runc(version)) == known
    assert {each.oci for each in FIELDS} <= {None, *NEW_IN_OCI}


def test_fewer_fields_are_applied_to_a_container_that_exists() -> None:
    assert updated(NRIAbilities("containerd 2.0", (0, 12))) == UPDATED_BY_NRI
    assert updated(runc((1, 3))) == UPDATED_BY_OCI
    assert updated(RUNC) == UPDATED_BY_OCI - {"cpu.burst", "cpu.idle", "memory.checkBeforeUpdate"}


def test_oci_version_is_asked_for_only_for_newer_fields() -> None:
    def version() -> Version:
        raise LookupError

    abilities = OCIAbilities("runc", version)
    assert abilities.why_no_field(field("env")) == ""
    with pytest.raises(LookupError):
        abilities.why_no_field(field("scheduler"))


@pytest.mark.parametrize(
    ("abilities", "name", "reason"),
    [
        (Abilities(), "env", "this host cannot change containers"),
        (CONTAINERD, "rlimits", "containerd 1.7.1 has NRI 0.3, which does not apply it; NRI 0.4 does"),
        (CONTAINERD, "linux.resources.rdma", "no NRI v2 runtime applies it to a container that it creates"),
        (
            RUNC,
            "linux.netDevices",
            "runc implements version 1.0 of the OCI runtime specification; expected 1.3 or newer",
        ),
        (
            RUNC,
            "cdiDevices",
            (
                "the OCI runtime specification does not have it; expected a runtime with NRI 0.7 or newer, "
                "which applies it"
            ),
        ),
    ],
)
def test_refused_field_has_a_reason(abilities: Abilities, name: str, reason: str) -> None:
    assert abilities.why_no_field(field(name)) == reason


def test_refused_field_of_an_update_has_a_reason() -> None:
    limit = field("linux.resources.rdma")
    assert Abilities().why_no_updated_field(limit) == "this host cannot change containers"
    assert CONTAINERD.why_no_updated_field(limit) == "no NRI v2 runtime applies it to a container that exists"
    assert RUNC.why_no_updated_field(limit) == "OCI runtimes do not apply it to a container that exists"
    assert applied(Abilities()) == updated(Abilities()) == set()
    assert Abilities().why_no_update("setup", is_sandbox=False) == "this host cannot change containers"
    assert CONTAINERD.why_no_update("resize", is_sandbox=False) == RUNC.why_no_update("setup", is_sandbox=True) == ""
    sandbox = "NRI v2 has no updates in answer to an event of a sandbox"
    assert CONTAINERD.why_no_update("setup", is_sandbox=True) == sandbox
