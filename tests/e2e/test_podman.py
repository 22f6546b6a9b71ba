"""podman with the hooks.d files of deploy/: a container that a person starts gets the plugins' treatment."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.containerd import cgroups, image
from harness.containerd.enclosure import CommandFailedError, Enclosure
from tests.e2e import hang, unreserved
from tests.e2e.standin import StandIn
from tests.e2e.test_runtime_on_podman import Podman
from tests.support.waiting import wait_until

pytestmark = pytest.mark.runtime

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def podman(need: Callable[..., None], installed: Path) -> Iterator[Podman]:
    need("podman", "runc")
    with Enclosure() as node:
        node.install(installed)
        (node.etc_nri / "resource.d").mkdir()
        for file in (installed / "etc/nri/resource.d").iterdir():
            document = json.loads(file.read_text())
            for plugin in document["plugins"]:  # as docs/podman-docker-crio.md has it: there are no namespaces here
                plugin["conf"]["allow"] = dict.fromkeys(plugin["conf"]["allow"], True)
            (node.etc_nri / "resource.d" / file.name).write_text(json.dumps(document))
        hooks = node.root / "hooks.d"
        hooks.mkdir()
        for file in (ROOT / "deploy/hooks.d").glob("*.json"):
            shutil.copy(file, hooks)
        image.unpack_rootfs(node.root / "rootfs")
        yield Podman(node, "runc", "--hooks-dir", hooks)


def run(podman: Podman) -> tuple[str, str]:
    """Start a container whose class is ls; its id and its cgroup."""
    container = podman.run("-d", "--annotation", "qos.class=ls")
    return container, f"{podman.node.cgroup_parent}/libpod-{container}"


def test_ls_container_has_no_quota_and_no_reserved_cpu(podman: Podman, tmp_path: Path, two_cpus: None) -> None:
    kept = StandIn(podman.node.opt_nri / "bin", "keeper", tmp_path / "kept")
    document = {"version": "0.1", "plugins": [{"type": "keeper"}]}
    (podman.node.etc_nri / "resource.d/30-keeper.conf").write_text(json.dumps(document))
    container, cgroup = run(podman)
    assert cgroups.knob(cgroup, "cpu.cfs_quota_us") == "-1"
    assert cgroups.knob(cgroup, "cpuset.cpus") == unreserved()
    podman.remove(container)
    assert [(each["state"], each["id"]) for each in kept.requests()] == [("create", container), ("delete", container)]


def test_samples_ignore_the_class_and_keep_the_reserved_cpu(podman: Podman, installed: Path, two_cpus: None) -> None:
    for file in (installed / "etc/nri/resource.d").iterdir():
        (podman.node.etc_nri / "resource.d" / file.name).write_text(file.read_text())
    container, cgroup = run(podman)
    assert cgroups.knob(cgroup, "cpu.cfs_quota_us") == "50000"
    assert "0" not in cgroups.knob(cgroup, "cpuset.cpus")
    podman.remove(container)


def hook_of(node: Enclosure, *words: str, timeout: int = 10) -> None:
    """Give the deployed hook more words, and another timeout."""
    file = node.root / "hooks.d/10-nri-create.json"
    document = json.loads((ROOT / "deploy/hooks.d" / file.name).read_text())
    assert document["hook"]["timeout"] == 10
    document["hook"] |= {"path": "/opt/nri/lib/nri", "args": [*document["hook"]["args"], *words], "timeout": timeout}
    file.write_text(json.dumps(document))


@pytest.mark.parametrize("by_the_runtime", [False, True], ids=["by itself", "by the runtime"])
def test_hook_with_a_hanging_plugin_leaves_nothing(podman: Podman, by_the_runtime: bool) -> None:
    begun = hang(podman.node)
    for timeout in (2, 8, 30):  # a busy machine may take longer to start the plugin
        if begun.exists():
            break
        if by_the_runtime:
            hook_of(podman.node, "--deadline=60", "--timeout=60", timeout=timeout)
        else:
            hook_of(podman.node)
        with pytest.raises(CommandFailedError) as refused:
            podman.run("-d")
        assert ("not done within 8 s: plugin hanging: killed" in refused.value.stderr) == (not by_the_runtime)

    assert begun.exists()
    assert wait_until(lambda: podman.node.left_of_hooks() == [])
    assert podman("ps", "--quiet") == ""
