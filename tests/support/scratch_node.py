"""A scratch root that stands for a node: containerd 1.7 or another runtime, its processes, the bridge, a plugin."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, Any

from nri.doctor import FAULT, Finding, Node, examine
from nri.doctor.node import Findings
from tests.support import status_documents as documents
from tests.support.status_server import serving

if TYPE_CHECKING:
    from pathlib import Path

NRI = '[plugins."io.containerd.nri.v1.nri"]'
MAINTAINED = f"version = 2\n\n{NRI}\n  disable = false\n"
"""A config.toml of containerd 1.7 with NRI."""

CONFIG = "/etc/containerd/config.toml"
PLUGINS = "/etc/nri/resource.d/10.conf"
LAUNCHED = "/opt/nri/plugins/10-v1bridge"
SERVICE = "nri-v1bridge.service"
SOCKET = "/run/nri/nri.sock"
_DUMP = """#!/bin/sh
case $* in
*dump*) file={root}/etc/containerd/config.toml; if grep -q refused $file; then exit 1; fi; cat $file ;;
*config) cat {root}/crio-config ;;
*) echo '{version}' ;;
esac
"""


class ScratchNode:
    """A node below a directory. It begins with a Debian, cgroup v2, and nothing of a runtime."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.status: Any = None  # what the bridge answers; None if none answers
        self.write("/etc/os-release", 'NAME=x\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\n')
        self.write("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
        self.process(1, "/sbin/init")
        self.link("/proc/self/ns/mnt", "mnt:[1]")
        self.write("/run/keep", "")
        self.link("/var/run", "../run")

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

    def program(self, path: str, version: str) -> None:
        """A program that prints its version; and its configuration, as containerd and CRI-O do."""
        self.write(path, _DUMP.format(root=self.root, version=version), 0o755)

    def says(self, path: str, document: object) -> None:
        """A program that prints a JSON document, such as ``podman info``."""
        self.write(path, f"#!/bin/sh\ncat <<'END'\n{json.dumps(document)}\nEND\n", 0o755)

    def process(
        self, pid: int, *arguments: str, namespace: str = "mnt:[1]", name: str = ""
    ) -> None:
        self.write(f"/proc/{pid}/comm", f"{name}\n")
        self.write(f"/proc/{pid}/cmdline", "\0".join(arguments) + "\0")
        self.link(f"/proc/{pid}/exe", arguments[0])
        self.link(f"/proc/{pid}/ns/mnt", namespace)

    def listen(self, path: str = SOCKET) -> None:
        """Make a socket."""
        place = self.path(path)
        place.unlink(missing_ok=True)
        directory = os.open(place.parent, os.O_PATH)
        with socket.socket(socket.AF_UNIX) as listener:
            # The whole path may be too long for an address.
            listener.bind(f"/proc/self/fd/{directory}/{place.name}")
        os.close(directory)

    # What a node has

    def containerd(self, version: str = "1.7.24~ds1", config: str | None = MAINTAINED) -> None:
        self.program(
            "/usr/bin/containerd", f"containerd github.com/containerd/containerd {version} abc"
        )
        self.process(700, "/usr/bin/containerd")
        if config is not None:
            self.write(CONFIG, config)

    def crio(
        self, version: str = "1.31.2", config: str = "[crio.nri]\n# enable_nri = true\n"
    ) -> None:
        """A CRI-O in place of containerd."""
        self.path("/proc/700/cmdline").unlink(missing_ok=True)
        self.path("/usr/bin/containerd").unlink(missing_ok=True)
        self.program("/usr/bin/crio", f"crio version {version}")
        self.process(710, "/usr/bin/crio")
        self.write("/crio-config", config)
        self.listen()

    def plugins(self, *types: str, path: str = PLUGINS) -> None:
        """Configure plugins, and install them."""
        self.write(
            path, json.dumps({"version": "0.1", "plugins": [{"type": each} for each in types]})
        )
        for each in types:
            self.write(f"/opt/nri/bin/{each}", "#!/bin/sh\necho '{}'\n", 0o755)

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
        self.status = documents.healthy()
        return self

    # What is found

    def examine(self) -> Findings:
        if self.status is None:
            return examine(Node(str(self.root)))
        with serving(self.path("/run/nri/v1bridge.sock"), self.status):
            return examine(Node(str(self.root)))

    def faults(self) -> list[Finding]:
        return [finding for finding in self.examine() if finding.level == FAULT]

    def found(self, code: str) -> list[Finding]:
        return [finding for finding in self.examine() if finding.code == code]
