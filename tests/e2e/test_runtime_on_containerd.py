"""`nri-runc` as the runtime of containerd: CRI and ctr."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from harness.containerd import image
from harness.containerd.cri import Cri
from harness.containerd.enclosure import Enclosure
from harness.containerd.instance import Containerd, Release
from tests.e2e.standin import StandIn

pytestmark = pytest.mark.runtime

NRI_RUNC = "/opt/nri/sbin/nri-runc"
STATES = ["setup", "resize", "update"]
EACH_ONCE = ["setup", "create", "resize", "update", "delete"]


@contextmanager
def running(release: Release, installed: Path, tmp_path: Path, *, conf: dict[str, Any]) -> Iterator[Containerd]:
    """A containerd whose /etc/nri has the files `conf`."""

    def prepare(enclosure: Enclosure) -> None:
        enclosure.install(installed)
        (enclosure.opt_nri / "plugins/10-v1bridge").unlink()  # it would run the plugins as well
        for name, document in conf.items():
            file = enclosure.etc_nri / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps(document))

    bin_dir = tmp_path / "bin"
    with Containerd(release=release, bin_dir=bin_dir, prepare=prepare, oci_runtime=NRI_RUNC) as containerd:
        yield containerd


@pytest.fixture
def plugin(tmp_path: Path) -> StandIn:
    (tmp_path / "bin").mkdir()
    return StandIn(tmp_path / "bin", "standin", tmp_path / "kept")


def listed(states: list[str] = STATES) -> dict[str, Any]:
    return {"version": "0.1", "plugins": [{"type": "standin", "states": states}]}


def live(cri: Cri) -> tuple[str, str]:
    """The life of a pod with a container."""
    pod = cri.run_pod("web")
    container = cri.create_container(pod, "app", image=image.NAME, command=image.FOREVER, cpu_quota=50_000)
    cri.start(container)
    cri.update_resources(container, cpu_quota=70_000)
    cri.stop(container)
    cri.stop_pod(pod)
    cri.remove_pod(pod)
    return pod, container


@pytest.mark.parametrize("generation", [(1, 6), (1, 7), (2,)], ids=["1.6", "1.7", "2"])
def test_each_plugin_runs_once_for_a_state(
    find_containerd: Callable[..., Release],
    installed: Path,
    tmp_path: Path,
    plugin: StandIn,
    generation: tuple[int, ...],
) -> None:
    release = find_containerd(*generation)
    conf = {"resource.d/10.conf": listed()}
    with running(release, installed, tmp_path, conf=conf) as containerd, containerd.cri() as cri:
        pod, container = live(cri)
        (create,) = [each for each in plugin.requests() if (each["id"], each["state"]) == (container, "create")]
    assert plugin.states(pod) == ["setup", "create", "delete"]
    assert plugin.states(container) == EACH_ONCE
    assert create["sandboxID"] == pod
    assert create["pid"] > 0


def test_container_of_ctr(containerd_1_6: Release, installed: Path, tmp_path: Path, plugin: StandIn) -> None:
    with running(containerd_1_6, installed, tmp_path, conf={"conf.json": listed()}) as containerd:
        ctr = ctr_of(containerd)
        ctr("run", "--runc-binary", NRI_RUNC, "--snapshotter", "native", "--rm", image.NAME, "web", "/bin/true")
    assert plugin.states("web") == ["setup", "create", "delete"]


def ctr_of(containerd: Containerd) -> Callable[..., str]:
    def ctr(*words: str) -> str:
        program = containerd.release.programs / "ctr"
        return containerd.enclosure.run(program, "--address", containerd.socket, "--namespace", "k8s.io", *words)

    return ctr


@pytest.fixture
def node(
    containerd_1_6: Release, installed: Path, tmp_path: Path, plugin: StandIn
) -> Iterator[tuple[Containerd, Cri]]:
    """A containerd 1.6 that runs no plugins itself, with one of `setup`."""
    conf = {"resource.d/10.conf": listed()}
    with ExitStack() as owned:
        containerd = owned.enter_context(running(containerd_1_6, installed, tmp_path, conf=conf))
        yield containerd, owned.enter_context(containerd.cri())


def test_the_caller_gets_the_plugins_error(node: tuple[Containerd, Cri], plugin: StandIn) -> None:
    _, cri = node
    pod = cri.run_pod("web")
    container = cri.create_container(pod, "app", image=image.NAME, command=image.FOREVER)
    plugin.fail_with("no CPU is left")

    with pytest.raises(grpc.RpcError) as refused:
        cri.start(container)

    said = refused.value.details()
    assert said.endswith(
        f"OCI runtime create failed: nri-runc create {container}: plugin standin: no CPU is left: unknown"
    )
    assert plugin.states(container) == ["setup", "delete"]


def test_a_container_that_cannot_be_created_gets_a_delete(node: tuple[Containerd, Cri], plugin: StandIn) -> None:
    _, cri = node
    pod = cri.run_pod("web")
    container = cri.create_container(pod, "app", image=image.NAME, command=["/nonesuch"])
    with pytest.raises(grpc.RpcError, match="nonesuch"):
        cri.start(container)
    assert plugin.states(container) == ["setup", "delete"]
