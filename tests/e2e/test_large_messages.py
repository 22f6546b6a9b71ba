"""Messages of more than 4096 bytes to and from a real containerd, whose reader is particular about how they are cut.

A runtime that has dropped the bridge goes on without it: the container that should have been refused starts, and the
next pod has no plugins.
"""

import json
from pathlib import Path

import grpc
import pytest

from harness.containerd.bridged import configure, connected, create, log, outside, prepared
from harness.containerd.instance import Containerd, Release
from tests.e2e import beside
from tests.e2e.standin import StandIn
from tests.support.waiting import until

pytestmark = pytest.mark.runtime

ADJUSTING = """
from nri.v2 import api, stub

class Adjusting(stub.V2Plugin):
    def synchronize(self, pods, containers):
        print("synchronized", flush=True)

    def create_container(self, request, call):
        if "refused" in request.pod.name:
            raise RuntimeError("x" * int(request.pod.annotations["size"]))
        response = api.CreateContainerResponse()
        response.adjust.annotations["large"] = "x" * int(request.pod.annotations["size"])
        return response

stub.run(Adjusting())
"""


def test_v2_adjustments_and_errors_of_any_length_take_effect(
    containerd_v2: Release, tmp_path: Path
) -> None:
    plugin = tmp_path / "10-adjusting"
    with (
        Containerd(release=containerd_v2) as containerd,
        beside(containerd, plugin, ADJUSTING, "synchronized"),
        containerd.cri() as cri,
    ):
        for size in (4 * 1024, 64 * 1024, 1024 * 1024):
            refused = cri.run_pod(f"refused-{size}", annotations={"size": str(size)})
            with pytest.raises(grpc.RpcError, match="x" * 1000):
                create(cri, refused)
            pod = cri.run_pod(f"adjusted-{size}", annotations={"size": str(size)})
            container = create(cri, pod)
            cri.start(container)
            (config,) = containerd.enclosure.root.glob(
                f"*/io.containerd.runtime.v2.task/*/{container}/config.json"
            )
            assert json.loads(config.read_text())["annotations"]["large"] == "x" * size


def test_more_than_4_mib_of_pods_are_synchronized(
    containerd_v2: Release, installed: Path, tmp_path: Path
) -> None:
    prepare = prepared(installed, launched=False)
    with Containerd(release=containerd_v2, prepare=prepare) as containerd, containerd.cri() as cri:
        keeper = StandIn(containerd.enclosure.opt_nri / "bin", "keeper", tmp_path / "kept")
        configure(containerd, {"type": "keeper"})
        for number in range(12):
            cri.run_pod(f"large-{number}", annotations={"large": "x" * 400_000})
        with outside(containerd) as bridge:
            try:
                until(lambda: connected(containerd) == 1, "the bridge to be synchronized")
                last = cri.run_pod("last")
            finally:
                bridge.kill()
        assert "synchronized: 12 pods" in log(containerd)
        assert [(r["state"], r["id"]) for r in keeper.requests() if not r.get("late")] == [
            ("create", last)
        ]


# Later releases refuse such a pod themselves.
def test_pod_event_above_4_mib_gets_its_plugins(
    containerd_1_7: Release, installed: Path, tmp_path: Path
) -> None:
    with (
        Containerd(release=containerd_1_7, prepare=prepared(installed)) as containerd,
        containerd.cri() as cri,
    ):
        keeper = StandIn(containerd.enclosure.opt_nri / "bin", "keeper", tmp_path / "kept")
        configure(containerd, {"type": "keeper"})
        large = cri.run_pod("large", annotations={"large": "x" * 4_500_000})
        last = cri.run_pod("last")
        assert [r["id"] for r in keeper.requests()] == [large, last]
        assert "disconnected" not in log(containerd)
