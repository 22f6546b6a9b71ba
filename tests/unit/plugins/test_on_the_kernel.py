"""The sample plugins on this machine's own cgroups, as processes: what they promise, the kernel confirms."""

import os
import shutil
import subprocess

import pytest

from nri.plugins.konfine import ANNOTATION
from tests.support.kernel_pod import POD, run
from tests.support.real_cgroups import Real

pytestmark = [pytest.mark.runtime, pytest.mark.kernel_cgroups]

WITHOUT_CAPABILITIES = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
"""As the unit in deploy/systemd has it."""


def test_clearcfs_clears_pod_and_container_and_leaves_the_periods(real: Real) -> None:
    pod, container = real.top + POD, f"{real.top}{POD}/redis"
    real.limit(pod, 50000)
    real.limit(container, 20000, 50000)
    assert run("clearcfs", real, {"pod": True}).metadata == {
        "pod": real.points["cpu"] + pod,
        "podQuota": "50000/100000",
        "cleared": real.points["cpu"] + container,
        "quota": "20000/50000",
    }
    assert [real.quota(path) for path in (pod, container)] == ["max/100000", "max/50000"]
    assert run("clearcfs", real, {"pod": True}).metadata == {"skipped": "it has no quota"}
    assert run("clearcfs", real, {"pod": True}, state="update").metadata == {"skipped": "it has no quota"}


def test_konfine_moves_a_running_process(real: Real) -> None:
    path = f"{real.top}{POD}/redis"
    with real.process(path) as pid:
        for state in ("create", "create", "update"):
            assert run("konfine", real, {"systemReserved": [0]}, state=state).metadata["cpus"] == "1"
            assert os.sched_getaffinity(pid) == {1}
        assert run("konfine", real, {}, annotations={ANNOTATION: "0-5"}).metadata["cpus"] == "0-1"
        assert os.sched_getaffinity(pid) == {0, 1}


def test_the_plugins_need_no_capability(real: Real) -> None:
    if shutil.which(WITHOUT_CAPABILITIES[0]) is None:
        pytest.skip("setpriv is not installed (Debian's package util-linux)")
    path = f"{real.top}{POD}/redis"
    real.limit(path, 20000)
    status = subprocess.run(
        [*WITHOUT_CAPABILITIES, "cat", "/proc/self/status"], capture_output=True, text=True, check=True
    )
    assert "CapEff:\t0000000000000000" in status.stdout
    with real.process(path) as pid:
        cleared = run("clearcfs", real, {}, by=WITHOUT_CAPABILITIES)
        confined = run("konfine", real, {"systemReserved": [0]}, by=WITHOUT_CAPABILITIES)
        assert (cleared.error, confined.error) == ("", "")
        assert os.sched_getaffinity(pid) == {1}
    assert real.quota(path) == "max/100000"


@pytest.mark.parametrize("plugin", ["clearcfs", "konfine"])
def test_a_strangers_cgroup_is_left_alone_when_the_containers_number_is_its_processs(real: Real, plugin: str) -> None:
    pod, other = real.top + POD, real.make(f"{POD}/other")
    for stranger in (pod, other):
        real.limit(stranger, 50000)
    conf = {"systemReserved": [0]} if plugin == "konfine" else {"pod": True}
    with real.process(other) as pid:
        for path in (f"{real.top}{POD}/gone", "system.slice:runc:gone", "elsewhere/redis", ""):
            error = run(plugin, real, conf, path=path, pid=pid).error
            assert error.startswith(f"no {'cpuset' if plugin == 'konfine' else 'cpu'} cgroup for "), error
            if path in ("", "elsewhere/redis"):
                assert error.endswith(f"'{other}', expected a cgroup that is named after the container 'redis'")
            assert run(plugin, real, conf, path=path, pid=pid, state="delete").error == ""
        assert [real.quota(stranger) for stranger in (pod, other)] == ["50000/100000", "50000/100000"]
        assert os.sched_getaffinity(pid) == {0, 1}
