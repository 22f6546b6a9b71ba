"""`nri-runc` as the runtime of containerd: CRI and ctr."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from harness.containerd import image
from harness.containerd.bridged import create
from harness.containerd.cri import Cri
from harness.containerd.enclosure import Enclosure
from harness.containerd.instance import Containerd, Release
from tests.e2e import live
from tests.e2e.standin import StandIn

pytestmark = pytest.mark.runtime

NRI_RUNC = "/opt/nri/sbin/nri-runc"


@contextmanager
def running(
    release: Release, installed: Path, tmp_path: Path, conf: str = "resource.d/10.conf"
) -> Iterator[Containerd]:
    """A containerd that runs no plugins itself, unless the plugin's entry is in conf.json."""

    def prepare(enclosure: Enclosure) -> None:
        enclosure.install(installed)
        (enclosure.opt_nri / "plugins/10-v1bridge").unlink()  # it would run the plugins as well
        entry = {"type": "standin", "states": ["setup", "resize", "update"]}
        (enclosure.etc_nri / "resource.d").mkdir()
        (enclosure.etc_nri / conf).write_text(json.dumps({"version": "0.1", "plugins": [entry]}))

    bin_dir = tmp_path / "bin"
    with Containerd(
        release=release, bin_dir=bin_dir, prepare=prepare, oci_runtime=NRI_RUNC
    ) as containerd:
        yield containerd


@pytest.fixture
def plugin(tmp_path: Path) -> StandIn:
    (tmp_path / "bin").mkdir()
    return StandIn(tmp_path / "bin", "standin", tmp_path / "kept")


@pytest.mark.parametrize("generation", [(1, 6), (1, 7), (2,)], ids=["1.6", "1.7", "2"])
def test_each_plugin_runs_once_for_a_state(
    find_containerd: Callable[..., Release],
    installed: Path,
    tmp_path: Path,
    plugin: StandIn,
    generation: tuple[int, ...],
) -> None:
    with (
        running(find_containerd(*generation), installed, tmp_path) as containerd,
        containerd.cri() as cri,
    ):
        pod, container = live(cri, create, update=True)
    (request,) = [
        each for each in plugin.requests() if (each["id"], each["state"]) == (container, "create")
    ]
    assert plugin.states(pod) == ["setup", "create", "delete"]
    assert plugin.states(container) == ["setup", "create", "resize", "update", "delete"]
    assert request["sandboxID"] == pod
    assert request["pid"] > 0


def test_container_of_ctr(
    containerd_1_6: Release, installed: Path, tmp_path: Path, plugin: StandIn
) -> None:
    with running(containerd_1_6, installed, tmp_path, "conf.json") as containerd:
        program = containerd.release.programs / "ctr"
        where: list[str | Path] = ["--address", containerd.socket, "--namespace", "k8s.io"]
        how = ["--runc-binary", NRI_RUNC, "--snapshotter", "native", "--rm"]
        containerd.enclosure.run(program, *where, "run", *how, image.NAME, "web", "/bin/true")
    assert plugin.states("web") == ["setup", "create", "delete"]


@pytest.fixture
def cri(containerd_1_6: Release, installed: Path, tmp_path: Path, plugin: StandIn) -> Iterator[Cri]:
    with running(containerd_1_6, installed, tmp_path) as containerd, containerd.cri() as cri:
        yield cri


def test_the_caller_gets_the_plugins_error(cri: Cri, plugin: StandIn) -> None:
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


def test_a_container_that_cannot_be_created_gets_a_delete(cri: Cri, plugin: StandIn) -> None:
    pod = cri.run_pod("web")
    container = cri.create_container(pod, "app", image=image.NAME, command=["/nonesuch"])
    with pytest.raises(grpc.RpcError, match="nonesuch"):
        cri.start(container)
    assert plugin.states(container) == ["setup", "delete"]
