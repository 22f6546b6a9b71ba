"""The fields that each runtime can apply, and the reasons that plugins get for the others."""

from typing import Any

import pytest

from nri.adjust import Abilities, NRIAbilities, OCIAbilities
from nri.adjust.fields import FIELDS, UPDATED_BY_NRI, UPDATED_BY_OCI

CONTAINERD, RUNC = NRIAbilities("containerd 1.7.1", (0, 3)), OCIAbilities("runc", lambda: (1, 0))


def field(name: str) -> Any:
    return next(each for each in FIELDS if each.name == name)


def applied(abilities: Abilities) -> set[str]:
    return {each.name for each in FIELDS if not abilities.why_no_field(each, None)}


def updated(abilities: Abilities) -> set[str]:
    return {each.name for each in FIELDS if not abilities.why_no_updated_field(each)}


def test_a_runtime_applies_the_fields_up_to_its_version() -> None:
    for minor in range(2, 13):
        nri = NRIAbilities("containerd 2.0", (0, minor))
        assert applied(nri) == {each.name for each in FIELDS if each.nri <= (0, minor)}
        assert updated(nri) == UPDATED_BY_NRI
    for minor in range(4):
        version = (1, minor)
        known = {each.name for each in FIELDS if each.oci is not None and each.oci <= version}
        oci = OCIAbilities("runc", lambda version=version: version)  # type: ignore[misc]
        assert applied(oci) == known
        assert updated(oci) == UPDATED_BY_OCI & known


def test_oci_version_is_asked_for_only_for_newer_fields() -> None:
    def version() -> tuple[int, int]:
        raise LookupError

    abilities = OCIAbilities("runc", version)
    assert abilities.why_no_field(field("env"), None) == ""
    with pytest.raises(LookupError):
        abilities.why_no_field(field("scheduler"), None)


def test_refused_field_has_a_reason() -> None:
    reason = "containerd 1.7.1 has NRI 0.3, which does not apply it; NRI 0.4 does"
    assert CONTAINERD.why_no_field(field("rlimits"), None) == reason
    reason = "no NRI v2 runtime applies it to a container that it creates"
    assert CONTAINERD.why_no_field(field("linux.resources.rdma"), None) == reason
    reason = "runc implements version 1.0 of the OCI runtime specification; expected 1.3 or newer"
    assert RUNC.why_no_field(field("linux.netDevices"), None) == reason
    assert "expected a runtime with NRI 0.7 or newer" in RUNC.why_no_field(
        field("cdiDevices"), None
    )
    assert "expected a runtime with NRI 0.2 or newer" in RUNC.why_no_field(
        field("linux.resources.rdtClass"), None
    )


def test_refused_update_has_a_reason() -> None:
    rdma = field("linux.resources.rdma")
    assert (
        CONTAINERD.why_no_updated_field(rdma)
        == "no NRI v2 runtime applies it to a container that exists"
    )
    assert (
        RUNC.why_no_updated_field(rdma) == "OCI runtimes do not apply it to a container that exists"
    )
    assert CONTAINERD.why_no_update(is_sandbox=False) == RUNC.why_no_update(is_sandbox=True) == ""
    sandbox = "NRI v2 has no updates in answer to an event of a sandbox"
    assert CONTAINERD.why_no_update(is_sandbox=True) == sandbox
