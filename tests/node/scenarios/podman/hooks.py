"""podman with crun and with runc on cgroup v2 and systemd's manager: the chain runs through OCI hooks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.guest import node
from tests.node.guest.shell import run

IMAGE = "docker.io/local/busybox:1"
HOOKS = Path("/usr/share/containers/oci/hooks.d")
CLEARCFS = {"type": "clearcfs", "conf": {"classes": ["ls"]}}
KONFINE = {"type": "konfine", "conf": {"systemReserved": [0]}}


@pytest.fixture(scope="module", autouse=True)
def podman(installed: None) -> None:
    """podman with the hooks of deploy/ and an image."""
    node.configure(CLEARCFS, KONFINE)
    shutil.copytree(node.PROJECT / "deploy/hooks.d", HOOKS, dirs_exist_ok=True)
    Path("/etc/containers/policy.json").write_text(
        json.dumps({"default": [{"type": "insecureAcceptAnything"}]})
    )
    run("podman", "load", "--input", "/payload/image.tar")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    run("podman", "pod", "rm", "--all", "--force", "--time=0")
    run("podman", "rm", "--all", "--force", "--time=0")


def _directory(container: str) -> Path:
    path = run("podman", "inspect", "--format", "{{.State.CgroupPath}}", container).strip()
    directory = Path("/sys/fs/cgroup" + path)
    return directory.parent if directory.name == "container" else directory


def _refused(*command: str) -> str:
    """Run a command that must fail as podman fails when the runtime does; return what it says."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (126, 127), done.stdout + done.stderr
    return done.stderr


def _cleared(container: str) -> None:
    scope = _directory(container)
    assert scope.name.startswith("libpod-")
    for directory in (scope, scope / "container"):
        if (directory / "cpu.max").exists():
            assert (directory / "cpu.max").read_text() == "max 100000\n"
    assert (scope / "cpuset.cpus").read_text() == "1-3\n"
    # systemd has the values, and does not write others
    run("systemctl", "set-property", "--runtime", scope.name, "CPUWeight=30")
    run("systemctl", "daemon-reload")
    assert (scope / "cpu.max").read_text() == "max 100000\n"
    assert (scope / "cpuset.cpus").read_text() == "1-3\n"


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_a_container(runtime: str) -> None:
    options = [
        "--detach",
        "--network=none",
        "--cpus=0.5",
        "--annotation=qos.class=ls",
        f"--name=a-{runtime}",
    ]
    run("podman", f"--runtime={runtime}", "run", *options, IMAGE)
    _cleared(f"a-{runtime}")
    run("podman", "rm", "--force", "--time=0", f"a-{runtime}")


def test_a_pods_containers() -> None:
    run("podman", "pod", "create", "--name=pod", "--network=none")
    options = ["--detach", "--pod=pod", "--cpus=0.5", "--annotation=qos.class=ls", "--name=c"]
    run("podman", "run", *options, IMAGE)
    _cleared("c")


MANIFEST = """\
apiVersion: v1
kind: Pod
metadata:
  name: played
  annotations:
    qos.class: ls
spec:
  hostNetwork: true
  containers:
  - name: app
    image: docker.io/local/busybox:1
    imagePullPolicy: Never
    resources:
      limits:
        cpu: 500m
"""


def test_kube_play_with_annotations(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(MANIFEST)
    run("podman", "kube", "play", tmp_path / "pod.yaml")
    _cleared("played-app")
    run("podman", "kube", "down", tmp_path / "pod.yaml")


def test_a_plugin_that_fails_keeps_the_container_from_starting() -> None:
    node.configure({"type": "absent"}, CLEARCFS)
    try:
        said = _refused("podman", "--runtime=crun", "run", "--network=none", "--name=d", IMAGE)
        assert "error executing hook" in said  # crun does not show what the hook says
        said = _refused("podman", "--runtime=runc", "run", "--network=none", "--name=e", IMAGE)
        assert "plugin absent: not found" in said
    finally:
        node.configure(CLEARCFS, KONFINE)


def test_rootless_podman_is_refused_with_a_sentence() -> None:
    run("useradd", "--create-home", "--shell=/bin/sh", "someone")
    run("loginctl", "enable-linger", "someone")
    run("chmod", "644", "/payload/image.tar")
    uid = run("id", "-u", "someone").strip()
    user = [
        "setpriv",
        f"--reuid={uid}",
        f"--regid={uid}",
        "--init-groups",
        "env",
        "-i",
        "HOME=/home/someone",
    ]
    user += [
        f"XDG_RUNTIME_DIR=/run/user/{uid}",
        f"PATH={os.environ['PATH']}",
        "podman",
        "--cgroup-manager=systemd",
    ]
    run(*user, "load", "--input", "/payload/image.tar")
    runc = [*user, "--runtime=runc", "run", "--network=none"]
    said = _refused(*runc, IMAGE)
    assert "this is a user namespace (rootless)" in said
    assert "or --no-check-owner" in said
    said = _refused(*user, "--runtime=crun", "run", "--network=none", IMAGE)
    assert "error executing hook" in said
    # Users who shall not have the plugins name another folder.
    other = Path("/home/someone/.config/containers/containers.conf")
    other.parent.mkdir(parents=True)
    other.write_text('[engine]\nhooks_dir = ["/nonexistent"]\n')
    run("chown", "-R", "someone", "/home/someone/.config")
    assert run(*runc, "--entrypoint=/bin/true", IMAGE) == ""
