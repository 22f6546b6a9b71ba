"""podman with the hooks.d files of deploy/: a container that a person starts gets the plugins' treatment."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.containerd import cgroups, image
from harness.containerd.enclosure import HANGING, CommandFailedError, Enclosure
from tests.e2e.standin import StandIn
from tests.support.waiting import wait_until

pytestmark = pytest.mark.runtime

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def node(need: Callable[..., None], installed: Path) -> Iterator[Enclosure]:
    need("podman", "runc")
    with Enclosure() as enclosure:
        enclosure.install(installed)
        (enclosure.etc_nri / "resource.d").mkdir()
        for file in (installed / "etc/nri/resource.d").iterdir():
            document = json.loads(file.read_text())
            for plugin in document["plugins"]:  # as docs/running.md has it: there are no namespaces here
                plugin["conf"]["allow"] = dict.fromkeys(plugin["conf"]["allow"], True)
            (enclosure.etc_nri / "resource.d" / file.name).write_text(json.dumps(document))
        hooks = enclosure.root / "hooks.d"
        hooks.mkdir()
        for file in (ROOT / "deploy/hooks.d").glob("*.json"):
            shutil.copy(file, hooks)
        image.unpack_rootfs(enclosure.root / "rootfs")
        yield enclosure


def podman(node: Enclosure, *arguments: str | Path) -> str:
    places: list[str | Path] = [
        "--root",
        node.root / "storage",
        "--runroot",
        "/run/podman",
        "--storage-driver",
        "vfs",
    ]
    how: list[str | Path] = [
        "--cgroup-manager",
        "cgroupfs",
        "--runtime",
        "runc",
        "--hooks-dir",
        node.root / "hooks.d",
    ]
    return node.run("podman", *places, *how, *arguments)


def run(node: Enclosure) -> str:
    """Start a container with half a CPU whose class is ls; its id."""
    limits = ["--cpu-period", "100000", "--cpu-quota", "50000", "--cgroup-parent", node.cgroup_parent]
    plain = ["--network", "host", "--security-opt", "seccomp=unconfined", "--annotation", "qos.class=ls"]
    rootfs: list[str | Path] = ["--rootfs", node.root / "rootfs", "/bin/sleep", "1000"]
    return podman(node, "run", "-d", *limits, *plain, *rootfs).strip()


def test_ls_container_has_no_quota_and_no_reserved_cpu(node: Enclosure, tmp_path: Path, two_cpus: None) -> None:
    kept = StandIn(node.opt_nri / "bin", "keeper", tmp_path / "kept")
    document = {"version": "0.1", "plugins": [{"type": "keeper"}]}
    (node.etc_nri / "resource.d/30-keeper.conf").write_text(json.dumps(document))
    container = run(node)

    cgroup = f"{node.cgroup_parent}/libpod-{container}"
    assert cgroups.knob(cgroup, "cpu.cfs_quota_us") == "-1"
    last = (os.cpu_count() or 1) - 1
    assert cgroups.knob(cgroup, "cpuset.cpus") == ("1" if last == 1 else f"1-{last}")

    podman(node, "rm", "--force", "--time", "0", container)

    assert [(request["state"], request["id"]) for request in kept.requests()] == [
        ("create", container),
        ("delete", container),
    ]


def test_samples_ignore_the_class_and_keep_the_reserved_cpu(node: Enclosure, installed: Path, two_cpus: None) -> None:
    for file in (installed / "etc/nri/resource.d").iterdir():
        (node.etc_nri / "resource.d" / file.name).write_text(file.read_text())

    container = run(node)

    cgroup = f"{node.cgroup_parent}/libpod-{container}"
    assert cgroups.knob(cgroup, "cpu.cfs_quota_us") == "50000"
    assert "0" not in cgroups.knob(cgroup, "cpuset.cpus")
    podman(node, "rm", "--force", "--time", "0", container)


def hook_of(node: Enclosure, *words: str, timeout: int = 10) -> None:
    """Give the deployed hook more words, and another timeout."""
    file = node.root / "hooks.d/10-nri-create.json"
    document = json.loads((ROOT / "deploy/hooks.d" / file.name).read_text())
    assert document["hook"]["timeout"] == 10
    document["hook"] |= {"path": "/opt/nri/lib/nri", "args": [*document["hook"]["args"], *words], "timeout": timeout}
    file.write_text(json.dumps(document))


@pytest.mark.parametrize("by_the_runtime", [False, True], ids=["by itself", "by the runtime"])
def test_a_hook_whose_plugin_hangs_is_ended_and_leaves_nothing(node: Enclosure, by_the_runtime: bool) -> None:
    plugin = node.opt_nri / "bin/hanging"
    plugin.write_text(HANGING.format(begun=node.root / "begun"))
    plugin.chmod(0o755)
    (node.etc_nri / "resource.d/30-hanging.conf").write_text('{"version": "0.1", "plugins": [{"type": "hanging"}]}')
    begun = node.root / "begun"

    plain = ["--cgroup-parent", node.cgroup_parent, "--network", "host", "--security-opt", "seccomp=unconfined"]
    for timeout in (2, 8, 30):  # a busy machine may take longer to start the plugin
        if begun.exists():
            break
        if by_the_runtime:
            hook_of(node, "--deadline=60", "--timeout=60", timeout=timeout)
        else:
            hook_of(node)
        with pytest.raises(CommandFailedError) as refused:
            podman(node, "run", "-d", *plain, "--rootfs", node.root / "rootfs", "/bin/sleep", "1000")
        said = "not done within 8 s: plugin hanging: killed" in refused.value.stderr
        assert said == (not by_the_runtime)

    assert begun.exists()
    assert wait_until(lambda: node.left_of_hooks() == [])
    assert podman(node, "ps", "--quiet") == ""
