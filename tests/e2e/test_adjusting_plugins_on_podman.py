"""The compiled plugins that adjust containers, through `nri-runc` and `nri-crun` on podman: seen in the container."""

import json
from pathlib import Path

import pytest

from harness.containerd.enclosure import CommandFailedError
from tests.e2e.test_runtime_on_podman import Podman, both, podman
from tests.support.waiting import wait_until

pytestmark = pytest.mark.runtime

__all__ = ["podman"]  # a fixture

EVERYTHING = dict.fromkeys(["devices", "mounts", "cdiDevices", "netDevices", "sysctl", "memoryPolicy"], True)


@pytest.fixture
def injecting(podman: Podman) -> Podman:
    """podman with a device-injector that is open to every container."""
    podman.node.configure({"type": "device-injector", "states": ["setup"], "conf": {"allow": EVERYTHING}})
    return podman


def started(podman: Podman, **annotations: object) -> str:
    """Start a container with these annotations, whose underscores are dashes; return its id."""
    words = []
    for key, value in annotations.items():
        text = value if isinstance(value, str) else json.dumps(value)
        words += annotation(podman, f"{key.replace('_', '-')}.noderesource.dev", text)
    return podman.run("-d", *words)


def annotation(podman: Podman, key: str, value: str) -> list[str]:
    """Return the option for an annotation. Up to version 4 podman reads it as a line of CSV."""
    text = f"{key}={value}"
    if int(podman("--version").split()[2].partition(".")[0]) < 5:
        text = '"' + text.replace('"', '""') + '"'
    return ["--annotation", text]


def shell(podman: Podman, container: str, command: str) -> str:
    return podman("exec", container, "/bin/sh", "-c", command)


@both
def test_devices_mounts_and_sysctls_are_in_the_container(injecting: Podman) -> None:
    data = injecting.node.root / "data"
    data.mkdir()
    (data / "file").write_text("seen")
    container = started(
        injecting,
        devices="- path: /dev/given\n  type: c\n  major: 1\n  minor: 3\n",
        mounts=[{"source": str(data), "destination": "/data", "type": "bind", "options": ["rbind", "ro"]}],
        sysctl={"kernel.msgmax": "4321"},
    )
    assert shell(injecting, container, "test -c /dev/given && echo x > /dev/given && echo yes") == "yes\n"
    assert shell(injecting, container, "cat /data/file") == "seen"
    assert shell(injecting, container, "cat /proc/sys/kernel/msgmax") == "4321\n"
    injecting.remove(container)


def test_a_change_that_the_runtime_would_ignore_is_refused(injecting: Podman) -> None:
    with pytest.raises(CommandFailedError) as refused:
        started(injecting, memory_policy={"mode": "MPOL_LOCAL"})
    assert "adjust.linux.memoryPolicy: " in refused.value.stderr
    assert " of the OCI runtime specification; expected 1.3 or newer" in refused.value.stderr
    with pytest.raises(CommandFailedError) as refused:
        started(injecting, cdi_devices=["vendor.com/class=one"])
    assert "adjust.cdiDevices: the OCI runtime specification does not have it" in refused.value.stderr
    assert injecting("ps", "--quiet") == ""


def test_limits_hooks_and_the_log(podman: Podman, tmp_path: Path) -> None:
    hooks, trace, log = tmp_path / "hooks.d", tmp_path / "trace", tmp_path / "requests.log"
    hooks.mkdir()
    program = {"path": "/bin/sh", "args": ["sh", "-c", f"cat >> {trace}"]}
    document = {"version": "1.0.0", "hook": program, "when": {"always": True}, "stages": ["poststop"]}
    (hooks / "10-trace.json").write_text(json.dumps(document))
    podman.node.configure(
        {"type": "ulimit-adjuster", "states": ["setup"], "conf": {"allow": {"ulimits": True}}},
        {"type": "hook-injector", "states": ["setup"], "conf": {"dirs": [str(hooks)]}},
        {"type": "logger", "states": ["setup", "pause"], "conf": {"file": str(log)}},
    )
    name = annotation(podman, "io.kubernetes.cri.container-name", "web")  # podman tells no plugin a container's name
    wanted = "- type: nofile\n  hard: 99\n  soft: 77\n"
    container = podman.run("-d", *name, *annotation(podman, "ulimits.noderesource.dev/container.web", wanted))
    limits = shell(podman, container, "cat /proc/1/limits").splitlines()
    assert [line.split()[3:5] for line in limits if "open files" in line] == [["77", "99"]]
    podman("pause", container)
    podman("unpause", container)
    assert not trace.exists()
    podman.remove(container)
    assert wait_until(trace.exists, 5)
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["state"] for each in logged] == ["setup", "create", "pause", "delete"]
    assert [change["plugin"] for change in logged[0]["changes"]] == ["ulimit-adjuster", "hook-injector"]
