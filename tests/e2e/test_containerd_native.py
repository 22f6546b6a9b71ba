"""containerd 1.6 runs v0.1 plugins itself: what it tells them, and what their answers do."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture
def standin(tmp_path: Path) -> StandIn:
    """The plugin that is configured, whose ``conf`` is ``{"a": [0, 1]}``."""
    (tmp_path / "bin").mkdir()
    return StandIn(tmp_path / "bin", "standin", tmp_path / "kept")


@pytest.fixture
def containerd(containerd_1_6: Release, standin: StandIn, tmp_path: Path) -> Iterator[Containerd]:
    conf = {"version": "0.1", "plugins": [{"type": "standin", "conf": {"a": [0, 1]}}]}
    with Containerd(bin_dir=tmp_path / "bin", conf=conf, release=containerd_1_6) as containerd:
        yield containerd


@pytest.fixture
def cri(containerd: Containerd) -> Iterator[Cri]:
    with containerd.cri() as cri:
        yield cri


def run_container(cri: Cri, pod: str, **resources: Any) -> str:
    container = cri.create_container(
        pod, "app", image=image.NAME, command=image.FOREVER, **resources
    )
    cri.start(container)
    return container


def test_requests_have_the_keys_and_values_of_the_recorded_ones(
    containerd: Containerd, cri: Cri, standin: StandIn
) -> None:
    pod = cri.run_pod("web", labels={"app": "web"})
    container = run_container(cri, pod, cpu_quota=50_000, cpu_period=100_000, cpu_shares=512)
    cri.update_resources(container, cpu_quota=70_000)  # 1.6 sends no update
    cri.stop(container)
    cri.stop_pod(pod)

    assert [(r["state"], r["id"], r["sandboxID"]) for r in standin.requests()] == [
        ("create", pod, pod),
        ("create", container, pod),
        ("delete", container, pod),
        ("delete", pod, pod),
    ]
    assert standin.arguments == "invoke"

    for_pod, for_container, *deletes = standin.requests()
    for request in (for_pod, for_container):
        assert request.keys() == REQUEST | {"labels"}
        assert request["labels"] == {"app": "web"}  # the pod's, also for its container
    for delete in deletes:
        assert delete.keys() == REQUEST
    for request in (for_pod, for_container, *deletes):
        assert request["spec"].keys() == SPEC
        assert request["conf"] == {"a": [0, 1]}
        assert request["version"] == "0.1"
        path = f"{containerd.enclosure.cgroup_parent}/{request['id']}"
        assert request["spec"]["cgroupsPath"] == path
    assert for_pod["spec"]["namespaces"].keys() == NAMESPACES
    assert for_container["spec"]["namespaces"].keys() == NAMESPACES | {"network", "uts"}
    assert for_pod["spec"]["annotations"]["io.kubernetes.cri.container-type"] == "sandbox"
    assert for_container["spec"]["annotations"]["io.kubernetes.cri.container-type"] == "container"
    assert for_container["spec"]["resources"]["cpu"] == {
        "shares": 512,
        "quota": 50_000,
        "period": 100_000,
    }


def test_a_plugins_error_does_not_keep_a_pod_from_stopping(cri: Cri, standin: StandIn) -> None:
    pod = cri.run_pod("web")
    container = run_container(cri, pod)
    standin.fail_with("nope")

    cri.stop(container)
    cri.stop_pod(pod)
    cri.remove_pod(pod)

    assert [r["state"] for r in standin.requests()][-2:] == ["delete", "delete"]


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
