"""The compiled `nri status` of a bridge that real containerd 1.7 and 2.x have launched."""

from __future__ import annotations

import os
import signal

import grpc
import pytest

from harness import processes
from harness.containerd.bridged import configure, create, script
from harness.containerd.cri import Cri
from harness.containerd.enclosure import CommandFailedError
from harness.containerd.instance import Containerd
from tests.support.waiting import SOON, until

pytestmark = pytest.mark.runtime

NRI = "/opt/nri/lib/nri"
CLEARCFS = {"type": "clearcfs"}


def check(containerd: Containerd, *words: str) -> tuple[int, str]:
    """The exit status and the line of a probe in the enclosure."""
    try:
        return 0, containerd.enclosure.run(NRI, "status", "--check", *words)
    except CommandFailedError as error:
        return error.code, error.stdout


@pytest.fixture
def containerd(fresh_containerd: Containerd) -> Containerd:
    return fresh_containerd


def test_a_launched_bridge_is_well_and_says_what_it_did_to_a_pod(containerd: Containerd, cri: Cri) -> None:
    configure(containerd, CLEARCFS)
    until(lambda: check(containerd)[0] == 0, "a bridge that is well", SOON)
    pod = cri.run_pod("web", annotations={"qos.class": "ls"})
    cri.start(create(cri, pod))
    assert check(containerd)[1].startswith("well: connected to containerd ")
    page = containerd.enclosure.run(NRI, "status")
    assert max(len(line) for line in page.splitlines()) <= 80
    assert "StartContainer" in page
    until(lambda: "quota = 50000/100000" in containerd.enclosure.run(NRI, "status", "--pod", "default/web"))


def test_status_of_a_degraded_bridge_and_of_a_killed_one(containerd: Containerd, cri: Cri) -> None:
    configure(containerd, CLEARCFS)
    until(lambda: check(containerd)[0] == 0, "a bridge that is well", SOON)
    script(containerd, "failing", "exit 3")
    configure(containerd, {"type": "failing"})
    with pytest.raises(grpc.RpcError):
        cri.run_pod("web")
    assert check(containerd)[0] == 1
    assert "degraded: failing: its last create" in check(containerd)[1]
    configure(containerd, {"type": ""})
    until(lambda: "the configuration is not valid" in check(containerd)[1], "an invalid configuration", SOON)
    for pid in containerd.enclosure.processes():
        if processes.command_line(pid).split(b"\0")[0].endswith(b"v1bridge"):
            os.kill(pid, signal.SIGKILL)
    until(lambda: check(containerd)[0] == 2, "no bridge", SOON)
    assert check(containerd)[1].startswith("no bridge: /run/nri/v1bridge.sock")
