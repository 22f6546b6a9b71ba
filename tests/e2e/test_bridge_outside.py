"""Real containerd, and the compiled bridge from outside: either goes away; what starts meanwhile is served once."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from harness.containerd import image
from harness.containerd.bridged import configure, connected, create, log, outside, prepared
from harness.containerd.instance import Containerd, Release
from tests.e2e.standin import StandIn
from tests.support.waiting import SOON, until

pytestmark = pytest.mark.runtime


@pytest.fixture
def containerd(containerd_v2: Release, installed: Path) -> Iterator[Containerd]:
    with Containerd(
        release=containerd_v2, prepare=prepared(installed, launched=False)
    ) as containerd:
        yield containerd
        print(log(containerd))  # shown when the test fails


@contextmanager
def bridge(containerd: Containerd) -> Iterator[subprocess.Popen[bytes]]:
    """A bridge that is connected; killed at the end, if it still runs."""
    before = connected(containerd)
    with outside(containerd) as bridge:
        try:
            until(lambda: connected(containerd) > before, "the bridge to be synchronized")
            yield bridge
        finally:
            kill(containerd)
            bridge.wait(SOON)


def kill(containerd: Containerd) -> None:
    for pid in containerd.enclosure.processes():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"bridge" in words and Path(f"/proc/{pid}/comm").read_text() != "nri-watchdog\n":
                os.kill(pid, signal.SIGKILL)
        except OSError:
            pass  # it has ended


def test_missed_containers_are_served_late_once(containerd: Containerd, tmp_path: Path) -> None:
    keeper = StandIn(containerd.enclosure.opt_nri / "bin", "keeper", tmp_path / "kept")
    configure(containerd, {"type": "keeper"})

    def steps() -> list[tuple[str, str, bool]]:
        return [(each["state"], each["id"], each.get("late", False)) for each in keeper.requests()]

    with containerd.cri() as cri:
        with bridge(containerd):
            served = cri.run_pod("served")
            served_app = create(cri, served)
            cri.start(served_app)
        # It was killed. The next ones start without a bridge; one is only created.
        missed = cri.run_pod("missed", annotations={"qos.class": "ls"}, labels={"app": "missed"})
        app = create(cri, missed)
        cri.start(app)
        waiting = cri.create_container(missed, "waiting", image=image.NAME, command=image.FOREVER)
        stopped = cri.run_pod("stopped")
        cri.stop_pod(stopped)
        expected = [("create", served, False), ("create", served_app, False)]
        assert steps() == expected
        with bridge(containerd) as second:
            expected += [("create", missed, True), ("create", app, True)]
            until(lambda: steps() == expected, "the late creates")
            cri.start(waiting)
            expected += [("create", waiting, False)]
            assert steps() == expected
            request = keeper.requests()[3]
            assert request["spec"]["annotations"]["qos.class"] == "ls"
            assert request["labels"]["app"] == "missed"
            assert request["pid"] > 0
            assert request["spec"]["cgroupsPath"] == f"{containerd.enclosure.cgroup_parent}/{app}"

            synchronized = connected(containerd)
            containerd.stop()
            containerd.start()
            until(
                lambda: connected(containerd) > synchronized, "the bridge to be synchronized again"
            )
            assert second.poll() is None
        with bridge(containerd), containerd.cri() as again:
            again.stop_pod(missed)
            again.stop_pod(served)

    text = log(containerd)
    assert text.count("have had no create; running create for them") == 1
    assert f"answered state=create container=default/missed/app id={app[:12]} late=true ms=" in text
    assert steps()[: len(expected)] == expected
    ends = [(state, id_) for state, id_, _ in steps()[len(expected) :]]
    # After its own restart containerd 2.x does not send the end of earlier sandboxes.
    assert (
        {app, waiting, served_app}
        <= {id_ for _, id_ in ends}
        <= {missed, app, waiting, served, served_app}
    )
    assert {state for state, _ in ends} == {"delete"}


def test_container_with_a_missed_setup_is_refused(containerd: Containerd, tmp_path: Path) -> None:
    StandIn(containerd.enclosure.opt_nri / "bin", "keeper", tmp_path / "kept")
    configure(containerd, {"type": "keeper", "states": ["setup"]})
    with containerd.cri() as cri:
        with bridge(containerd):
            pod = cri.run_pod("web")
            before = cri.create_container(pod, "before", image=image.NAME, command=image.FOREVER)
        missed = cri.create_container(pod, "missed", image=image.NAME, command=image.FOREVER)
        running = cri.create_container(pod, "running", image=image.NAME, command=image.FOREVER)
        cri.start(running)
        with bridge(containerd):
            cri.start(before)  # whose setup is on record
            with pytest.raises(grpc.RpcError) as refused:
                cri.start(missed)
            assert (
                "plugin keeper: its setup was missed: the container was created without it"
                in refused.value.details()
            )
            cri.remove(missed)
            again = cri.create_container(pod, "missed", image=image.NAME, command=image.FOREVER)
            cri.start(again)

            def listed() -> list[tuple[str, str, str]]:
                page = json.loads(containerd.enclosure.run("/opt/nri/lib/nri", "status", "--json"))
                return [
                    (each["id"], each["state"], each["plugin"]) for each in page["withoutPlugins"]
                ]

            # What was missed is looked at when the configuration has not changed for a second.
            assert until(listed, "the entry of the running container") == [
                (running, "setup", "keeper")
            ]


# containerd that is killed
