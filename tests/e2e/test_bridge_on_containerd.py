"""The compiled bridge on real containerd 1.7 and 2.x, launched by it: v0.1 plugins do what they did on 1.6."""

import json
import threading
from pathlib import Path

import grpc
import pytest

from harness.containerd import cgroups
from harness.containerd.bridged import configure, create, log, prepared, script
from harness.containerd.cri import Cri
from harness.containerd.instance import Containerd, Release
from tests.e2e import hang, live
from tests.e2e.standin import StandIn
from tests.support.waiting import until, wait_until

pytestmark = pytest.mark.runtime


def test_next_event_after_a_cancelled_call_is_served(
    containerd: Containerd, cri: Cri, tmp_path: Path
) -> None:
    """As when the kubelet is restarted: NRI sends the next event while the bridge is still at the first."""
    first, second = [create(cri, cri.run_pod(name)) for name in ("first", "second")]
    begun = tmp_path / "begun"
    hang = f"*create*{first}*) : >{begun}; exec sleep 1000 ;;"
    script(containerd, "slow", f"case $(cat) in {hang} esac\necho '{{}}'")
    configure(containerd, {"type": "slow"})

    def start() -> None:
        # The latter if the channel is closed first.
        with pytest.raises((grpc.RpcError, ValueError)):
            kubelet.start(first)

    with containerd.cri() as kubelet:
        cancelled = threading.Thread(target=start)
        cancelled.start()
        until(begun.exists, "the plugin")
    cancelled.join()
    cri.start(second)

    assert "slow: killed: the runtime has abandoned the event" in log(containerd)


def test_each_plugin_runs_once_for_each_step(
    containerd: Containerd, cri: Cri, tmp_path: Path
) -> None:
    keeper = StandIn(containerd.enclosure.opt_nri / "bin", "keeper", tmp_path / "kept")
    configure(containerd, {"type": "keeper", "states": ["setup", "update"]})

    pod, container = live(cri, create, update=True)

    assert [(r["state"], r["id"]) for r in keeper.requests()] == [
        ("create", pod),
        ("setup", container),
        ("create", container),
        ("update", container),
        ("delete", container),
        ("delete", pod),
    ]


def test_plugin_of_conf_json_runs_once_for_a_pod(
    fresh_containerd: Containerd, tmp_path: Path
) -> None:
    keeper = StandIn(fresh_containerd.enclosure.opt_nri / "bin", "keeper", tmp_path / "kept")
    conf = {"version": "0.1", "plugins": [{"type": "keeper"}]}
    (fresh_containerd.enclosure.etc_nri / "conf.json").write_text(json.dumps(conf))

    with fresh_containerd.cri() as cri:
        pod, container = live(cri, create)

    assert [(r["state"], r["id"]) for r in keeper.requests()] == [
        ("create", pod),
        ("create", container),
        ("delete", container),
        ("delete", pod),
    ]


def test_hanging_plugin_is_killed_in_time(
    containerd_v2: Release, installed: Path, tmp_path: Path
) -> None:
    with (
        Containerd(
            release=containerd_v2, prepare=prepared(installed), request_timeout=2
        ) as containerd,
        containerd.cri() as cri,
    ):
        keeper = StandIn(containerd.enclosure.opt_nri / "bin", "keeper", tmp_path / "kept")
        container = create(cri, cri.run_pod("web"))
        hang(containerd.enclosure)
        with pytest.raises(grpc.RpcError) as refused:
            cri.start(container)
        assert "plugin hanging: killed: no result after 1." in refused.value.details()
        assert wait_until(lambda: containerd.enclosure.left_of_hooks() == [])
        configure(containerd, {"type": "keeper"})
        other = cri.run_pod("other")
    assert [(r["state"], r["id"]) for r in keeper.requests() if r["state"] == "create"] == [
        ("create", other)
    ]


def test_the_setup_state_may_move_a_containers_cgroup(containerd: Containerd, cri: Cri) -> None:
    moved = f"{containerd.enclosure.cgroup_parent}/qos-ls/app"
    answer = {"plugin": "mover", "version": "0.1", "error": "", "cgroupsPath": moved}
    script(
        containerd,
        "mover",
        f"grep -q '\"state\":\"setup\"' || exec echo '{{}}'\necho '{json.dumps(answer)}'",
    )
    configure(containerd, {"type": "mover", "states": ["setup"]})

    pod = cri.run_pod("web")
    container = create(cri, pod)
    cri.start(container)

    assert cgroups.processes(moved)
    assert cgroups.knob(moved, "cpu.cfs_quota_us") == "50000"
