"""A containerd with the bridge: its installation, configuration, log and containers."""

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.containerd import cgroups, image
from harness.containerd.cri import Cri
from harness.containerd.enclosure import Enclosure
from harness.containerd.instance import Containerd

SOCKET = "/var/run/nri/nri.sock"
LOG = "bridge.log"


def prepared(
    installed: Path, *, launched: bool = True, **options: Any
) -> Callable[[Enclosure], None]:
    """Return a function that installs the binaries and the bridge options before containerd starts.

    :param launched: whether containerd launches the bridge.
    :param options: more bridge options.
    """

    def prepare(enclosure: Enclosure) -> None:
        enclosure.install(installed)
        if not launched:
            (enclosure.opt_nri / "plugins/10-v1bridge").unlink()
        (enclosure.etc_nri / "conf.d").mkdir()
        text = json.dumps({"logFile": str(enclosure.root / LOG), "logLevel": "debug"} | options)
        (enclosure.etc_nri / "conf.d/10-v1bridge.conf").write_text(text)

    return prepare


def configure(containerd: Containerd, *plugins: dict[str, Any], version: str = "0.1") -> None:
    """Replace /etc/nri/resource.d/10.conf atomically."""
    containerd.enclosure.configure(*plugins, version=version)


def script(containerd: Containerd, name: str, body: str) -> None:
    """Install a plugin that is a shell script."""
    path = containerd.enclosure.opt_nri / "bin" / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def create(cri: Cri, pod: str, annotations: Mapping[str, str] | None = None) -> str:
    """Create a container with a quota of half a CPU; return its id."""
    return cri.create_container(
        *(pod, "app"),
        image=image.NAME,
        command=image.FOREVER,
        cpu_quota=50_000,
        cpu_period=100_000,
        annotations=annotations,
    )


def knob(containerd: Containerd, identity: str, name: str) -> str:
    """Return the value of a knob of a pod's or a container's cgroup."""
    return cgroups.knob(f"{containerd.enclosure.cgroup_parent}/{identity}", name)


def log(containerd: Containerd) -> str:
    """Return the bridge's log."""
    return (containerd.enclosure.root / LOG).read_text()


def outside(containerd: Containerd) -> subprocess.Popen[bytes]:
    """Start the compiled `nri bridge` in the enclosure, outside of containerd."""
    options = containerd.enclosure.etc_nri / "conf.d/10-v1bridge.conf"
    command = ["/opt/nri/lib/nri", "bridge", "--config", "/etc/nri/conf.d/" + options.name]
    return subprocess.Popen(containerd.enclosure.command(command), stdin=subprocess.DEVNULL, env={})


def connected(containerd: Containerd) -> int:
    """Return how often the bridge was synchronized, by its log."""
    path = containerd.enclosure.root / LOG
    return path.read_text().count("synchronized: ") if path.exists() else 0
