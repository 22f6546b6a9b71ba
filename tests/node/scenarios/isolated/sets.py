"""A machine with isolated CPUs, as for telco: konfine's exclusive sets on the kernel's own cgroup v2, of 2 and 3.

Sources: ``isolcpus=`` in the kernel's ``admin-guide/kernel-parameters.rst``; ``cgroup-v2.rst``, "Cpuset Interface
Files"; ``core-api/cpu_hotplug.rst``.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nri.plugins.konfine import EXCLUSIVE
from nri.types.v1 import Result
from tests.support.kernel_pod import CONTAINER, POD, kernel_pod, offline, run
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.real_cgroups import Real

pytestmark = [pytest.mark.runtime, pytest.mark.kernel_cgroups(cpuset=2)]

REBUILT = b"konfine: the record of CPUs was made again of the cgroups: "


@pytest.fixture
def real() -> Iterator[Real]:
    """A pod with a container, on a machine with the CPUs 0 to 3, of which 2 and 3 are isolated."""
    with kernel_pod("0-3") as real:
        yield real


@pytest.fixture
def conf(tmp_path: Path) -> dict[str, Any]:
    return {"run": str(tmp_path), "allow": {"exclusive": True}, "systemReserved": [0]}


def ask(real: Real, conf: dict[str, Any], name: str, count: int, state: str = "create") -> Result:
    path = real.make(f"{POD}/{name}") if state == "create" else f"{real.top}{POD}/{name}"
    return run(
        "konfine", real, conf, path=path, id_=name, state=state, annotations={EXCLUSIVE: str(count)}
    )


def settled(pid: int, cpus: set[int]) -> bool:
    return wait_until(lambda: os.sched_getaffinity(pid) == cpus)


def test_sets_are_of_isolated_cpus_and_others_share_the_rest(
    real: Real, conf: dict[str, Any]
) -> None:
    assert Path("/sys/devices/system/cpu/isolated").read_text().strip() == "2-3"
    web = real.top + CONTAINER
    with real.process(web) as shared, real.process(real.make(f"{POD}/db")) as own:
        assert run("konfine", real, conf, says=REBUILT).metadata["cpus"] == "1"
        assert ask(real, conf, "db", 1).metadata["cpus"] == "2"
        assert (os.sched_getaffinity(shared), os.sched_getaffinity(own)) == ({1}, {2})
        assert ask(real, conf, "db", 2, "update").metadata["cpus"] == "2-3"
        assert os.sched_getaffinity(own) == {2, 3}
        refused = ask(real, conf, "cache", 1)
        assert refused.refused
        assert "none is free, beside the 1 that must stay shared" in refused.error
        assert ask(real, conf, "db", 1, "update").metadata["cpus"] in ("2", "3")
    everything = conf | {"systemReserved": [0, 1]}
    metadata = run("konfine", real, everything, state="update").metadata
    assert (metadata["cpus"], metadata["reserved"]) == ("0-1", "all other CPUs are isolated")


def test_set_that_loses_a_cpu_keeps_the_rest_and_gets_it_back(
    real: Real, conf: dict[str, Any]
) -> None:
    with real.process(real.make(f"{POD}/db")) as own:
        run("konfine", real, conf, says=REBUILT)
        assert ask(real, conf, "db", 2).metadata["cpus"] == "2-3"
        with offline(3):
            assert settled(own, {2})
            assert run("konfine", real, conf, state="update").metadata["cpus"] == "1"
            assert ask(real, conf, "cache", 1).refused  # CPU 1 must stay shared
            assert ask(real, conf, "db", 2, "update").error == ""
            assert settled(own, {2})
        assert ask(real, conf, "db", 2, "update").metadata["cpus"] == "2-3"
        assert settled(own, {2, 3})


@contextmanager
def nested(real: Real, path: str, cpus: str) -> Iterator[int]:
    """A process in a cpuset that a container has made below its own."""
    inner = real.make(f"{path}/docker", cpus)
    with real.process(inner) as pid:
        yield pid


def test_nested_cpuset_is_narrowed_by_the_kernel(real: Real, conf: dict[str, Any]) -> None:
    conf["systemReserved"] = [2, 3]
    with nested(real, CONTAINER, "1-2") as pid:
        assert run("konfine", real, conf).metadata["cpus"] == "0-1"
        assert ask(real, conf, "db", 1).metadata["cpus"] == "0"
        assert settled(pid, {1})
