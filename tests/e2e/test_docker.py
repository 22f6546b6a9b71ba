"""dockerd with `nri-runc` as its default runtime, by the daemon.json of deploy/: lives of containers, its own end."""

import json
import signal
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import debian
from harness.containerd import cgroups, image
from harness.containerd.enclosure import SYSTEM_PATH, CommandFailedError, Enclosure
from tests.e2e import ROOT, unreserved
from tests.e2e.standin import StandIn, stand_in
from tests.support.waiting import SOON, until, wait_until

pytestmark = pytest.mark.runtime

CONF = ROOT / "deploy/docker/daemon.json"
SUITE = "bookworm"


class Docker:
    """dockerd in an enclosure, and its client.

    :param programs: the directory with the files of Debian's package docker.io.
    """

    def __init__(self, node: Enclosure, programs: Path) -> None:
        self.node, self._programs = node, programs
        self._process: subprocess.Popen[bytes] | None = None
        self._log = node.root / "docker.log"
        self._file = node.root / "daemon.json"
        places = {"data-root": str(node.root / "docker"), "exec-root": "/run/docker"}
        places |= {"pidfile": "/run/docker.pid", "cgroup-parent": node.cgroup_parent}
        places["deprecated-key-path"] = str(node.root / "key.json")  # else in /etc/docker
        apart = {"bridge": "none", "iptables": False, "ip6tables": False, "storage-driver": "vfs"}
        about = {"live-restore": True, "hosts": ["unix:///run/docker.sock"]}
        own = json.loads(CONF.read_text())
        self._file.write_text(json.dumps(own | places | apart | about))

    def __call__(self, *words: str | Path) -> str:
        client = self._programs / "usr/bin/docker"
        return self.node.run(client, "--host", "unix:///run/docker.sock", *words)

    def start(self) -> None:
        """Start dockerd, and wait until it answers; containers of an earlier one are its own."""
        daemon = self._programs / "usr/sbin/dockerd"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.node.command(["setsid", daemon, "--config-file", self._file]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": f"{self._programs}/usr/sbin:{self._programs}/usr/bin:{SYSTEM_PATH}"},
            )
        until(self._answers, "dockerd to answer")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()[-3000:]
        try:
            self("version")
        except CommandFailedError:
            return False
        return True

    def make_image(self) -> None:
        """Import the image of busybox, which sleeps for ever without a command."""
        rootfs, archive = self.node.root / "rootfs", self.node.root / "rootfs.tar"
        image.unpack_rootfs(rootfs)
        with tarfile.open(archive, "w") as tar:
            tar.add(rootfs, arcname="/")
        entry = f"ENTRYPOINT {json.dumps([*image.FOREVER])}"
        self("import", "--change", entry, "--change", "ENV PATH=/bin", archive, image.NAME)

    def kill(self) -> None:
        """Kill dockerd alone; its shims and containers stay."""
        self.node.run("sh", "-c", "kill -9 $(cat /run/docker.pid)")
        assert self._process is not None
        self._process.wait(SOON)

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(SOON)

    def run(self, *words: str, command: tuple[str, ...] = ()) -> str:
        """Start a container with half a CPU; its id, or its output without `-d`."""
        limits = ["--cpu-period", "100000", "--cpu-quota", "50000"]
        plain = ["--network", "none", "--security-opt", "seccomp=unconfined"]
        return self("run", *limits, *plain, *words, image.NAME, *command).strip()

    def remove(self, container: str) -> None:
        self("rm", "--force", container)

    def knob(self, container: str, name: str) -> str:
        return cgroups.knob(f"{self.node.cgroup_parent}/{container}", name)


@pytest.fixture(scope="module")
def programs(need: Callable[..., None]) -> Path:
    """Debian's docker.io, unpacked: to install it would start a dockerd that changes the machine."""
    need("runc", "containerd")
    try:
        cache = (ROOT / ".cache/docker").absolute()
        return debian.fetch("docker.io", SUITE, cache, debian.PAUSES)
    except debian.UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def docker(programs: Path, installed: Path) -> Iterator[Docker]:
    with Enclosure() as node:
        node.install(installed)
        docker = Docker(node, programs)
        docker.start()
        try:
            docker.make_image()
            yield docker
        finally:
            docker.close()


@pytest.fixture
def plugin(docker: Docker, tmp_path: Path) -> StandIn:
    return stand_in(docker.node, tmp_path / "kept")


def test_a_plugin_hears_of_each_step_of_a_container(docker: Docker, plugin: StandIn) -> None:
    plugin.answer_with("setup", {"adjust": {"env": {"FROM": "plugin"}}})
    container = docker.run("-d")
    docker("update", "--cpu-quota", "70000", container)
    docker("pause", container)
    docker("unpause", container)
    assert "FROM=plugin" in docker("exec", container, "/bin/cat", "/proc/1/environ").split("\0")
    docker("restart", "--time", "0", container)
    docker("stop", "--time", "0", container)
    docker("start", container)
    docker.remove(container)
    once = ["setup", "create", "delete"]
    first = ["setup", "create", "resize", "update", "pause", "resume", "delete"]
    assert plugin.states(container) == [*first, *once, *once]
    resized = next(each for each in plugin.requests() if each["state"] == "resize")
    assert resized["spec"]["resources"]["cpu"]["quota"] == 70000


def test_foreground_container_keeps_its_streams_and_exit_status(
    docker: Docker, plugin: StandIn
) -> None:
    with pytest.raises(CommandFailedError) as ended:
        docker.run("--rm", "--entrypoint", "/bin/sh", command=("-c", "echo hello; exit 7"))
    assert (ended.value.code, ended.value.stdout) == (7, "hello\n")
    assert wait_until(
        lambda: [each["state"] for each in plugin.requests()] == ["setup", "create", "delete"]
    )


def test_docker_shows_the_error_of_the_plugin(docker: Docker, plugin: StandIn) -> None:
    docker.node.configure({"type": "standin"})
    plugin.fail_with("no CPU is left")
    with pytest.raises(CommandFailedError) as refused:
        docker.run("-d")
    assert "plugin standin: no CPU is left" in refused.value.stderr
    assert docker("ps", "--quiet") == ""
    assert [each["state"] for each in plugin.requests()] == ["create", "delete"]


@pytest.mark.usefixtures("two_cpus")
def test_compiled_plugins_do_their_work(docker: Docker, tmp_path: Path) -> None:
    """docker 20.10 has no annotations: a plugin before the others gives the class, and what is asked for."""
    device = "- path: /dev/nri-null\n  type: c\n  major: 1\n  minor: 3\n"
    classing = StandIn(docker.node.opt_nri / "bin", "classing", tmp_path / "classing")
    said = {"qos.class": "ls", "koordinator.sh/qosClass": "LS", "devices.noderesource.dev": device}
    classing.answer_with("setup", {"adjust": {"annotations": said}})
    entries: list[dict[str, Any]] = [
        {"type": "classing", "states": ["setup"]},
        {
            "type": "device-injector",
            "states": ["setup"],
            "conf": {"allow": {"devices": True}},
        },
        {"type": "clearcfs", "states": ["update"], "conf": {"allow": {"class": True}}},
        {"type": "konfine", "states": ["update"], "conf": {"systemReserved": [0]}},
        {
            "type": "qos",
            "states": ["update"],
            "conf": {
                "allow": {"class": True},
                "containers": {"LS": {"cpu.weight": 300, "pids.max": 99}},
            },
        },
    ]
    docker.node.configure(*entries)
    container = docker.run("-d")
    assert docker("exec", container, "/bin/sh", "-c", "stat -c %t:%T /dev/nri-null") == "1:3\n"
    for _ in range(2):
        assert docker.knob(container, "cpu.cfs_quota_us") == "-1"
        assert docker.knob(container, "cpuset.cpus") == unreserved()
        assert docker.knob(container, "pids.max") == "99"
        docker("update", "--cpu-shares", "512", container)  # and all of it again
    docker.remove(container)


def test_containers_survive_the_end_of_dockerd(docker: Docker, plugin: StandIn) -> None:
    container = docker.run("-d")
    docker.kill()
    docker.start()
    assert docker("ps", "--quiet", "--no-trunc").strip() == container
    other = docker.run("-d")
    for each in (container, other):
        docker("stop", "--time", "0", each)
        docker.remove(each)
        assert plugin.states(each) == ["setup", "create", "delete"]
