"""The names of pods' cgroups."""

from __future__ import annotations

import pytest

from nri.cgroups.paths import is_pod

UID = "0b1a2c3d-1111-2222-3333-444455556666"


@pytest.mark.parametrize(
    "path",
    [
        f"/kubepods/pod{UID}",
        f"/kubepods/burstable/pod{UID}",
        f"/kubepods/besteffort/pod{UID.replace('-', '')}",
        f"/kubelet/kubepods/burstable/pod{UID}",
        f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice",
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice",
        "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort-podab_cd.slice",
    ],
)
def test_a_pods_cgroup_is_known_by_its_name(path: str) -> None:
    assert is_pod(path)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/kubepods",
        "/kubepods/burstable",
        "/kubepods/besteffort",
        "/kubepods.slice",
        "/kubepods.slice/kubepods-burstable.slice",
        "/kubepods/pod",
        "/kubepods.slice/kubepods-pod.slice",
        f"/kubepods/burstable/pod{UID}/abc",
        f"/pod{UID}",
        f"/docker/pod{UID}",
        f"/burstable/pod{UID}",
        f"/mykubepods/pod{UID}",
        f"/kubepods/pod{UID}.scope/podman",
        "/system.slice/podman.service",
        "/machine.slice/libpod-abc.scope",
        "/x.slice/mykubepods-pod1.slice",
        "/kubepods.slice/kubepods-burstable-podä.slice",
    ],
)
def test_no_other_name_counts_as_a_pods(path: str) -> None:
    assert not is_pod(path)
