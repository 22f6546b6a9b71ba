"""A scratch root that stands for a node: containerd 1.7 or another runtime, its processes, the bridge, a plugin."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, Any

from nri.doctor import FAULT, Examination, Node, NodeFinding, examine

if TYPE_CHECKING:
    from pathlib import Path

NRI = '[plugins."io.containerd.nri.v1.nri"]'
MAINTAINED = f"version = 2\n\n{NRI}\n  disable = false\n"
"""A config.toml of containerd 1.7 with NRI."""

CONFIG, CRIO = "/etc/containerd/config.toml", "/etc/crio/crio.conf.d/10.conf"
PLUGINS = "/etc/nri/resource.d/10.conf"
LAUNCHED = "/opt/nri/plugins/10-v1bridge"
SERVICE = "nri-v1bridge.service"
SOCKET = "/run/nri/nri.sock"
_LISTENING = "Num RefCount Protocol Flags Type St Inode Path\n00: 00000002 00000000 00010000 0001 01 7 {}\n"


class ScratchNode:
    """A node below a directory. It begins with a Debian, cgroup v2, and nothing of a runtime."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("/etc/os-release", 'NAME=x\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\n')
        self.write("/proc/1/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
        self.process(1, "/sbin/init")
        self.link("/proc/self", "1")
        self.write("/run/keep", "")
        self.link("/var/run", "/run")

    def path(self, path: str) -> Path:
        """The place of a path, whose directories are made."""
        place = self.root / path.lstrip("/")
        for parent in reversed(place.relative_to(self.root).parents):
            if not (self.root / parent).exists():
                (self.root / parent).mkdir()
                (self.root / parent).chmod(0o755)
        return place

    def write(self, path: str, content: str | bytes, mode: int = 0o644) -> Path:
        place = self.path(path)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
        place.chmod(mode)
        return place

    def link(self, path: str, target: str) -> None:
        self.path(path).unlink(missing_ok=True)
        self.path(path).symlink_to(target)

    def program(self, path: str, version: str, dump: str = "=") -> None:
        """A program that prints its version, and for `config dump` a text; by default one that is not TOML."""
        self.write("/dump", dump)
        text = f"#!/bin/sh\ncase $* in *dump*) cat '{self.root}/dump';; *) echo '{version}';; esac\n"
        self.write(path, text, 0o755)

    def process(self, pid: int, *arguments: str, namespace: str = "mnt:[1]", name: str = "") -> None:
        self.write(f"/proc/{pid}/comm", f"{name}\n")
        self.write(f"/proc/{pid}/cmdline", "\0".join(arguments) + "\0")
        self.link(f"/proc/{pid}/exe", arguments[0])
        self.link(f"/proc/{pid}/ns/mnt", namespace)

    def listen(self, path: str = SOCKET) -> None:
        """Make a socket, and have the kernel's table say that a process listens on it."""
        place = self.path(path)
        directory = os.open(place.parent, os.O_PATH)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"/proc/self/fd/{directory}/{place.name}")  # the whole path may be too long for an address
        os.close(directory)
        self.write("/proc/net/unix", _LISTENING.format(path))

    # What a node has

    def containerd(self, version: str = "1.7.24~ds1", config: str | None = MAINTAINED, dump: str = "=") -> None:
        self.program("/usr/bin/containerd", f"containerd github.com/containerd/containerd {version} abc", dump)
        self.process(700, "/usr/bin/containerd")
        if config is not None:
            self.write(CONFIG, config)

    def crio(self, version: str = "1.31.2", config: str | None = None) -> None:
        self.program("/usr/bin/crio", f"crio version {version}")
        self.process(710, "/usr/bin/crio")
        if config is not None:
            self.write(CRIO, config)

    def plugins(self, *types: str, path: str = PLUGINS) -> None:
        """Configure plugins, and install them."""
        self.write(path, json.dumps({"version": "0.1", "plugins": [{"type": each} for each in types]}))
        for each in types:
            self.write(f"/opt/nri/bin/{each}", "#!/bin/sh\n", 0o755)

    def launched(self) -> None:
        """Install the bridge where the runtime launches it."""
        self.write("/opt/nri/lib/v1bridge", "#!/bin/sh\n", 0o755)
        self.link(LAUNCHED, "../lib/v1bridge")

    def outside(self, *arguments: str) -> None:
        """Run a bridge from outside."""
        self.process(812, "/opt/nri/lib/nri", "bridge", *arguments)

    def well(self) -> ScratchNode:
        """Make a node on which nothing is wrong: containerd 1.7 launches the bridge, which runs a plugin."""
        self.containerd()
        self.launched()
        self.plugins("clearcfs")
        self.listen()
        return self

    # What is found

    def examine(self, **options: Any) -> Examination:
        return examine(Node(str(self.root), runs=True), **options)

    def faults(self) -> list[NodeFinding]:
        return [finding for finding in self.examine().findings if finding.level == FAULT]

    def found(self, code: str) -> list[NodeFinding]:
        return [finding for finding in self.examine().findings if finding.code == code]
