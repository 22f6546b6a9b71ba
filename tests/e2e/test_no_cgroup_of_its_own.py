"""Containers that their runtime makes no cgroup for: clearcfs and konfine leave their caller's cgroup alone."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.containerd import cgroups, image
from harness.containerd.enclosure import CommandFailedError, Enclosure
from tests.e2e import ROOT
from tests.e2e.bundle import Bundle, OCIRuntime, empty_hybrid, enclosed, nri_hooks

pytestmark = pytest.mark.runtime

NRI = "/opt/nri/lib/nri"
LOG = "hook.log"
PLUGINS = {"clearcfs": {"pod": True}, "konfine": {"systemReserved": [0]}}


class Caller:
    """A cgroup with a quota and both CPUs, in which a runtime is run."""

    def __init__(self, enclosure: Enclosure, name: str) -> None:
        self.enclosure = enclosure
        self.path = f"{enclosure.cgroup_parent}/kubepods/{name}"
        for mount in cgroups.hierarchies().values():
            folder = mount
            for part in self.path.strip("/").split("/"):
                folder = folder / part
                folder.mkdir(exist_ok=True)
                for knob in (
                    "cpuset.cpus",
                    "cpuset.mems",
                ):  # a new cpuset has nothing, and takes no process
                    if (folder / knob).exists():
                        (folder / knob).write_text((folder.parent / knob).read_text().strip())
        for path in (self.path, os.path.dirname(self.path)):
            (cgroups.directory("cpu", path) / "cpu.cfs_quota_us").write_text("50000")
        self.before = self.knobs()

    def run(self, *command: str | Path) -> str:
        enter = [
            f"echo $$ > {mount}{self.path}/cgroup.procs" for mount in cgroups.hierarchies().values()
        ]
        return self.enclosure.run("sh", "-ec", "; ".join([*enter, 'exec "$@"']), "sh", *command)

    def knobs(self) -> list[str]:
        paths = (self.path, os.path.dirname(self.path))
        return [
            cgroups.knob(path, knob)
            for path in paths
            for knob in ("cpu.cfs_quota_us", "cpuset.cpus")
        ]


def configure(enclosure: Enclosure, plugin: str, **entry: Any) -> None:
    enclosure.configure({"type": plugin, "conf": PLUGINS[plugin], **entry})


@pytest.fixture
def crun(need: Callable[..., None], installed: Path) -> Iterator[OCIRuntime]:
    need("crun")
    with enclosed("crun") as runtime:
        runtime.enclosure.install(installed)
        yield runtime


def bundle(crun: OCIRuntime, cgroups_path: str | None) -> Bundle:
    web = crun.bundle(
        "web", hooks=nri_hooks(crun.enclosure.root / LOG), annotations={"qos.class": "ls"}
    )
    config = json.loads((web.path / "config.json").read_text())
    config["linux"] |= {"cgroupsPath": cgroups_path, "resources": {}}
    (web.path / "config.json").write_text(json.dumps(config))
    return web


@pytest.mark.parametrize(
    (
        "plugin",
        "cgroups_path",
        "name",
    ),  # the caller's cgroup is not the container's, even if it is named after it
    [
        ("clearcfs", "/kubepods/pod1/web", "pod1/web"),
        ("konfine", "/kubepods/pod1/web", "shell"),
        ("clearcfs", "kubepods/web", "shell"),
        ("konfine", "kubepods/web", "web"),
        ("clearcfs", "", "libpod-web"),
        ("konfine", "", "pod1/web"),
    ],
)
def test_crun_without_cgroups(
    crun: OCIRuntime, plugin: str, cgroups_path: str, name: str, two_cpus: None
) -> None:
    caller = Caller(crun.enclosure, name)
    options = ["--cgroup-manager=disabled", "--root", str(crun.enclosure.root / "state")]
    configure(crun.enclosure, plugin)
    web = bundle(crun, cgroups_path)
    with pytest.raises(CommandFailedError):
        caller.run("crun", *options, "create", "--bundle", web.path, web.id)
    assert caller.knobs() == caller.before
    said = (crun.enclosure.root / LOG).read_text()
    assert f"plugin {plugin}: no {'cpu' if plugin == 'clearcfs' else 'cpuset'} cgroup for " in said
    if not cgroups_path.startswith("/"):
        why = (
            "which is this process's own"
            if name.endswith("web")
            else "named after the container 'web'"
        )
        assert f"is in '{caller.path}', " in said
        assert why in said

    configure(crun.enclosure, plugin, failurePolicy="ignore")
    caller.run("crun", *options, "create", "--bundle", web.path, web.id)
    assert len(cgroups.processes(caller.path)) == 1
    assert caller.knobs() == caller.before
    crun.delete(web, force=True)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_podman_without_cgroups(
    need: Callable[..., None], installed: Path, plugin: str, two_cpus: None
) -> None:
    need("podman", "crun")
    with Enclosure() as node:
        node.install(installed)
        empty_hybrid(node)
        configure(node, plugin, failurePolicy="ignore")
        hooks = node.root / "hooks.d"
        hooks.mkdir()
        for file in (ROOT / "deploy/hooks.d").glob("*.json"):
            document = json.loads(file.read_text())
            document["hook"]["path"] = NRI
            document["hook"]["args"] += ["--log-file", str(node.root / LOG)]
            (hooks / file.name).write_text(json.dumps(document))
        image.unpack_rootfs(node.root / "rootfs")
        caller = Caller(node, "shell")
        places: list[str | Path] = ["--root", node.root / "storage", "--runroot", "/run/podman"]
        places += ["--network-config-dir", node.root / "networks"]
        how = ["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--runtime", "crun"]
        how += ["--hooks-dir", str(hooks)]
        plain = [
            "--network",
            "host",
            "--security-opt",
            "seccomp=unconfined",
            "--annotation",
            "qos.class=ls",
        ]
        container = caller.run(
            "podman", *places, *how, "run", "-d", "--cgroups=disabled", *plain, "--rootfs", node.root / "rootfs",
            "/bin/sleep", "1000",
        ).strip()  # fmt: skip
        assert caller.knobs() == caller.before
        assert f"named after the container '{container}'" in (node.root / LOG).read_text()
        node.run("podman", *places, *how, "rm", "--force", "--time", "0", container)
