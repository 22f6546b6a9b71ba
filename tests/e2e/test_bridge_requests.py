"""What plugins are sent through the bridge, field by field beside what the Go adapter sent on the same runtimes."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.containerd import image
from harness.containerd.bridged import configure, prepared
from harness.containerd.instance import Containerd, Release
from nri.testing import recorded
from tests.e2e.standin import StandIn

pytestmark = pytest.mark.runtime

RECORDED = {(1, 7): "containerd-1.7.24-adapter", (2,): "containerd-2.1.9-adapter"}
UID = "0d9c5a4e-7b1e-4a53-9a0e-6f0f4b1f2f11"
IMAGE = "docker.io/local/pause:1"


def recorded_on(release: Release, what: str) -> dict[str, Any]:
    name = next(
        name for version, name in RECORDED.items() if release.version[: len(version)] == version
    )
    return recorded(f"{name}.{what}")


def alike(request: dict[str, Any], ids: dict[str, str], parent: str) -> dict[str, Any]:
    """The request with what differs from run to run by the names of the recorded run."""
    text = json.dumps(request)
    for mine, theirs in {**ids, parent: "/kubepods", image.NAME: IMAGE}.items():
        text = text.replace(mine, theirs)
    known: dict[str, Any] = json.loads(text)
    return known


def without_numbers(request: dict[str, Any]) -> dict[str, Any]:
    """The request without process ids: whether there is one, and where."""
    spec = request["spec"]
    paths = {kind: path.split("/")[-1] for kind, path in spec.get("namespaces", {}).items()}
    return {**request, "pid": request.get("pid", 0) > 0, "spec": {**spec, "namespaces": paths}}


def test_requests_equal_the_recorded_ones(
    containerd_v2: Release, installed: Path, tmp_path: Path
) -> None:
    annotations, labels = {"qos.class": "ls"}, {"app": "web", "tier": "front"}
    cpu: dict[str, Any] = {"cpu_shares": 512, "cpu_quota": 50_000, "cpu_period": 100_000}
    with (
        Containerd(release=containerd_v2, prepare=prepared(installed)) as containerd,
        containerd.cri() as cri,
    ):
        keeper = StandIn(containerd.enclosure.opt_nri / "bin", "keeper", tmp_path / "kept")
        configure(containerd, {"type": "keeper", "conf": {"a": [0, 1]}})
        pod = cri.run_pod(
            "web",
            uid=UID,
            log_directory="/var/log/pods/default_web_0",
            annotations=annotations,
            labels=labels,
        )
        container = cri.create_container(
            pod, "app", image=image.NAME, command=image.FOREVER, annotations=annotations, **cpu
        )
        cri.start(container)
        cri.update_resources(container, cpu_shares=700, cpu_quota=70_000, cpu_period=100_000)
        cri.stop(container)
        cri.stop_pod(pod)
        parent = containerd.enclosure.cgroup_parent

    pod_create, container_create, container_delete, pod_delete = keeper.requests()
    theirs = recorded_on(containerd_v2, "container-create")
    ids = {pod: theirs["sandboxID"], container: theirs["id"]}
    of_pod = recorded_on(containerd_v2, "pod-create")
    assert of_pod["id"] == theirs["sandboxID"]
    assert without_numbers(alike(pod_create, ids, parent)) == without_numbers(of_pod)
    # Better: a plugin gets its own last result.
    assert (
        container_delete.pop("prevResult")["plugin"]
        == pod_delete.pop("prevResult")["plugin"]
        == "keeper"
    )
    for mine, what in (
        (container_create, "container-create"),
        (container_delete, "container-delete"),
    ):
        expected = recorded_on(containerd_v2, what)
        # Better: the pod's annotations are the container's as well, and those that are its own are known.
        expected["ownAnnotations"] = sorted(
            expected["spec"]["annotations"].keys() - of_pod["spec"]["annotations"].keys()
        )
        expected["spec"]["annotations"] = (
            of_pod["spec"]["annotations"] | expected["spec"]["annotations"]
        )
        assert without_numbers(alike(mine, ids, parent)) == without_numbers(expected), what
    # Better: a pod's end is told with all that its beginning was. The adapter had no pid, and on 1.7 next to nothing.
    assert without_numbers(alike(pod_delete, ids, parent)) == without_numbers(
        {**of_pod, "state": "delete"}
    )
    assert pod_delete["pid"] == pod_create["pid"]
    their_delete = recorded_on(containerd_v2, "pod-delete")
    assert "pid" not in their_delete
