"""The compiled `nri bridge`, started by hand beside a real containerd: it finds it, loses it, and finds it again."""

import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import grpc
import pytest

from harness.containerd.bridged import configure, connected, create, log, outside, prepared, script
from harness.containerd.instance import Containerd, Release
from tests.e2e.standin import StandIn
from tests.support.waiting import SOON, until

pytestmark = pytest.mark.runtime


@pytest.fixture
def containerd(containerd_v2: Release, installed: Path) -> Iterator[Containerd]:
    with Containerd(release=containerd_v2, prepare=prepared(installed, launched=False)) as containerd:
        yield containerd
        print(log(containerd))  # shown when the test fails


@pytest.fixture
def bridge(containerd: Containerd) -> Iterator[subprocess.Popen[bytes]]:
    with outside(containerd) as bridge:
        yield bridge
        bridge.kill()


def test_connects_again_with_pods(containerd: Containerd, bridge: subprocess.Popen[bytes], tmp_path: Path) -> None:
    keeper = StandIn(containerd.enclosure.opt_nri / "bin", "keeper", tmp_path / "kept")
    configure(containerd, {"type": "keeper"})
    until(lambda: connected(containerd) == 1, "the bridge to be synchronized", SOON)
    with containerd.cri() as cri:
        pod = cri.run_pod("before", annotations={"qos.class": "ls"})
        containerd.stop()
        containerd.start()
        until(lambda: connected(containerd) == 2, "the bridge to be synchronized again", SOON)
        after = cri.run_pod("after")
        container = create(cri, pod)
        cri.start(container)

    assert bridge.poll() is None
    requests = keeper.requests()
    assert [(r["state"], r["id"]) for r in requests] == [("create", pod), ("create", after), ("create", container)]
    assert requests[2]["spec"]["annotations"]["qos.class"] == "ls"


def test_containerd_killed_under_load(
    containerd: Containerd, bridge: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    keeper = StandIn(containerd.enclosure.opt_nri / "bin", "keeper", tmp_path / "kept")
    script(containerd, "slow", "cat >/dev/null; sleep 0.1234; echo '{}'")
    configure(containerd, {"type": "slow"}, {"type": "keeper"})
    until(lambda: connected(containerd) == 1, "the bridge to be synchronized", SOON)
    with Load(containerd) as load:
        for restart in (1, 2):
            load.wait_for_more(2)
            containerd.kill()
            containerd.start()
            until(lambda: connected(containerd) == restart + 1, "the bridge to be synchronized again", SOON)  # noqa: B023
            load.mark()
            load.wait_for_more(3)

    assert bridge.poll() is None
    told = {request["id"] for request in keeper.requests() if request["state"] == "create"}
    assert len(load.marked) >= 2 * 2
    assert set(load.marked) - told == set()
    assert "Traceback" not in log(containerd)
    until(lambda: not _plugins(containerd), "the plugins to end", SOON)


class Load:
    """Pods that are started one after the other, whether containerd is there or not."""

    def __init__(self, containerd: Containerd) -> None:
        self._containerd = containerd
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self._started = 0
        self._since = time.monotonic()
        self._is_marked = False
        self.marked: list[str] = []
        """Those that were begun after the latest :meth:`mark`, and before the next restart."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def mark(self) -> None:
        """From now on every pod has to get its plugins; until the next call of :meth:`wait_for_more` returns."""
        self._since = time.monotonic()
        self._is_marked = True

    def wait_for_more(self, count: int) -> None:
        """Wait until so many more have started."""
        goal = self._started + count
        until(lambda: self._started >= goal, f"{count} pods to start", SOON)
        self._is_marked = False

    def _run(self) -> None:
        number = 0
        while not self._over.is_set():
            number += 1
            began, was_marked = time.monotonic(), self._is_marked
            try:
                with self._containerd.cri() as cri:
                    pod = cri.run_pod(f"load-{number}")
            except grpc.RpcError:  # it is down, or was killed in the middle
                time.sleep(0.02)
                continue
            if was_marked and began >= self._since:
                self.marked.append(pod)
            self._started += 1


def _plugins(containerd: Containerd) -> list[bytes]:
    """The command lines of the plugins that run; those that wait for a request are none."""
    found = []
    for pid in containerd.enclosure.processes():
        try:
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes())
        except OSError:
            pass  # it has ended
    return [line for line in found if b"0.1234" in line or b"/bin/slow" in line]
