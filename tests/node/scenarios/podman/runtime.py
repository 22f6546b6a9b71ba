"""podman with `nri-crun` and `nri-runc` on cgroup v2 and systemd's manager: all states, and what plugins change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.guest import node
from tests.node.guest.shell import run

IMAGE = "docker.io/local/busybox:1"
CONF = Path("/etc/containers/containers.conf.d/50-nri.conf")
HOOKS = Path("/usr/share/containers/oci/hooks.d")
LOG = Path("/var/log/requests.log")
PLUGINS = [
    {
        "type": "device-injector",
        "states": ["setup"],
        "conf": {"allow": {"devices": True, "sysctl": True}},
    },
    {"type": "konfine", "states": ["update"], "conf": {"systemReserved": [0]}},
    {"type": "clearcfs", "states": ["update"], "conf": {"classes": ["ls"]}},
    {
        "type": "logger",
        "states": ["setup", "resize", "update", "pause", "resume"],
        "conf": {"file": str(LOG)},
    },
]
ASKS = {
    "qos.class": "ls",
    "devices.noderesource.dev": "[{path: /dev/given, type: c, major: 1, minor: 3}]",
    "sysctl.noderesource.dev": "{kernel.msgmax: 4321}",
}


@pytest.fixture(scope="module", autouse=True)
def podman(installed: None) -> Iterator[None]:
    """podman with the runtimes of deploy/, without hooks, and an image."""
    node.configure(*PLUGINS)
    shutil.rmtree(HOOKS, ignore_errors=True)
    CONF.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(node.PROJECT / "deploy/podman/50-nri.conf", CONF)
    Path("/etc/containers/policy.json").write_text(
        json.dumps({"default": [{"type": "insecureAcceptAnything"}]})
    )
    run("podman", "load", "--input", "/payload/image.tar")
    yield
    CONF.unlink()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    LOG.unlink(missing_ok=True)
    yield
    run("podman", "pod", "rm", "--all", "--force", "--time=0")
    run("podman", "rm", "--all", "--force", "--time=0")


def _scope(container: str) -> Path:
    path = run("podman", "inspect", "--format", "{{.State.CgroupPath}}", container).strip()
    directory = Path("/sys/fs/cgroup" + path)
    return directory.parent if directory.name == "container" else directory


def _states() -> list[str]:
    return [json.loads(line)["state"] for line in LOG.read_text().splitlines()]


def _confined(container: str) -> None:
    scope = _scope(container)
    assert (scope / "cpuset.cpus").read_text() == "1-3\n"
    assert (scope / "cpu.max").read_text() == "max 100000\n"
    # systemd has the values, and does not write others
    run("systemctl", "set-property", "--runtime", scope.name, "CPUWeight=30")
    run("systemctl", "daemon-reload")
    assert (scope / "cpuset.cpus").read_text() == "1-3\n"
    assert (scope / "cpu.max").read_text() == "max 100000\n"


@pytest.mark.parametrize("runtime", ["nri-crun", "nri-runc"])
def test_a_containers_life(runtime: str) -> None:
    options = ["--detach", "--network=none", "--cpus=0.5", "--name=a"]
    options += [f"--annotation={key}={value}" for key, value in ASKS.items()]
    run("podman", f"--runtime={runtime}", "run", *options, IMAGE)
    _confined("a")
    assert run("podman", "exec", "a", "cat", "/proc/sys/kernel/msgmax") == "4321\n"
    run("podman", "exec", "a", "sh", "-c", "echo x > /dev/given")
    run("podman", "pause", "a")
    run("podman", "unpause", "a")
    run("podman", "update", "--cpus=0.7", "a")
    _confined("a")
    run("podman", "rm", "--force", "--time=0", "a")
    assert _states() == ["setup", "create", "pause", "resume", "resize", "update", "delete"]


def test_the_runtime_of_the_conf_is_the_default() -> None:
    run("podman", "run", "--detach", "--network=none", "--name=b", IMAGE)
    assert _states() == ["setup", "create"]
    assert (_scope("b") / "cpuset.cpus").read_text() == "1-3\n"
