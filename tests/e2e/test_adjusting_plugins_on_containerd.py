"""The compiled plugins that adjust containers, on real containerd 1.7 and 2.x: what a pod has of what it asks for."""

import json
import os
from pathlib import Path
from typing import Any

import grpc
import pytest

from harness.containerd.bridged import configure, create, log
from harness.containerd.cri import Cri
from harness.containerd.instance import Containerd
from nri.v2.api.runtimes import nri_version
from tests.support.waiting import wait_until

pytestmark = pytest.mark.runtime

SHOP = {"io.kubernetes.pod.namespace": "shop"}
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
        mount = {"source": str(folder / "data"), "destination": "/data", "type": "bind", "options": ["rbind", "ro"]}
        self.annotations = {
            "devices.noderesource.dev/container.app": DEVICE,
            "mounts.nri.io/pod": json.dumps([mount]),
            "ulimits.nri.containerd.io/container.app": "- type: nofile\n  hard: 99\n  soft: 77\n",
            "example.org/traced": "yes",
        }
        setup: dict[str, Any] = {"states": ["setup"]}
        self.plugins = [
            setup | {"type": "device-injector", "conf": {"allow": {"devices": ["shop"], "mounts": ["shop"]}}},
            setup | {"type": "ulimit-adjuster", "conf": {"allow": {"ulimits": ["shop"]}}},
            setup | {"type": "hook-injector", "conf": {"dirs": [str(hooks)], "allow": {"annotations": ["shop"]}}},
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
    (line,) = [line for line in (process / "limits").read_text().splitlines() if "open files" in line]
    return line.split()[3:5]


def test_a_pod_that_is_allowed_has_what_it_asks_for(containerd: Containerd, cri: Cri, asking: Asking) -> None:
    process = started(containerd, cri, cri.run_pod("web", labels=SHOP, annotations=asking.annotations))

    device = os.stat(process / "root/dev/nri-null")
    assert (os.major(device.st_rdev), os.minor(device.st_rdev), device.st_mode & 0o777) == (1, 3, 0o640)
    (process / "root/dev/nri-null").write_text("gone")
    assert (process / "root/data/file").read_text() == "seen"
    assert open_files(process) == ["77", "99"]
    assert wait_until(asking.trace.exists, 5)
    assert json.loads(asking.trace.read_text())["status"] == "creating"
    assert [change["plugin"] for change in asking.changes()] == [
        "device-injector",
        "ulimit-adjuster",
        "hook-injector",
    ]
    assert all("adjust" in change for change in asking.changes())


@pytest.mark.parametrize("labels", [{}, {"io.kubernetes.pod.namespace": "other"}])
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
    assert wait_until(lambda: log(containerd).count("ignored=") >= 3)  # an event is logged after its answer


def test_a_mistake_keeps_the_container_from_being_created(containerd: Containerd, cri: Cri, asking: Asking) -> None:
    wrong = asking.annotations | {
        "devices.noderesource.dev/container.app": DEVICE.replace("minor: 3", "minor: three")
    }
    pod = cri.run_pod("web", labels=SHOP, annotations=wrong)
    with pytest.raises(grpc.RpcError) as refused:
        create(cri, pod)
    expected = "devices.noderesource.dev/container.app[0].minor: found the string 'three', expected an integer"
    assert f"plugin device-injector: {expected}" in refused.value.details()


def test_a_cdi_device_is_resolved_by_a_runtime_that_can(containerd: Containerd, cri: Cri) -> None:
    device = {"path": "/dev/one", "hostPath": "/dev/null"}
    specification = {
        "cdiVersion": "0.6.0",
        "kind": "vendor.com/class",
        "devices": [{"name": "one", "containerEdits": {"env": ["ONE=1"], "deviceNodes": [device]}}],
    }
    containerd.enclosure.run("mkdir", "-p", "/run/cdi")
    containerd.enclosure.run("/bin/sh", "-c", f"echo '{json.dumps(specification)}' > /run/cdi/vendor.json")
    configure(
        containerd, {"type": "device-injector", "states": ["setup"], "conf": {"allow": {"cdiDevices": ["shop"]}}}
    )
    pod = cri.run_pod("web", labels=SHOP, annotations={"cdi-devices.noderesource.dev": "- vendor.com/class=one"})
    if nri_version("containerd", ".".join(map(str, containerd.release.version))) < (0, 7):
        with pytest.raises(grpc.RpcError) as refused:
            create(cri, pod)
        assert "which does not apply it; NRI 0.7 does" in refused.value.details()
        return

    process = started(containerd, cri, pod)

    assert "ONE=1" in (process / "environ").read_text().split("\0")
    assert (process / "root/dev/one").is_char_device()


def test_what_the_runtimes_nri_lacks_is_refused(containerd: Containerd, cri: Cri) -> None:
    configure(containerd, {"type": "device-injector", "states": ["setup"], "conf": {"allow": {"sysctl": ["shop"]}}})
    asks = {"sysctl.noderesource.dev": '{"kernel.msgmax": 4321}'}
    pod = cri.run_pod("web", labels=SHOP, annotations=asks)
    with pytest.raises(grpc.RpcError) as refused:
        create(cri, pod)
    assert "plugin device-injector: adjust.linux.sysctl: containerd" in refused.value.details()
    assert "which does not apply it; NRI 0.11 does" in refused.value.details()
