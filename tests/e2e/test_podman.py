"""podman with `nri-runc` and `nri-crun` and the containers.conf of deploy/, or with its hooks.d files."""

import json
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.containerd import cgroups, image
from harness.containerd.enclosure import CommandFailedError, Enclosure
from tests.e2e import ROOT, hang, unreserved
from tests.e2e.bundle import empty_hybrid
from tests.e2e.standin import StandIn, stand_in
from tests.support.waiting import wait_until

pytestmark = pytest.mark.runtime

CONF = ROOT / "deploy/podman/50-nri.conf"
PLAIN = ["--network", "host", "--security-opt", "seccomp=unconfined"]


class Podman:
    """podman in an enclosure, with a runtime, and more options."""

    def __init__(self, node: Enclosure, runtime: str, *options: str | Path) -> None:
        self.node, self.runtime, self._options = node, runtime, options

    def __call__(self, *words: str | Path) -> str:
        storage: list[str | Path] = [
            "--root",
            self.node.root / "storage",
            "--runroot",
            "/run/podman",
            "--network-config-dir",  # netavark writes a lock there, and /etc is read-only
            self.node.root / "networks",
        ]
        how = ["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--runtime", self.runtime]
        conf = f"CONTAINERS_CONF={CONF}"
        return self.node.run("env", conf, "podman", *storage, *how, *self._options, *words)

    def run(self, *words: str | Path, command: tuple[str, ...] = ("/bin/sleep", "1000")) -> str:
        """Start a container with half a CPU; its id, or its output without `-d`."""
        limits = [
            "--cpu-period",
            "100000",
            "--cpu-quota",
            "50000",
            "--cgroup-parent",
            self.node.cgroup_parent,
        ]
        return self(
            "run", *limits, *PLAIN, *words, "--rootfs", self.node.root / "rootfs", *command
        ).strip()

    def remove(self, container: str) -> None:
        self("rm", "--force", "--time", "0", container)


both = pytest.mark.parametrize("podman", ["runc", "crun"], indirect=True)
"""For what depends on the runtime below; everything else is tried with runc."""


@pytest.fixture
def podman(
    request: pytest.FixtureRequest, need: Callable[..., None], installed: Path
) -> Iterator[Podman]:
    name = getattr(request, "param", "runc")
    need("podman", name)
    with Enclosure() as enclosure:
        enclosure.install(installed)
        image.unpack_rootfs(enclosure.root / "rootfs")
        if name == "crun":
            empty_hybrid(enclosure)
        yield Podman(enclosure, f"nri-{name}")


@pytest.fixture
def plugin(podman: Podman, tmp_path: Path) -> StandIn:
    return stand_in(podman.node, tmp_path / "kept")


def test_the_conf_names_the_runtimes_where_they_are_installed(installed: Path) -> None:
    engine = tomllib.loads(CONF.read_text())["engine"]
    for name, paths in engine["runtimes"].items():
        assert all((installed / path.lstrip("/")).exists() for path in paths)
        assert name in engine["runtime_supports_json"]


def test_foreground_container_keeps_its_streams_and_exit_status(
    podman: Podman, plugin: StandIn
) -> None:
    plugin.answer_with("setup", {"adjust": {"env": {"FROM": "plugin"}}})
    with pytest.raises(CommandFailedError) as ended:
        podman.run("--rm", command=("/bin/sh", "-c", "echo $FROM; exit 7"))
    assert (ended.value.code, ended.value.stdout) == (7, "plugin\n")
    assert wait_until(
        lambda: [each["state"] for each in plugin.requests()] == ["setup", "create", "delete"]
    )


@both
def test_podman_shows_the_error_of_the_plugin(podman: Podman, plugin: StandIn) -> None:
    podman.node.configure({"type": "standin"})
    plugin.fail_with("no CPU is left")
    with pytest.raises(CommandFailedError) as refused:
        podman.run("-d")
    said = refused.value.stderr
    assert f"{podman.runtime}: {podman.runtime} create " in said
    assert "plugin standin: no CPU is left" in said
    assert podman("ps", "--quiet") == ""
    assert [each["state"] for each in plugin.requests()] == ["create", "delete"]


def test_restarted_container_gets_its_plugins_again(podman: Podman, plugin: StandIn) -> None:
    plugin.answer_with("setup", {"adjust": {"env": {"FROM": "plugin"}}})
    container = podman.run("-d")
    podman("restart", "--time", "0", container)
    assert (
        podman("exec", container, "/bin/cat", "/proc/1/environ").split("\0").count("FROM=plugin")
        == 1
    )
    podman.remove(container)
    assert plugin.states(container) == ["setup", "create", "delete"] * 2


def test_a_pod_of_podman(podman: Podman, plugin: StandIn) -> None:
    pause = podman.node.root / "pause"
    image.write_image(pause)
    podman("load", "--quiet", "--input", pause)
    pod = podman(
        "pod", "create", "--network", "host", "--infra-image", image.NAME, "--share", "ipc"
    ).strip()
    container = podman(
        "run", "-d", "--pod", pod, *PLAIN[2:], image.NAME, "/bin/sleep", "1000"
    ).strip()
    infra = podman("pod", "inspect", "--format", "{{.InfraContainerID}}", pod).strip()
    podman("pod", "rm", "--force", "--time", "0", pod)
    for id_ in (infra, container):
        assert plugin.states(id_) == ["setup", "create", "delete"]


# The hooks of deploy/


@pytest.fixture
def hooked(need: Callable[..., None], installed: Path) -> Iterator[Podman]:
    """podman with runc, and with the configuration of conf/resource.d for all containers."""
    need("podman", "runc")
    with Enclosure() as node:
        node.install(installed)
        (node.etc_nri / "resource.d").mkdir()
        for file in (installed / "etc/nri/resource.d").iterdir():
            document = json.loads(file.read_text())
            # As docs/podman-docker-crio.md has it: there are no namespaces here.
            for plugin in document["plugins"]:
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


@pytest.mark.usefixtures("two_cpus")
def test_ls_container_has_no_quota_and_no_reserved_cpu(hooked: Podman, tmp_path: Path) -> None:
    kept = StandIn(hooked.node.opt_nri / "bin", "keeper", tmp_path / "kept")
    document = {"version": "0.1", "plugins": [{"type": "keeper"}]}
    (hooked.node.etc_nri / "resource.d/30-keeper.conf").write_text(json.dumps(document))
    container, cgroup = run(hooked)
    assert cgroups.knob(cgroup, "cpu.cfs_quota_us") == "-1"
    assert cgroups.knob(cgroup, "cpuset.cpus") == unreserved()
    hooked.remove(container)
    assert [(each["state"], each["id"]) for each in kept.requests()] == [
        ("create", container),
        ("delete", container),
    ]


def hook_of(node: Enclosure, *words: str, timeout: int = 10) -> None:
    """Give the deployed hook more words, and another timeout."""
    file = node.root / "hooks.d/10-nri-create.json"
    document = json.loads((ROOT / "deploy/hooks.d" / file.name).read_text())
    assert document["hook"]["timeout"] == 10
    document["hook"] |= {
        "path": "/opt/nri/lib/nri",
        "args": [*document["hook"]["args"], *words],
        "timeout": timeout,
    }
    file.write_text(json.dumps(document))


@pytest.mark.parametrize("by_the_runtime", [False, True], ids=["by itself", "by the runtime"])
def test_hook_with_a_hanging_plugin_leaves_nothing(hooked: Podman, by_the_runtime: bool) -> None:
    begun = hang(hooked.node)
    for timeout in (2, 8, 30):  # a busy machine may take longer to start the plugin
        if begun.exists():
            break
        if by_the_runtime:
            hook_of(hooked.node, "--deadline=60", "--timeout=60", timeout=timeout)
        else:
            hook_of(hooked.node)
        with pytest.raises(CommandFailedError) as refused:
            hooked.run("-d")
        assert ("not done within 8 s: plugin hanging: killed" in refused.value.stderr) == (
            not by_the_runtime
        )

    assert begun.exists()
    assert wait_until(lambda: hooked.node.left_of_hooks() == [])
    assert hooked("ps", "--quiet") == ""
