"""The node that the machine is: what is installed, how it is configured, its containerd and its bridge."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from harness.containerd import image
from harness.containerd.cri import Cri
from tests.node.guest.kubelet import PodSlice, knob, scope
from tests.node.guest.shell import run, wait_until

SOCKET = "/run/containerd/containerd.sock"
INSTALLED = Path("/payload/installed")
REGISTERED = Path("/opt/nri/plugins/10-v1bridge")
CONF = Path("/etc/nri/resource.d/10.conf")
BRIDGE = Path("/etc/nri/conf.d/10-v1bridge.conf")
DROP_IN = Path("/etc/systemd/system/containerd.service.d/node.conf")
UNIT = Path("/etc/systemd/system/nri-v1bridge.service")
PROJECT = Path("/payload/project")

CLEARCFS: dict[str, Any] = {
    "type": "clearcfs",
    "states": ["update"],
    "conf": {"classes": ["ls"], "pod": True},
}
KONFINE: dict[str, Any] = {"type": "konfine", "states": ["update"], "conf": {"systemReserved": [0]}}
LS = {"qos.class": "ls"}

# A plugin has more time than the usual 2 s: everything is slow here.
_NRI = """\
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  disable_connections = false
  plugin_registration_timeout = "30s"
  plugin_request_timeout = "15s"
"""
_CONFIG = {
    1: f"""\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image.NAME}"
  disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = true
{_NRI}""",
    2: f"""\
version = 3
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{image.NAME}"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "native"
[[plugins."io.containerd.transfer.v1.local".unpack_config]]
  platform = "linux"
  snapshotter = "native"
  differ = "walking"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = true
{_NRI}""",
}


def install() -> None:
    """Install what `make install` made, without its configuration."""
    shutil.copytree(INSTALLED / "opt", "/opt", symlinks=True, dirs_exist_ok=True)
    shutil.copytree(INSTALLED / "usr", "/usr", symlinks=True, dirs_exist_ok=True)


def configure(*plugins: dict[str, Any], **options: Any) -> None:
    """Write the host configuration, and the options of a bridge that the runtime launches."""
    for file, document in (
        (CONF, {"version": "0.1", "plugins": plugins}),
        (BRIDGE, {"logLevel": "debug", **options}),
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document))


def use_containerd(generation: int) -> None:
    """Restart the machine as one with Debian's containerd 1.7, or the newest 2.x, and wait until CRI answers."""
    Path("/etc/containerd").mkdir(exist_ok=True)
    Path("/etc/containerd/config.toml").write_text(_CONFIG[generation])
    DROP_IN.parent.mkdir(exist_ok=True)
    DROP_IN.unlink(missing_ok=True)
    programs = Path("/usr/bin")
    if generation == 2:
        programs = Path("/usr/local/lib/containerd-2")  # at a boot /payload is mounted later
        if not programs.exists():
            shutil.copytree("/payload/containerd-2/bin", programs)
        path = f"{programs}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        DROP_IN.write_text(
            f"[Service]\nExecStart=\nExecStart={programs}/containerd\nEnvironment=PATH={path}\n"
        )
    run("systemctl", "daemon-reload")
    run("systemctl", "restart", "containerd")
    wait_for_containerd()
    run(
        programs / "ctr",
        "-n",
        "k8s.io",
        "images",
        "import",
        "--snapshotter",
        "native",
        "/payload/image.tar",
    )
    with Cri(SOCKET) as cri:
        wait_until("containerd knows the image", lambda: cri.has_image(image.NAME))


def wait_for_containerd() -> None:
    """Wait until CRI answers."""

    def answers() -> bool:
        try:
            with Cri(SOCKET) as cri:
                return bool(cri.version(within=5))
        except grpc.RpcError:
            return False

    wait_until("containerd answers", answers)


@contextmanager
def bridge_as_a_unit() -> Iterator[None]:
    """Run the bridge as the systemd unit of ``deploy/`` instead of registering it with the runtime."""
    enable_bridge()
    try:
        yield
    finally:
        run("systemctl", "disable", "--now", "nri-v1bridge", status=None)
        UNIT.unlink()
        run("systemctl", "daemon-reload")
        REGISTERED.symlink_to("../lib/v1bridge")
        run("systemctl", "restart", "containerd")
        wait_for_containerd()


def log() -> str:
    """Return the log of all bridges since the machine was booted."""
    run("journalctl", "--sync", status=None)
    return run("journalctl", "--no-pager", "-o", "cat", "-t", "nri-v1bridge")


class Pod:
    """A pod with one container ``app``, in a slice as the kubelet makes it; both have a quota of half a CPU.

    :param annotations: the pod's; by default its class is latency-sensitive.
    """

    def __init__(
        self, cri: Cri, name: str, *, annotations: dict[str, str] | None = None, cpus: str = ""
    ) -> None:
        self.cri, self.name = cri, name
        self.slice = PodSlice(quota_us=500_000)
        annotations = LS if annotations is None else annotations
        self.id = retried(
            lambda: cri.run_pod(
                name, uid=self.slice.uid, annotations=annotations, cgroup_parent=self.slice.name
            )
        )
        self.container = cri.create_container(
            self.id,
            "app",
            image=image.NAME,
            command=image.FOREVER,
            cpu_quota=50_000,
            cpu_period=100_000,
            cpuset_cpus=cpus,
        )
        cri.start(self.container)

    @property
    def unit(self) -> str:
        """The container's scope."""
        return scope(self.container)

    def knob(self, name: str) -> str:
        """Return a knob of the container."""
        return knob(f"{self.slice.path}/{self.unit}", name)

    def remove(self) -> None:
        self.cri.stop(self.container)
        self.cri.stop_pod(self.id)
        self.cri.call("RemovePodSandbox", pod_sandbox_id=self.id)
        run("systemctl", "stop", self.slice.name)


def serves(name: str) -> None:
    """Run a pod of this name, and see that it has had both plugins."""
    with Cri(SOCKET) as cri:
        pod = Pod(cri, name)
        assert pod.knob("cpu.max") == pod.slice.knob("cpu.max") == "max 100000"
        assert pod.knob("cpuset.cpus") == "1-3"
        pod.remove()


def synchronizations() -> int:
    """Return how often a runtime has synchronized the bridge."""
    return log().count("synchronized: ")


def retried(action: Any, attempts: int = 3) -> Any:
    """Do what a kubelet does again: containerd may need longer than the limit of a call on such a slow machine."""
    for _ in range(attempts - 1):
        try:
            return action()
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
            time.sleep(1)
    return action()


def enable_bridge() -> None:
    """Let systemd start the bridge at every boot, instead of the runtime."""
    REGISTERED.unlink()
    shutil.copy(PROJECT / "deploy/systemd/nri-v1bridge.service", UNIT)
    Path("/etc/nri/v1bridge.json").write_text(json.dumps({"logLevel": "debug"}))
    Path("/etc/nri/v1bridge.json").chmod(0o600)
    run("systemctl", "restart", "containerd")
    wait_for_containerd()
    run("systemctl", "daemon-reload")
    seen = log().count("synchronized: ")
    run("systemctl", "enable", "--now", "nri-v1bridge")
    wait_until("the bridge is synchronized", lambda: log().count("synchronized: ") > seen)
