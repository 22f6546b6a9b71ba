"""The sample plugins as processes where the kernel's cgroup v2 differs from its v1."""

import os

import pytest

from tests.support.kernel_pod import CONTAINER, POD, run
from tests.support.real_cgroups import Real

pytestmark = [pytest.mark.runtime, pytest.mark.kernel_cgroups(cpuset=2)]


@pytest.mark.kernel_cgroups(cpu=2)
def test_clearcfs_changes_nothing_of_a_v2_pod_whose_container_has_no_cpu_controller(
    real: Real,
) -> None:
    real.make("/kubepods/podb2")
    path = real.make("/kubepods/podb2/bare", controllers=())
    real.limit(f"{real.top}/kubepods/podb2", 50000)
    error = run("clearcfs", real, {"pod": True}, path=path).error
    assert (
        "cpu.max does not exist: the cgroup.subtree_control of the parent lacks cpu; '+cpu' written there"
        in error
    )
    assert real.quota(f"{real.top}/kubepods/podb2") == "50000/100000"


def test_konfine_follows_a_v2_pod_that_was_narrowed_below_its_container(real: Real) -> None:
    path = real.top + CONTAINER
    real.put(real.top + POD, "cpuset.cpus", "1")  # v1 would refuse
    with real.process(path) as pid:
        assert os.sched_getaffinity(pid) == {1}
        assert run("konfine", real, {}, state="update").metadata == {"cpus": "1"}
        assert real.get(path, "cpuset.cpus") == "1"
        real.put(real.top + POD, "cpuset.cpus", "0-1")
        assert run("konfine", real, {}, state="update").metadata == {"cpus": "0-1"}
        assert os.sched_getaffinity(pid) == {0, 1}
