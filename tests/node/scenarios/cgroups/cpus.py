"""CPUs that go offline or into a partition: what the kernel's cpusets say then, and what konfine makes of it.

Both change the whole machine, so they are not tried on anybody's own. Sources: ``cgroup-v2.rst``, "Cpuset Interface
Files", and ``core-api/cpu_hotplug.rst``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from nri.cgroups import find, parse_cpus
from nri.plugins.konfine import ANNOTATION
from tests.support.kernel_pod import CONTAINER, POD, kernel_pod, offline, run
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.real_cgroups import Real

pytestmark = [pytest.mark.runtime, pytest.mark.kernel_cgroups(cpuset=2)]

RESERVED = {"systemReserved": [0]}


@pytest.fixture
def real() -> Iterator[Real]:
    """A pod with a container, on a machine with the CPUs 0 to 3."""
    with kernel_pod("0-3") as real:
        yield real


def cpus_of(real: Real, path: str) -> tuple[str, str]:
    return real.get(path, "cpuset.cpus"), real.get(path, "cpuset.cpus.effective")


def settled(pid: int, cpus: set[int]) -> bool:
    # The kernel tells the cpusets a moment later.
    return wait_until(lambda: os.sched_getaffinity(pid) == cpus)


def test_an_offline_cpu_stays_among_the_given_and_not_among_the_effective_ones(real: Real) -> None:
    path = real.top + CONTAINER
    with real.process(path) as pid:
        assert run("konfine", real, RESERVED).metadata["cpus"] == "1-3"
        with offline(3):
            assert settled(pid, {1, 2})
            assert cpus_of(real, path) == ("1-3", "1-2")
            cgroup = find(path)
            assert cgroup.cpus() == {1, 2, 3}
            assert cgroup.effective_cpus() == {1, 2}
            assert cgroup.parent_cpus() == {0, 1, 2}
        assert settled(pid, {1, 2, 3})
        assert cpus_of(real, path) == ("1-3", "1-3")


def test_konfine_gives_a_container_the_cpus_that_are_online_at_that_time(real: Real) -> None:
    path = real.top + CONTAINER
    with real.process(path) as pid:
        with offline(3):
            assert run("konfine", real, RESERVED).metadata["cpus"] == "1-2"
            assert settled(pid, {1, 2})
        assert wait_until(lambda: real.get(real.top + POD, "cpuset.cpus.effective") == "0-3")
        assert cpus_of(real, path) == ("1-2", "1-2")  # CPU 3 is back, for the next update
        assert run("konfine", real, RESERVED, state="update").metadata["cpus"] == "1-3"
        assert settled(pid, {1, 2, 3})


def test_a_container_that_has_lost_its_only_cpu_is_confined_again_by_konfine(real: Real) -> None:
    path = real.top + CONTAINER
    annotations = {ANNOTATION: "3"}
    with real.process(path) as pid:
        assert run("konfine", real, RESERVED, annotations=annotations).metadata["cpus"] == "3"
        with offline(3):
            assert settled(pid, {0, 1, 2})  # the kernel gives it the parent's, the reserved one too
            assert find(path).effective_cpus() == {0, 1, 2}
            metadata = run(
                "konfine", real, RESERVED, state="update", annotations=annotations
            ).metadata
            assert metadata["cpus"] == "1-2"
            assert metadata["ignored"].endswith(": '3' has no CPU of 1-2")
            assert settled(pid, {1, 2})
        assert (
            run("konfine", real, RESERVED, state="update", annotations=annotations).metadata["cpus"]
            == "3"
        )
        assert settled(pid, {3})


def test_konfine_fails_when_all_cpus_that_are_not_reserved_are_offline(real: Real) -> None:
    with offline(3):
        error = run("konfine", real, {"systemReserved": "0-2"}).error
    assert error.startswith(
        "no CPU is left for redis: its parent cgroup has 0-2, and conf.systemReserved is 0-2"
    )
    assert cpus_of(real, real.top + CONTAINER) == ("0-3", "0-3")


def test_a_cpu_can_be_given_while_it_is_offline(real: Real) -> None:
    path = real.top + CONTAINER
    with real.process(path) as pid:
        with offline(3):
            find(path).set_cpus(parse_cpus("3"))
            assert settled(pid, {0, 1, 2})
            assert cpus_of(real, path) == ("3", "0-2")
        assert settled(pid, {3})


def partition(real: Real, path: str, cpus: str) -> None:
    """Make a cgroup the root of a partition: these CPUs are for itself alone."""
    for depth in range(1, path.count("/") + 1):
        real.put("/".join(path.split("/")[: depth + 1]), "cpuset.cpus.exclusive", cpus)
    real.put(path, "cpuset.cpus", cpus)
    real.put(path, "cpuset.cpus.partition", "root")
    assert real.get(path, "cpuset.cpus.partition") == "root"


def test_konfine_leaves_a_siblings_partition_alone(real: Real) -> None:
    path, sibling = real.top + CONTAINER, real.make(f"{POD}/exclusive")
    # A sibling that was given these CPUs too would make the partition invalid.
    real.put(path, "cpuset.cpus", "")
    partition(real, sibling, "3")
    assert find(path).effective_cpus() == find(path).parent_cpus() == {0, 1, 2}
    with real.process(path) as pid:
        assert run("konfine", real, RESERVED).metadata["cpus"] == "1-2"
        assert os.sched_getaffinity(pid) == {1, 2}
    assert cpus_of(real, sibling) == ("3", "3")
    assert real.get(sibling, "cpuset.cpus.partition") == "root"


def test_a_container_that_is_the_root_of_a_partition_keeps_its_cpus(real: Real) -> None:
    """``cpuset.cpus.exclusive`` decides there, and ``cpuset.cpus`` has no effect; no runtime makes partitions."""
    path = real.top + CONTAINER
    partition(real, path, "3")
    with real.process(path) as pid:
        assert run("konfine", real, RESERVED).metadata["cpus"] == "1-2"
        assert os.sched_getaffinity(pid) == {3}
    assert cpus_of(real, path) == ("1-2", "3")
    assert real.get(path, "cpuset.cpus.partition") == "root"
