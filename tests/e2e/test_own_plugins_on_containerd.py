"""The compiled plugins on real containerd 1.7 and 2.x: what a pod has of what it asks for, and on which CPUs."""

import json
import os
from pathlib import Path
from typing import Any

import grpc
import pytest

from harness.containerd.bridged import configure, create, knob, log
from harness.containerd.cri import Cri
from harness.containerd.enclosure import CommandFailedError
from harness.containerd.instance import Containerd
from nri.plugins.konfine import COUNTED, EXCLUSIVE
from nri.v2.api.runtimes import nri_version
from tests.e2e import unreserved
from tests.support.waiting import until, wait_until

pytestmark = pytest.mark.runtime

SHOP = {"io.kubernetes.pod.namespace": "shop"}
OTHER = {"io.kubernetes.pod.namespace": "other"}
DEVICE = "- path: /dev/nri-null\n  type: c\n  major: 1\n  minor: 3\n  file_mode: 0640\n"


class Asking:
    """A pod that asks for a device, a mount, limits and a hook, and the plugins that it asks."""

    def __init__(self, folder: Path) -> None:
        self.log, self.trace, hooks = folder / "requests.log", folder / "trace", folder / "hooks.d"
        (folder / "data").mkdir()
        (folder / "data/file").write_text("seen")
        hooks.mkdir()
        program = {"path": "/bin/sh", "args": ["sh", "-c", f"cat >> {self.trace}"]}
        when = {"annotations": {"^example.org/traced$": "yes"}, "commands": ["/sleep$"]}
        document = {"version": "1.0.0", "hook": program, "when": when, "stages": ["createRuntime"]}
        (hooks / "10-trace.json").write_text(json.dumps(document))
        mount = {
            "source": str(folder / "data"),
            "destination": "/data",
            "type": "bind",
            "options": ["rbind", "ro"],
        }
        self.annotations = {
            "devices.noderesource.dev/container.app": DEVICE,
            "mounts.nri.io/pod": json.dumps([mount]),
            "ulimits.nri.containerd.io/container.app": "- type: nofile\n  hard: 99\n  soft: 77\n",
            "example.org/traced": "yes",
        }
        setup: dict[str, Any] = {"states": ["setup"]}
        self.plugins = [
            setup
            | {
                "type": "device-injector",
                "conf": {"allow": {"devices": ["shop"], "mounts": ["shop"]}},
            },
            setup | {"type": "ulimit-adjuster", "conf": {"allow": {"ulimits": ["shop"]}}},
            setup
            | {
                "type": "hook-injector",
                "conf": {"dirs": [str(hooks)], "allow": {"annotations": ["shop"]}},
            },
            setup | {"type": "logger", "conf": {"file": str(self.log), "states": ["setup"]}},
        ]

    def changes(self) -> list[dict[str, Any]]:
        """What the plugins asked for the last time."""
        changes: list[dict[str, Any]] = json.loads(self.log.read_text().splitlines()[-1])["changes"]
        return changes


@pytest.fixture
def asking(containerd: Containerd, tmp_path: Path) -> Asking:
    asking = Asking(tmp_path)
    configure(containerd, *asking.plugins)
    return asking


def started(containerd: Containerd, cri: Cri, pod: str) -> Path:
    """/proc/PID of the process of a container that is created and started in a pod."""
    container = create(cri, pod)
    cri.start(container)
    return containerd.process_of(container)


def open_files(process: Path) -> list[str]:
    (line,) = [
        line for line in (process / "limits").read_text().splitlines() if "open files" in line
    ]
    return line.split()[3:5]


def test_a_pod_that_is_allowed_has_what_it_asks_for(
    containerd: Containerd, cri: Cri, asking: Asking
) -> None:
    process = started(
        containerd, cri, cri.run_pod("web", labels=SHOP, annotations=asking.annotations)
    )

    device = os.stat(process / "root/dev/nri-null")
    assert (os.major(device.st_rdev), os.minor(device.st_rdev), device.st_mode & 0o777) == (
        1,
        3,
        0o640,
    )
    (process / "root/dev/nri-null").write_text("gone")
    assert (process / "root/data/file").read_text() == "seen"
    assert open_files(process) == ["77", "99"]
    assert wait_until(asking.trace.exists)
    assert json.loads(asking.trace.read_text())["status"] == "creating"
    assert [change["plugin"] for change in asking.changes()] == [
        "device-injector",
        "ulimit-adjuster",
        "hook-injector",
    ]
    assert all("adjust" in change for change in asking.changes())


@pytest.mark.parametrize("labels", [{}, OTHER])
def test_pod_not_allowed_gets_nothing(
    containerd: Containerd, cri: Cri, asking: Asking, labels: dict[str, str]
) -> None:
    lying = asking.annotations | SHOP
    process = started(containerd, cri, cri.run_pod("web", labels=labels, annotations=lying))

    assert not (process / "root/dev/nri-null").exists()
    assert not (process / "root/data").exists()
    assert open_files(process) != ["77", "99"]
    assert not asking.trace.exists()
    assert ["ignored" in change["metadata"] for change in asking.changes()] == [True] * 3
    # An event is logged after its answer.
    assert wait_until(lambda: log(containerd).count("ignored=") >= 3)


def test_a_cdi_device_is_resolved_by_a_runtime_that_can(containerd: Containerd, cri: Cri) -> None:
    device = {"path": "/dev/one", "hostPath": "/dev/null"}
    specification = {
        "cdiVersion": "0.6.0",
        "kind": "vendor.com/class",
        "devices": [{"name": "one", "containerEdits": {"env": ["ONE=1"], "deviceNodes": [device]}}],
    }
    containerd.enclosure.run("mkdir", "-p", "/run/cdi")
    containerd.enclosure.run(
        "/bin/sh", "-c", f"echo '{json.dumps(specification)}' > /run/cdi/vendor.json"
    )
    configure(
        containerd,
        {
            "type": "device-injector",
            "states": ["setup"],
            "conf": {"allow": {"cdiDevices": ["shop"]}},
        },
    )
    pod = cri.run_pod(
        "web", labels=SHOP, annotations={"cdi-devices.noderesource.dev": "- vendor.com/class=one"}
    )
    if nri_version("containerd", ".".join(map(str, containerd.release.version))) < (0, 7):
        with pytest.raises(grpc.RpcError) as refused:
            create(cri, pod)
        assert "which does not apply it; NRI 0.7 does" in refused.value.details()
        return

    process = started(containerd, cri, pod)

    assert "ONE=1" in (process / "environ").read_text().split("\0")
    assert (process / "root/dev/one").is_char_device()


# Exclusive CPUs

ALONE = {EXCLUSIVE: "1"}


def start(cri: Cri, name: str, annotations: dict[str, str] | None = None) -> str:
    container = create(cri, cri.run_pod(name, labels=SHOP, annotations=annotations or {}))
    cri.start(container)
    return container


def exclusive() -> dict[str, Any]:
    """CPUs 0 and 1 are given out, whatever the machine has."""
    others = list(range(2, os.cpu_count() or 2))
    return {"systemReserved": others, "allow": {"exclusive": ["shop"]}}


@pytest.mark.usefixtures("two_cpus")
@pytest.mark.parametrize(
    "states", [["setup", "update"], ["update"]], ids=["setup", "cgroups alone"]
)
def test_container_runs_alone_until_it_stops(
    containerd: Containerd, cri: Cri, states: list[str]
) -> None:
    configure(containerd, {"type": "konfine", "states": states, "conf": exclusive()})
    web = start(cri, "web")
    pid = int(containerd.process_of(web).name)
    assert knob(containerd, web, "cpuset.cpus") == "0-1"

    pod = cri.run_pod("db", labels=SHOP, annotations=ALONE)
    db = create(cri, pod)
    cri.start(db)
    own = int(containerd.process_of(db).name)
    assert [knob(containerd, each, "cpuset.cpus") for each in (db, web)] == ["0", "1"]
    assert [os.sched_getaffinity(each) for each in (own, pid)] == [{0}, {1}]

    # The runtime writes its own CPUs again.
    cri.update_resources(web, cpu_quota=40_000, cpu_period=100_000)
    assert [os.sched_getaffinity(each) for each in (own, pid)] == [{0}, {1}]

    with pytest.raises(grpc.RpcError) as refused:
        start(cri, "more", ALONE)
    asks = f"nri v0.1: plugin konfine: {EXCLUSIVE}: asks for 1 CPU alone, and on the node {os.uname().nodename} "
    assert f"{asks}none is free, beside the 1 that must stay shared; " in refused.value.details()
    assert "shop/app has 0" in refused.value.details()
    assert "delete the pod to have it scheduled again" in refused.value.details()
    assert containerd.enclosure.run("/opt/nri/lib/nri", "status", "--check").startswith("well: ")
    assert "konfine refused " in log(containerd)

    cri.stop_pod(pod)
    assert knob(containerd, web, "cpuset.cpus") == "0-1"
    assert wait_until(lambda: os.sched_getaffinity(pid) == {0, 1})
    assert "konfine.moved=" in log(containerd)


@pytest.mark.usefixtures("two_cpus")
def test_container_that_starts_again_in_its_pod_has_its_cpu_again(
    containerd: Containerd, cri: Cri
) -> None:
    configure(containerd, {"type": "konfine", "states": ["setup", "update"], "conf": exclusive()})
    web = start(cri, "web")
    pod = cri.run_pod("db", labels=SHOP, annotations=ALONE)
    first = create(cri, pod)
    cri.start(first)
    assert [knob(containerd, each, "cpuset.cpus") for each in (first, web)] == ["0", "1"]
    cri.stop(first)
    cri.remove(first)
    with pytest.raises(
        grpc.RpcError, match="none is free, beside the 1 that must stay shared; shop/app has 0"
    ):
        start(cri, "more", ALONE)
    assert "shop/app, ended: kept for its next start" in containerd.enclosure.run(
        "/opt/nri/lib/nri", "status", "--cpus"
    )
    second = create(cri, pod)
    cri.start(second)
    assert [knob(containerd, each, "cpuset.cpus") for each in (second, web)] == ["0", "1"]
    cri.stop_pod(pod)
    assert knob(containerd, web, "cpuset.cpus") == "0-1"

    both = start(cri, "both", {EXCLUSIVE: "1+shared"})
    assert [knob(containerd, each, "cpuset.cpus") for each in (both, web)] == ["0-1", "1"]


@pytest.mark.usefixtures("two_cpus")
def test_counted_container_has_its_cpu_and_a_pod_that_states_it_has_none(
    containerd: Containerd, cri: Cri
) -> None:
    counted = {
        "systemReserved": list(range(2, os.cpu_count() or 2)),
        "exclusive": {"counted": True},
    }
    configure(containerd, {"type": "konfine", "states": ["setup", "update"], "conf": counted})
    # The kubelet puts the device plugin's answer into the container's configuration.
    allocated = {COUNTED: "1"}
    lying = create(cri, cri.run_pod("web", labels=SHOP, annotations=allocated), allocated)
    cri.start(lying)
    assert knob(containerd, lying, "cpuset.cpus") == "0-1"
    until(
        lambda: f"{COUNTED}: it is the pod's, not the kubelet's" in log(containerd),
        "the line of the event",
    )

    db = create(cri, cri.run_pod("db", labels=SHOP), allocated)
    cri.start(db)
    assert [knob(containerd, each, "cpuset.cpus") for each in (db, lying)] == ["1", "0"]
    cri.update_resources(db, cpu_quota=40_000, cpu_period=100_000)
    assert [knob(containerd, each, "cpuset.cpus") for each in (db, lying)] == ["1", "0"]


# A policy that changes under a running container


@pytest.mark.usefixtures("two_cpus")
def test_changed_policy_is_reapplied_and_given_back(containerd: Containerd, cri: Cri) -> None:
    def policy(*plugins: dict[str, Any]) -> None:
        configure(containerd, *plugins)
        until(
            lambda: (
                json.loads(nri("status", "--json"))["configuration"]["hash"]
                == nri("check", "--hash").strip()
            )
        )

    def nri(*words: str) -> str:
        return containerd.enclosure.run("/opt/nri/lib/nri", *words)

    konfine = {"type": "konfine", "conf": {"systemReserved": "0"}}
    policy({"type": "clearcfs"}, konfine)
    web = start(cri, "web", {"qos.class": "ls"})
    knobs = ("cpu.cfs_quota_us", "cpuset.cpus")
    assert [knob(containerd, web, each) for each in knobs] == ["-1", "1"]

    (containerd.enclosure.etc_nri / "resource.d/10.conf").unlink()
    other = start(cri, "other", {"qos.class": "ls"})  # the last file is never removed by absence
    assert [knob(containerd, other, each) for each in knobs] == ["-1", "1"]

    policy(
        {"type": "clearcfs", "conf": {"classes": ["db"]}},
        konfine | {"conf": {"systemReserved": "1"}},
    )
    assert [knob(containerd, web, each) for each in knobs] == ["-1", "1"]
    shown = [line.split()[:3] for line in nri("reapply", "--dry-run").splitlines()]
    assert ["konfine", "reapply", "default/web/app"] in shown
    nri("reapply", "--pod", "default/web")
    assert [knob(containerd, web, each) for each in knobs] == ["50000", "0"]
    assert [knob(containerd, other, each) for each in knobs] == ["-1", "1"]

    policy()
    nri("reapply")
    assert [knob(containerd, web, each) for each in knobs] == ["50000", "0-1"]
    assert [knob(containerd, other, each) for each in knobs] == ["50000", "0-1"]
    assert nri("reapply") == "nothing to reapply or release\n"


# The samples of conf/resource.d: no pod talks itself out of what they do

CPUS = "cpus.konfine.nri.io"
KUBE_SYSTEM = {"io.kubernetes.pod.namespace": "kube-system"}


@pytest.fixture
def samples(containerd: Containerd, installed: Path) -> None:
    """The configuration of conf/resource.d."""
    files = sorted((installed / "etc/nri/resource.d").iterdir())
    configure(
        containerd,
        *[plugin for file in files for plugin in json.loads(file.read_text())["plugins"]],
    )


@pytest.mark.usefixtures("samples", "two_cpus")
def test_wrong_annotations_leave_the_reserved_cpu(containerd: Containerd, cri: Cri) -> None:
    annotations = {f"{CPUS}/container.app": "\x1b[2J\n", "note": "\x01" * 200_000}
    container = create(
        cri,
        cri.run_pod("web", annotations=annotations, namespace="kube-system", labels=KUBE_SYSTEM),
    )
    cri.start(container)
    assert knob(containerd, container, "cpuset.cpus") == unreserved()

    cri.update_resources(container, cpu_quota=70_000)
    assert knob(containerd, container, "cpuset.cpus") == unreserved()

    def lines() -> list[str]:
        return [
            line
            for line in log(containerd).splitlines()
            if "info answered state=" in line and container[:12] in line
        ]

    # Each is logged after its answer.
    until(lambda: len(lines()) == 2, "the lines of create and update")
    assert all(
        " konfine.ignored=" in line and line.isprintable() and len(line) < 1500 for line in lines()
    )


def quota(containerd: Containerd, container: str) -> int:
    return int(knob(containerd, container, "cpu.cfs_quota_us"))


@pytest.mark.usefixtures("two_cpus")
def test_a_quota_stays_cleared_when_konfine_has_the_runtime_write_other_cpus(
    containerd: Containerd, cri: Cri
) -> None:
    """The runtime writes all resources of the other container, its quota, too: its update follows."""
    configure(
        containerd,
        {"type": "clearcfs", "states": ["update"], "conf": {"classes": ["ls"]}},
        {"type": "qos", "states": ["update"], "conf": {"containers": {"ls": {"cpu.weight": 50}}}},
        {"type": "konfine", "states": ["setup", "update"], "conf": exclusive()},
    )
    web = start(cri, "web", {"qos.class": "ls"})
    weight = knob(containerd, web, "cpu.shares")
    assert quota(containerd, web) == -1

    pod = cri.run_pod("db", labels=SHOP, annotations=ALONE)
    db = create(cri, pod)
    cri.start(db)
    assert wait_until(
        lambda: log(containerd).count("answered state=update container=default/web/app") == 1
    )
    assert wait_until(lambda: quota(containerd, web) == -1)
    assert [knob(containerd, each, "cpuset.cpus") for each in (db, web)] == ["0", "1"]
    assert knob(containerd, web, "cpu.shares") == weight

    cri.stop_pod(pod)
    assert wait_until(lambda: knob(containerd, web, "cpuset.cpus") == "0-1")
    assert wait_until(lambda: quota(containerd, web) == -1)
    assert containerd.enclosure.run("/opt/nri/lib/nri", "status", "--check").startswith("well: ")


def test_a_conf_that_its_plugin_refuses_leaves_the_one_in_use(
    containerd: Containerd, cri: Cri
) -> None:
    configure(containerd, {"type": "clearcfs", "conf": {"classes": ["ls"]}})
    start(cri, "web", {"qos.class": "ls"})
    configure(containerd, {"type": "clearcfs", "conf": {"clases": ["db"]}})
    container = start(cri, "other", {"qos.class": "ls"})
    assert "clearcfs.cleared=" in log(containerd).rpartition(f"id={container[:12]}")[2]
    wrong = "plugins[0].conf.clases: unknown key, did you mean classes?"
    assert wrong in log(containerd)
    with pytest.raises(CommandFailedError, match="clases"):
        containerd.enclosure.run("/opt/nri/lib/nri", "status", "--check")
    configure(containerd, {"type": "clearcfs", "conf": {"classes": ["db"]}})
    start(cri, "third", {"qos.class": "db"})
    assert containerd.enclosure.run("/opt/nri/lib/nri", "status", "--check").startswith("well: ")
