"""containerd 1.6 runs v0.1 plugins itself: what it tells them, and what their answers do."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest

from harness.containerd import image
from harness.containerd.bridged import create, knob
from harness.containerd.cri import Cri
from harness.containerd.instance import Containerd, Release
from tests.e2e import unreserved
from tests.e2e.standin import StandIn

pytestmark = pytest.mark.runtime

RUNNING, EXITED = 1, 2  # ContainerState
REQUEST = {"conf", "version", "state", "id", "sandboxID", "pid", "spec"}
SPEC = {"resources", "namespaces", "cgroupsPath", "annotations"}
NAMESPACES = {"ipc", "mount", "pid"}  # a pod's; the network is the host's


class NativeNode(NamedTuple):
    containerd: Containerd
    cri: Cri
    plugin: StandIn

    def run_pod(self, name: str = "web", **more: Any) -> str:
        return self.cri.run_pod(name, **more)

    def run_container(self, pod: str, **resources: Any) -> str:
        container = self.cri.create_container(
            pod, "app", image=image.NAME, command=image.FOREVER, **resources
        )
        self.cri.start(container)
        return container

    def cgroup(self, identity: str) -> str:
        return f"{self.containerd.enclosure.cgroup_parent}/{identity}"


@pytest.fixture
def node(containerd_1_6: Release, tmp_path: Path) -> Iterator[NativeNode]:
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    plugin = StandIn(bin_dir, "standin", tmp_path / "kept")
    conf = {"version": "0.1", "plugins": [{"type": "standin", "conf": {"a": [0, 1]}}]}
    with (
        Containerd(bin_dir=bin_dir, conf=conf, release=containerd_1_6) as containerd,
        containerd.cri() as cri,
    ):
        yield NativeNode(containerd, cri, plugin)


def test_requests_have_the_keys_and_values_of_the_recorded_ones(node: NativeNode) -> None:
    pod = node.run_pod(labels={"app": "web"})
    container = node.run_container(pod, cpu_quota=50_000, cpu_period=100_000, cpu_shares=512)
    node.cri.update_resources(container, cpu_quota=70_000)  # 1.6 sends no update
    node.cri.stop(container)
    node.cri.stop_pod(pod)

    assert [(r["state"], r["id"], r["sandboxID"]) for r in node.plugin.requests()] == [
        ("create", pod, pod),
        ("create", container, pod),
        ("delete", container, pod),
        ("delete", pod, pod),
    ]
    assert node.plugin.arguments == "invoke"

    for_pod, for_container, *deletes = node.plugin.requests()
    for request in (for_pod, for_container):
        assert request.keys() == REQUEST | {"labels"}
        assert request["labels"] == {"app": "web"}  # the pod's, also for its container
    for delete in deletes:
        assert delete.keys() == REQUEST
    for request in (for_pod, for_container, *deletes):
        assert request["spec"].keys() == SPEC
        assert request["conf"] == {"a": [0, 1]}
        assert request["version"] == "0.1"
        assert request["spec"]["cgroupsPath"] == node.cgroup(request["id"])
    assert for_pod["spec"]["namespaces"].keys() == NAMESPACES
    assert for_container["spec"]["namespaces"].keys() == NAMESPACES | {"network", "uts"}
    assert for_pod["spec"]["annotations"]["io.kubernetes.cri.container-type"] == "sandbox"
    assert for_container["spec"]["annotations"]["io.kubernetes.cri.container-type"] == "container"
    assert for_container["spec"]["resources"]["cpu"] == {
        "shares": 512,
        "quota": 50_000,
        "period": 100_000,
    }


def test_a_plugins_error_does_not_keep_a_pod_from_stopping(node: NativeNode) -> None:
    pod = node.run_pod()
    container = node.run_container(pod)
    node.plugin.fail_with("nope")

    node.cri.stop(container)
    node.cri.stop_pod(pod)
    node.cri.remove_pod(pod)

    assert [r["state"] for r in node.plugin.requests()][-2:] == ["delete", "delete"]


def test_compiled_plugins_act_and_name_what_is_wrong_in_conf(
    containerd_1_6: Release, installed: Path, two_cpus: None
) -> None:
    with Containerd(release=containerd_1_6) as containerd, containerd.cri() as cri:

        def configure(*plugins: dict[str, Any]) -> None:
            document = {"version": "0.1", "plugins": plugins}
            (containerd.enclosure.etc_nri / "conf.json").write_text(json.dumps(document))

        containerd.enclosure.install(installed)
        configure({"type": "konfine", "conf": {"systemReserved": [0]}}, {"type": "clearcfs"})
        # Its class is a label: containerd 1.6 hands no annotation down.
        container = create(cri, cri.run_pod("web", labels={"qos.class": "ls"}))
        cri.start(container)
        assert knob(containerd, container, "cpu.cfs_quota_us") == "-1"
        assert knob(containerd, container, "cpuset.cpus") == unreserved()
        configure({"type": "clearcfs", "conf": {"clases": ["ls"]}})
        with pytest.raises(grpc.RpcError) as refused:
            cri.run_pod("other")
        assert (
            "plugin: clearcfs: conf.clases: unknown key, did you mean classes?"
            in refused.value.details()
        )
