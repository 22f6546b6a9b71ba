"""The sample plugins on this machine's own cgroups, as processes: what they promise, the kernel confirms."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nri.cgroups import find
from nri.cgroups.topology import online_cpus
from nri.plugins.konfine import ANNOTATION, EXCLUSIVE
from nri.plugins.qos import SPEC
from nri.plugins.qos.batch import CPU, MEMORY
from nri.types.v1 import Result
from tests.support.kernel_pod import CONTAINER, POD, child, run, with_memory_and_pids
from tests.support.real_cgroups import Real
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.runtime, pytest.mark.kernel_cgroups]

REBUILT = b"konfine: the record of CPUs was made again of the cgroups: "
WITHOUT_CAPABILITIES = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
"""As the unit in deploy/systemd has it."""


def test_the_plugins_need_no_capability(real: Real) -> None:
    if shutil.which(WITHOUT_CAPABILITIES[0]) is None:
        pytest.skip("setpriv is not installed (Debian's package util-linux)")
    path = f"{real.top}{POD}/redis"
    real.limit(path, 20000)
    status = subprocess.run(
        [*WITHOUT_CAPABILITIES, "cat", "/proc/self/status"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "CapEff:\t0000000000000000" in status.stdout
    with real.process(path) as pid:
        cleared = run("clearcfs", real, {}, by=WITHOUT_CAPABILITIES)
        confined = run("konfine", real, {"systemReserved": [0]}, by=WITHOUT_CAPABILITIES)
        assert (cleared.error, confined.error) == ("", "")
        assert os.sched_getaffinity(pid) == {1}
    assert real.quota(path) == "max/100000"


@pytest.mark.parametrize("plugin", ["clearcfs", "konfine"])
def test_a_strangers_cgroup_is_left_alone_when_the_containers_number_is_its_processs(
    real: Real, plugin: str
) -> None:
    pod, other = real.top + POD, real.make(f"{POD}/other")
    for stranger in (pod, other):
        real.limit(stranger, 50000)
    conf = {"systemReserved": [0]} if plugin == "konfine" else {"pod": True}
    with real.process(other) as pid:
        for path in ("elsewhere/redis", ""):
            error = run(plugin, real, conf, path=path, pid=pid).error
            assert error.startswith(
                f"no {'cpuset' if plugin == 'konfine' else 'cpu'} cgroup for "
            ), error
            assert error.endswith(
                f"'{other}', expected a cgroup that is named after the container 'redis'"
            )
            assert run(plugin, real, conf, path=path, pid=pid, state="delete").error == ""
        for path in (f"{real.top}{POD}/gone", "system.slice:runc:gone"):
            error = run(plugin, real, conf, path=path).error
            assert error.startswith(
                f"no {'cpuset' if plugin == 'konfine' else 'cpu'} cgroup for "
            ), error
        assert [real.quota(stranger) for stranger in (pod, other)] == [
            "50000/100000",
            "50000/100000",
        ]
        assert os.sched_getaffinity(pid) == {0, 1}


@pytest.mark.parametrize("name", ["redis", "gone"], ids=["gVisor", "Kata"])
@pytest.mark.parametrize("plugin", ["clearcfs", "konfine", "qos"])
def test_container_whose_process_is_elsewhere_is_skipped(
    real: Real, tmp_path: Path, plugin: str, name: str
) -> None:
    """gVisor has its processes in the sandbox's cgroup; Kata has none for a container on the node."""
    path, sandbox = f"{real.top}{POD}/{name}", real.make(f"{POD}/sandbox")
    confs: dict[str, dict[str, Any]] = {
        "clearcfs": {"pod": True},
        "konfine": {"systemReserved": [0]},
        "qos": {
            "key": "qos.class",
            "containers": {"ls": {"cpu.weight": 300}},
            "allow": {"class": True},
        },
    }
    conf = confs[plugin]
    for cgroup in (real.top + POD, sandbox, real.top + CONTAINER):
        real.limit(cgroup, 50000)
    with real.process(sandbox) as pid:
        for state in ("create", "update"):
            result = run(plugin, real, conf, path=path, pid=pid, state=state)
            assert (result.error, result.metadata.keys() - {"class"}) == ("", {"skipped"})
            skipped = result.metadata["skipped"]
            assert skipped.startswith(f"not in its cgroup: cgroupsPath '{path}': process {pid} is")
        assert os.sched_getaffinity(pid) == {0, 1}
        had = {"clearcfs": {"quota": "20000/100000"}, "qos": {"cpu.weight": "300, was 100"}}
        if plugin in had:
            last = Result(plugin=plugin, version="0.1", metadata=had[plugin])
            gives_back: dict[str, Any] = {"state": "delete", "release": True, "prev_result": last}
            released = run(plugin, real, conf, path=path, pid=pid, **gives_back)
            assert released.metadata["skipped"].startswith("not in its cgroup: ")
        if plugin == "konfine":
            gives = conf | {"run": str(tmp_path), "allow": {"exclusive": True}}
            for key in (EXCLUSIVE, ANNOTATION):
                asks: dict[str, Any] = {"annotations": {key: "1"}, "says": REBUILT}
                asked = run(plugin, real, gives, path=path, pid=pid, **asks)
                assert asked.refused
                assert asked.error.startswith(f"{key}: cgroupsPath '{path}': process {pid} is in")
            assert run(plugin, real, gives, path=path, pid=pid, says=REBUILT).error == ""
    for cgroup in (real.top + POD, sandbox, real.top + CONTAINER):
        assert real.quota(cgroup) == "50000/100000"


# konfine's exclusive CPUs and qos's classes


def test_a_container_runs_alone_on_its_cpu_until_it_ends(real: Real, tmp_path: Path) -> None:
    others = sorted(online_cpus() - {0, 1})
    conf = {"run": str(tmp_path), "allow": {"exclusive": True}, "systemReserved": others}
    web, db = real.top + CONTAINER, real.make(f"{POD}/db")
    alone: dict[str, Any] = {"path": db, "id_": "db", "annotations": {EXCLUSIVE: "1"}}
    with real.process(web) as shared, real.process(db) as own:
        assert run("konfine", real, conf, says=REBUILT).metadata["cpus"] == "0-1"
        assert run("konfine", real, conf, **alone).metadata == {
            "exclusive": "1",
            "cpus": "0",
            "moved": "1 other containers",
        }
        assert [os.sched_getaffinity(pid) for pid in (shared, own)] == [{1}, {0}]
        (tmp_path / "nri/konfine/state.json").write_text("{")
        assert run("konfine", real, conf, state="update", says=REBUILT).error == ""
        assert [os.sched_getaffinity(pid) for pid in (shared, own)] == [{1}, {0}]
        more: dict[str, Any] = {"path": web, "annotations": {EXCLUSIVE: "1"}}
        refused = run("konfine", real, conf, **more)
        assert refused.refused
        assert "none is free, beside the 1 that must stay shared; " in refused.error
        assert run("konfine", real, conf, state="delete", **alone).error == ""
        assert os.sched_getaffinity(shared) == {0, 1}


@pytest.mark.kernel_cgroups(cpuset=1)
@pytest.mark.parametrize("nested", ["0", "1", "0-1"])
def test_cpusets_in_another_container_give_way_with_it(
    real: Real, tmp_path: Path, nested: str
) -> None:
    """Docker in a pod, a kind node, systemd in a container."""
    others = sorted(online_cpus() - {0, 1})
    conf = {"run": str(tmp_path), "allow": {"exclusive": True}, "systemReserved": others}
    inner = [real.make(f"{CONTAINER}/docker", nested), real.make(f"{CONTAINER}/docker/abc", nested)]
    db = real.make(f"{POD}/db")
    assert run("konfine", real, conf, says=REBUILT).error == ""
    with real.process(inner[1]) as pid:
        result = run("konfine", real, conf, path=db, id_="db", annotations={EXCLUSIVE: "1"})
        assert (result.error, result.metadata["cpus"]) == ("", "0")
        assert os.sched_getaffinity(pid) == {1}
    assert [real.get(path, "cpuset.cpus") for path in (real.top + CONTAINER, *inner)] == [
        "1",
        "1",
        "1",
    ]


def test_pods_of_four_classes_have_their_knobs_and_the_kernel_keeps_them(
    real: Real, tmp_path: Path
) -> None:
    names = ("ls", "be", "few", "batch")
    paths = {name: f"{real.top}{POD}/{name}" for name in names}
    for name in names:
        real.make(f"{POD}/{name}")
    conf = {
        "run": str(tmp_path),
        "key": "class",
        "allow": {"class": True, "batch": True},
        "containers": {"ls": {"cpu.weight": 1000}, "be": {"cpu.weight": 2}, "few": {"pids.max": 2}},
        "pods": {"few": {"pids.max": 1000}},
    }
    limits = {CPU: "20", MEMORY: "16Mi"}
    asked = {SPEC: json.dumps({"containers": {"batch": {"limits": limits}}})}
    with with_memory_and_pids(real, *paths.values()):
        for name, path in paths.items():
            annotations = {
                "class": name,
                "io.kubernetes.cri.container-name": name,
                **(asked if name == "batch" else {}),
            }
            result = run("qos", real, conf, path=path, id_=name, annotations=annotations)
            assert result.error == ""
        assert find(paths["ls"]).read("cpu.weight") >= 990  # v1 has fewer of them
        assert find(paths["be"]).read("cpu.weight") <= 3
        assert str(find(paths["batch"]).read("cpu.max")) == "2000/100000"
        assert find(paths["batch"]).read("memory.max") == 16 << 20
        assert find(f"{real.top}{POD}").read("pids.max") == 1000
        with child(
            paths["few"], "import time\nfor _ in range(3):\n    if os.fork() == 0: time.sleep(60)"
        ) as few:
            few.wait()
        assert few.returncode == 1  # BlockingIOError: the kernel has refused one of the processes
        assert "max 0" not in find(paths["few"]).read_text("pids.events")
        for pid in find(paths["few"]).read_text("cgroup.procs").split():
            os.kill(int(pid), signal.SIGKILL)
        with child(
            paths["batch"], "x = bytearray(64 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1"
        ) as greedy:
            greedy.wait()
        assert greedy.returncode == -9  # killed, since it has more memory than its limit
        with child(paths["batch"], "while True: pass") as busy:
            throttled = find(paths["batch"])
            assert wait_until(lambda: "nr_throttled 0" not in throttled.read_text("cpu.stat"))
            busy.kill()


def test_quotas_of_a_pod_and_its_containers_go_down_and_up_again(
    real: Real, tmp_path: Path
) -> None:
    """v1 takes no quota of a pod that is less than a container's, nor one of a container above its pod's."""
    pod, paths = f"{real.top}{POD}", {name: f"{real.top}{POD}/{name}" for name in ("web", "side")}
    for name in paths:
        real.make(f"{POD}/{name}")
    real.limit(pod, 250000)
    for path in paths.values():
        real.limit(path, 150000)
    conf = {"run": str(tmp_path), "allow": {"batch": True}}
    version = real.versions["cpu"]

    def ask(name: str, cpu: int) -> tuple[str, ...]:
        resources = {"limits": {CPU: str(cpu), "kubernetes.io/mid-memory": "16Mi"}}
        asked = {SPEC: json.dumps({"containers": dict.fromkeys(paths, resources)})}
        annotations = {"io.kubernetes.cri.container-name": name, **asked}
        result = run("qos", real, conf, path=paths[name], id_=name, annotations=annotations)
        assert result.error == ""
        return tuple(real.quota(path).partition("/")[0] for path in (pod, *paths.values()))

    with with_memory_and_pids(real, *paths.values()):
        # The other container has not been lowered yet.
        assert ask("web", 300) == ("150000" if version == 1 else "60000", "30000", "150000")
        assert ask("side", 300) == ("60000", "30000", "30000")
        assert ask("web", 2000) == ("400000", "200000", "30000")
        assert ask("side", 2000) == ("400000", "200000", "200000")
        assert find(paths["web"]).read("memory.max") == 16 << 20
