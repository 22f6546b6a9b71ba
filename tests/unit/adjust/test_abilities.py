"""Which runtime applies which field, and the reasons that plugins get."""

from __future__ import annotations

from typing import Any

import pytest

from nri.adjust import Abilities, NRIAbilities, OCIAbilities
from nri.adjust.fields import FIELDS, NEVER

NEW_IN_NRI: dict[tuple[int, int], set[str]] = {
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
    (0, 5): set(),
    (0, 6): set(),
    (0, 7): {"cdiDevices", "linux.oomScoreAdj", "linux.resources.pids.limit"},
    (0, 8): set(),
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
"""The Adjust functions of pkg/runtime-tools/generate in each version's tag of containerd/nri."""

NEW_IN_OCI = {
    (1, 1): {
        "scheduler", "linux.ioPriority", "linux.resources.cpu.burst", "linux.resources.cpu.idle",
        "linux.resources.memory.checkBeforeUpdate",
    },
    (1, 3): {
        "linux.intelRdt.schemata", "linux.intelRdt.enableMonitoring", "linux.netDevices", "linux.memoryPolicy",
    },
}  # fmt: skip


def field(name: str) -> Any:
    return next(each for each in FIELDS if each.name == name)


def applied(abilities: Abilities) -> set[str]:
    return {each.name for each in FIELDS if not abilities.why_no_field(each)}


@pytest.mark.parametrize("version", NEW_IN_NRI)
def test_an_nri_applies_what_its_version_and_the_earlier_ones_brought(version: tuple[int, int]) -> None:
    known = set().union(*[new for since, new in NEW_IN_NRI.items() if since <= version])
    assert applied(NRIAbilities("containerd 2.0", version)) == known


@pytest.mark.parametrize("version", [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4)])
def test_an_oci_runtime_applies_what_its_specification_has(version: tuple[int, int]) -> None:
    newer = set().union(*[new for since, new in NEW_IN_OCI.items() if since > version])
    never = {"linux.resources.blockioClass", "linux.resources.rdtClass", "cdiDevices"}
    assert applied(OCIAbilities("runc", lambda: version)) == {each.name for each in FIELDS} - newer - never


def test_an_oci_runtime_is_asked_for_its_version_only_for_newer_fields() -> None:
    def version() -> tuple[int, int]:
        raise LookupError

    abilities = OCIAbilities("runc", version)
    assert abilities.why_no_field(field("env")) == ""
    with pytest.raises(LookupError):
        abilities.why_no_field(field("scheduler"))


def test_a_host_that_can_nothing_applies_nothing() -> None:
    assert applied(Abilities()) == set()
    assert Abilities().why_no_update("setup", is_sandbox=False) == "this host cannot update containers"


@pytest.mark.parametrize(
    ("abilities", "name", "reason"),
    [
        (Abilities(), "env", "this host cannot adjust containers"),
        (
            NRIAbilities("containerd 1.7.1", (0, 3)),
            "rlimits",
            "containerd 1.7.1 has NRI 0.3, which does not apply it; NRI 0.4 does",
        ),
        (
            NRIAbilities("x", (9, 9)),
            "linux.resources.rdma",
            "no NRI v2 runtime applies it to a container that it creates",
        ),
        (
            OCIAbilities("runc", lambda: (1, 0)),
            "linux.netDevices",
            "runc implements version 1.0 of the OCI runtime specification; expected 1.3 or newer",
        ),
        (OCIAbilities("runc", lambda: (1, 0)), "cdiDevices", "this host does not resolve CDI devices"),
        (
            OCIAbilities("runc", lambda: (1, 0)),
            "linux.resources.rdtClass",
            "the OCI runtime specification does not have it: an NRI v2 runtime resolves it",
        ),
    ],
)
def test_a_refusal_has_its_reason(abilities: Abilities, name: str, reason: str) -> None:
    assert abilities.why_no_field(field(name)) == reason


def test_cdi_devices_are_resolved_here_where_the_runtime_does_not_know_them() -> None:
    def resolve(names: list[str], config: dict[str, Any]) -> dict[str, Any]:
        return {}

    old, new = NRIAbilities("a", (0, 6), resolve), NRIAbilities("a", (0, 7), resolve)
    assert (old.resolve_cdi, new.resolve_cdi) == (resolve, None)
    assert old.why_no_field(field("cdiDevices")) == new.why_no_field(field("cdiDevices")) == ""
    assert NRIAbilities("a", (0, 6)).why_no_field(field("cdiDevices"))
    assert OCIAbilities("a", lambda: (1, 0), resolve).why_no_field(field("cdiDevices")) == ""


def test_nri_has_no_updates_for_sandboxes_and_an_oci_runtime_has() -> None:
    nri, oci = NRIAbilities("a", (0, 12)), OCIAbilities("a", lambda: (1, 0))
    assert nri.why_no_update("resize", is_sandbox=False) == oci.why_no_update("setup", is_sandbox=True) == ""
    assert nri.why_no_update("setup", is_sandbox=True) == "NRI v2 has no updates in answer to an event of a sandbox"


def test_every_version_is_known_or_never() -> None:
    assert {each.nri for each in FIELDS} <= {*NEW_IN_NRI, NEVER}
    assert {each.oci for each in FIELDS} <= {(1, 0), None, *NEW_IN_OCI}
