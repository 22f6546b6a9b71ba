"""The containers of the DaemonSet that bring a ConfigMap to the node, and a bridge that serves events meanwhile."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri import config
from nri.config import refused
from tests.integration.v1bridge.site import Attached, start_error
from tests.support.config_maps import ConfigMapVolume
from tests.support.host import Host
from tests.support.waiting import SOON, wait_until

ROOT = Path(__file__).parents[3]
FOLLOW = ROOT / "deploy/kubernetes/follow-configuration"
UNINSTALL = ROOT / "deploy/kubernetes/install-node"
FAULTY: list[tuple[dict[str, str], str]] = [
    ({"10.conf": "{"}, "10.conf:1:2: "),
    ({"10.conf": '{"version": "0.1", "plugins": [{"type": "nowhere"}]}'}, "not found"),
    ({}, "has no *.conf"),
]


def naming(*names: str) -> dict[str, str]:
    """Two files that name these plugins each."""
    text = json.dumps({"version": "0.1", "plugins": [{"type": name} for name in names]})
    return {"10.conf": text, "20.conf": text}


class FollowedNode:
    """A node whose configuration is a ConfigMap, with plugins that note their names."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.root = host.root / "node"
        self.etc = self.root / "etc/nri"
        host.bin = self.root / "opt/nri/bin"
        host.conf = self.etc / "resource.d"
        for folder in (host.bin, self.etc):
            folder.mkdir(parents=True)
        self.names = host.root / "names"
        for name in ("a", "b"):
            note = f"grep -q nri-check || echo {name} >>{self.names}\necho '{{}}'\n"
            host.script(name, f'#!/bin/sh\n[ "$1" = invoke ] || exit 3\n{note}')
        self.volume = ConfigMapVolume(host.root / "mount")
        code = "from nri.cli.entry import main; main()"
        self.nri = host.script(
            "nri", f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n', into=host.root
        )
        self.follower: subprocess.Popen[str] | None = None
        self.log = host.root / "follower.log"

    def environment(self) -> dict[str, str]:
        asked = {
            "NRI": str(self.nri),
            "PYTHONPATH": str(ROOT),
            "FOLLOW_PERIOD": "0.05",
            "FOLLOW_ROUNDS": "5",
        }
        return {**os.environ, **asked}

    def run(self, mode: str) -> subprocess.CompletedProcess[str]:
        command: list[str | Path] = [FOLLOW, mode, self.volume.path, self.root]
        return subprocess.run(
            command, env=self.environment(), capture_output=True, text=True, check=False
        )

    def uninstall(self) -> subprocess.CompletedProcess[str]:
        command: list[str | Path] = [UNINSTALL, "uninstall", self.root, self.root]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def follow(self) -> None:
        command: list[str | Path] = [FOLLOW, "follow", self.volume.path, self.root]
        with self.log.open("w") as log:
            self.follower = subprocess.Popen(
                command, env=self.environment(), stdout=log, stderr=log, text=True
            )

    def is_ready(self) -> bool:
        """Return whether the configuration directory has the ConfigMap's files, and none was refused."""
        wanted, used = (
            {file.name: file.read_text() for file in place.glob("*.conf")}
            for place in (self.volume.path, self.host.conf)
        )
        return wanted == used and refused.read(str(self.host.conf)) is None

    def end(self) -> None:
        if self.follower is not None:
            self.follower.terminate()
            assert self.follower.wait(SOON) == 0
            self.follower = None

    def plugins(self) -> list[str]:
        """What a bridge of this node would run; all owners and modes are right."""
        return [
            plugin.type for plugin in config.load(str(self.host.conf), f"{self.root}/none").plugins
        ]

    def noted(self) -> list[str]:
        """What plugins have noted since the last time."""
        names = self.names.read_text().split() if self.names.exists() else []
        self.names.unlink(missing_ok=True)
        return names


@pytest.fixture
def node(host: Host) -> Iterator[FollowedNode]:
    node = FollowedNode(host)
    yield node
    node.end()


def test_config_map_becomes_the_configuration_and_is_trusted(node: FollowedNode) -> None:
    node.volume.write({**naming("a"), "notes.txt": "not for the bridge"})
    assert not node.is_ready()
    done = node.run("once")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith(
        "follow-configuration: now in use: 10.conf 20.conf, hash "
    )
    assert node.plugins() == ["a", "a"]
    assert node.host.conf.is_symlink()
    assert node.is_ready()
    assert sorted(file.name for file in node.host.conf.iterdir()) == ["10.conf", "20.conf"]

    before = os.readlink(node.host.conf)
    node.volume.write(naming("a"))  # the same again
    assert node.run("once").stdout == ""
    assert os.readlink(node.host.conf) == before
    assert [folder.name for folder in (node.etc / "kubernetes/sets").iterdir()] == [
        os.path.basename(before)
    ]


def test_invalid_content_is_refused_and_the_node_says_why(node: FollowedNode) -> None:
    node.volume.write(naming("a"))
    node.run("once")
    for files, reason in FAULTY:
        node.volume.write(files)
        done = node.run("once")
        assert done.returncode == 0
        assert done.stderr.startswith("the ConfigMap") and reason in done.stderr.splitlines()[0]
        assert str(node.root) not in done.stderr
        assert node.plugins() == ["a", "a"]
        why = refused.read(str(node.host.conf))
        assert why is not None and why.source == str(node.volume.path) and reason in why.faults[0]
    node.volume.write(naming("a"))
    assert node.run("once").returncode == 0
    assert node.is_ready()


def test_a_node_without_any_valid_configuration_starts_no_bridge(node: FollowedNode) -> None:
    node.volume.write({"10.conf": "{"})
    done = node.run("once")
    assert done.returncode == 1
    fault, changed, none = done.stderr.splitlines()
    # What `kubectl describe pod` shows begins with the fault.
    assert fault.startswith("the ConfigMap: 10.conf:1:2: ")
    assert (changed, none) == (
        "nothing has changed",
        "follow-configuration: found no valid configuration on this node",
    )
    assert not os.path.lexists(node.host.conf)


def test_no_bridge_starts_while_another_container_looks_for_the_first_configuration(
    node: FollowedNode,
) -> None:
    node.volume.write(naming("a"))
    lock = node.etc / "kubernetes/lock"
    lock.parent.mkdir()
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert node.run("once").returncode == 1
        node.host.conf.mkdir()
        assert node.run("once").returncode == 1
    assert node.run("once").returncode == 0


def test_follower_takes_each_exchange_and_reports_a_fault_once(node: FollowedNode) -> None:
    node.volume.write(naming("a"))
    node.follow()
    assert wait_until(node.is_ready)
    (node.host.conf / "10.conf").write_text("{")  # what somebody changes on the node is replaced
    (node.host.conf / "30.conf").write_text("{")
    assert wait_until(
        lambda: sorted(file.name for file in node.host.conf.iterdir()) == ["10.conf", "20.conf"]
    )
    assert node.plugins() == ["a", "a"]
    node.volume.write(naming("b", "a"))
    assert wait_until(lambda: node.plugins() == ["b", "a"] * 2)
    node.volume.write({"10.conf": "{"})
    assert wait_until(lambda: "10.conf:1:2: " in node.log.read_text())
    node.volume.write(naming("b"))
    assert wait_until(lambda: node.plugins() == ["b", "b"])
    assert wait_until(node.is_ready)
    assert node.log.read_text().count("10.conf:1:2: ") == 1


def test_refused_content_counts_once_its_plugin_is_installed(node: FollowedNode) -> None:
    (node.host.bin / "b").rename(node.host.root / "b")
    node.volume.write(naming("b"))
    node.follow()
    assert wait_until(lambda: "the ConfigMap: " in node.log.read_text())
    (node.host.root / "b").rename(node.host.bin / "b")
    assert wait_until(lambda: node.host.conf.exists() and node.plugins() == ["b", "b"])


def test_second_follower_stands_by_until_the_first_one_ends(node: FollowedNode) -> None:
    """With a surge, the old pod and the new one have different ConfigMaps for a moment."""
    node.volume.write(naming("a"))
    node.follow()
    assert wait_until(node.is_ready)
    other = ConfigMapVolume(node.host.root / "other")
    other.write(naming("b"))
    node.volume, first = other, node.follower
    assert "left to the other container" in node.run("once").stdout
    log = node.host.root / "second.log"
    node.log = log
    node.follow()
    assert wait_until(lambda: "standing by" in log.read_text())
    assert node.plugins() == ["a", "a"]
    assert first is not None
    first.terminate()
    assert first.wait(SOON) == 0
    assert wait_until(lambda: node.plugins() == ["b", "b"])


@pytest.mark.parametrize("what", ["directory", "link"])
def test_an_uninstallation_leaves_the_node_as_it_was(node: FollowedNode, what: str) -> None:
    own = node.host.conf if what == "directory" else node.host.root / "elsewhere"
    own.mkdir()
    (own / "05.conf").write_text('{"version": "0.1", "plugins": []}')
    if what == "link":
        node.host.conf.symlink_to(own)
    shutil.rmtree(node.host.bin)
    node.volume.write({"10.conf": '{"version": "0.1", "plugins": []}'})
    moved = (
        "follow-configuration: moved /etc/nri/resource.d to /etc/nri/kubernetes/before/resource.d\n"
    )
    assert moved in node.run("once").stdout
    run, logs = node.root / "run/nri", node.root / "var/log/nri"
    for folder in (run, logs):
        folder.mkdir(parents=True)
    for name in ("nri.sock", "v1bridge.record", "v1bridge.sock"):
        (run / name).touch()
    for name in ("v1bridge.log", "v1bridge.log.1", "v1bridge.log.2"):
        (logs / name).touch()
    # Other bytes, so that it is the follower which makes it ready.
    node.volume.write({"10.conf": '{"version": "0.1","plugins": []}'})
    node.follow()
    assert wait_until(node.is_ready)
    refused = node.uninstall()
    assert refused.returncode == 1
    assert "a container still follows a ConfigMap on this node" in refused.stderr
    assert node.is_ready()
    node.end()
    done = node.uninstall()
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in node.etc.iterdir()] == ["resource.d"]
    assert [path.name for path in node.host.conf.iterdir()] == ["05.conf"]
    assert node.host.conf.is_symlink() == (what == "link")
    assert [path.name for path in run.iterdir()] == ["nri.sock"]
    assert [path.name for path in logs.parent.iterdir()] == []


def test_no_event_is_without_a_configuration_during_exchanges(node: FollowedNode) -> None:
    """The bridge serves one container after the other; each gets the whole of one configuration or of the other."""
    one, two = ["a"] * 2, ["b"] * 4
    node.volume.write(naming("a"))
    node.run("once")
    node.follow()
    with Attached(node.host, resident=False) as site:
        for before, after, files in (
            (one, two, naming("b", "b")),
            (two, one, naming("a")),
            (one, two, naming("b", "b")),
        ):
            node.volume.write(files)
            noted: list[str] = []
            while noted != after:
                assert start_error(site.runtime) == ""
                noted = node.noted()
                assert noted in (before, after), "neither the one configuration nor the other"
        assert site.keeps_the_bridge()
        node.end()
