"""Paths of cgroups: what a cgroupsPath names, what proc prints, and which names are pods'."""

import pytest

from nri.cgroups import CgroupPathError
from nri.cgroups.paths import expand, is_pod, memberships

UID = "0b1a2c3d-1111-2222-3333-444455556666"

GOOD = {
    f"/kubepods/burstable/pod{UID}/abc": f"/kubepods/burstable/pod{UID}/abc",
    "default/redis": "/default/redis",
    "//a/./b//c/": "/a/b/c",
    "/a:b:c/d...e/..f": "/a:b:c/d...e/..f",
    "system.slice:cri-containerd:abc": "/system.slice/cri-containerd-abc.scope",
    ":docker:abc": "/system.slice/docker-abc.scope",
    "-:runc:abc": "/runc-abc.scope",
    "-.slice:runc:abc": "/runc-abc.scope",
    "system.slice::n": "/system.slice/-n.scope",
    "a.slice:p:n.slice": "/a.slice/n.slice",
    "kubepods-besteffort-pod1_2.slice:crio:ff": "/kubepods.slice/kubepods-besteffort.slice"
    "/kubepods-besteffort-pod1_2.slice/crio-ff.scope",
}

BAD = {
    "": "is empty",
    **dict.fromkeys(["/", ".", "//./"], "is the root cgroup"),
    **dict.fromkeys(["..", "/a/../b", "/a/.."], "holds '..'"),
    **dict.fromkeys(["/a\0b", "/a\nb", "/a\x7f", "/a\x9bb"], "control character"),
    "/a\ud800": "cannot be a file name",
    **dict.fromkeys(
        ["/" + "a" * 256, "/" + "ä" * 128, "a.slice:p:" + "n" * 255], "longer than 255 bytes"
    ),
    "/a" * 2049: "longer than 4096 bytes",
    "a:b": "has 1 colons",
    "a.slice:b:c:d": "has 3 colons",
    "a--b.slice:p:n": "'a--b.slice' is no slice",
    **dict.fromkeys(["-a.slice:p:n", "a-.slice:p:n", "--.slice:p:n", ".slice:p:n"], "is no slice"),
    **dict.fromkeys(["a/b.slice:p:n", "a/../b.slice:p:n", "a" * 250 + ".slice:p:n"], "is no slice"),
    "a:p:n": "'a' is no slice",
    "-".join("a" * 120) + ".slice:p:n": "makes a path longer than 4096 bytes",
    **dict.fromkeys(["a.slice:p:", "a.slice:p:.slice", "-:p:-.slice"], "makes no unit name"),
    **dict.fromkeys(["a.slice:../p:n", "a.slice:p:../n"], "makes no unit name"),
}


def test_a_cgroups_path_is_expanded() -> None:
    assert {path: expand(path) for path in GOOD} == GOOD


@pytest.mark.parametrize(("given_path", "message"), BAD.items(), ids=range(len(BAD)))
def test_a_path_that_cannot_be_a_containers_is_refused(given_path: str, message: str) -> None:
    with pytest.raises(CgroupPathError, match=message) as caught:
        expand(given_path)
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()


def test_proc_pid_cgroup_is_read_for_every_version() -> None:
    text = (
        "12:cpu,cpuacct:/a\n9:name=systemd:/s:with:colons\n3:cpuset:/b (deleted)\n0::/u\n"
        "\nbad\n4:memory:relative\n5::/no-controllers\n0:cpu:/zero\n"
    )
    assert memberships(text) == {
        "cpu": "/a",
        "cpuacct": "/a",
        "name=systemd": "/s:with:colons",
        "cpuset": "/b (deleted)",
        "": "/u",
    }


def test_a_pods_cgroup_is_known_by_its_name() -> None:
    for path in (
        f"/kubepods/pod{UID}",
        f"/kubepods/besteffort/pod{UID.replace('-', '')}",
        f"/kubelet/kubepods/burstable/pod{UID}",
        f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice",
        "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort-podab_cd.slice",
    ):
        assert is_pod(path), path


def test_no_other_name_counts_as_a_pods() -> None:
    for path in (
        "/",
        "/kubepods/burstable",
        "/kubepods.slice/kubepods-burstable.slice",
        "/kubepods/pod",
        "/kubepods.slice/kubepods-pod.slice",
        f"/kubepods/burstable/pod{UID}/abc",
        f"/pod{UID}",
        f"/burstable/pod{UID}",
        f"/mykubepods/pod{UID}",
        f"/kubepods/pod{UID}.scope/podman",
        "/machine.slice/libpod-abc.scope",
        "/x.slice/mykubepods-pod1.slice",
        "/kubepods.slice/kubepods-burstable-podä.slice",
    ):
        assert not is_pod(path), path
