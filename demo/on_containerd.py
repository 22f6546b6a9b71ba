"""The same demonstration on a private, real containerd, which launches the bridge and starts two real pods.

``make demo-containerd``; needs root, runc and busybox-static. The containerd is Debian's release 2.x, independent of
the machine's own: the machine's files and containers are not touched, and nothing is left behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import click

from demo import NAMESPACE, lines
from harness import debian
from harness.containerd import releases
from harness.containerd.bridged import LOG, create, knob, prepared
from harness.containerd.cri import Cri
from harness.containerd.instance import Containerd
from harness.node import ROOT
from nri.cli.output import wrapped


def main() -> None:
    """Run the demonstration."""
    missing = [package for program, package in _NEEDED.items() if not shutil.which(program)]
    if os.geteuid() != 0 or missing:
        wanted = "root" if os.geteuid() != 0 else f"the Debian packages {', '.join(missing)}"
        raise SystemExit(f"make demo-containerd needs {wanted}")
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        containerd = stack.enter_context(_containerd(Path(scratch)))
        cri = stack.enter_context(containerd.cri())
        _configure(containerd, Path(scratch))
        version = ".".join(map(str, containerd.release.version))
        click.secho(f"\ncontainerd {version} has launched /opt/nri/plugins/10-v1bridge\n", bold=True)
        pods = [_start(containerd, cri, name, qos) for name, qos in (("web", "ls"), ("batch", "batch"))]
        click.secho("UpdateContainerResources  web: the new quota is 70000", bold=True)
        cri.update_resources(pods[0][1], cpu_quota=70_000)
        _show_knobs(containerd, pods[0][1])
        for pod, container in pods:
            cri.stop(container)
            cri.stop_pod(pod)
        click.secho("\nthe bridge's log:", bold=True)
        for line in (containerd.enclosure.root / LOG).read_text().splitlines():
            _print(wrapped(line, "", "    "))


def _containerd(scratch: Path) -> Containerd:
    """Return a containerd that launches the bridge when it is entered."""
    click.echo("looking for containerd 2.x, which may be downloaded", err=True)
    try:
        release = releases.find((2,), cache=ROOT / ".cache/containerd", pauses=(2, 5))
    except debian.UnavailableError as error:
        raise SystemExit(f"make demo-containerd: {error}") from None
    click.echo("installing the binaries", err=True)
    subprocess.run([ROOT / "tools/install", scratch], check=True, stdout=subprocess.DEVNULL)
    click.echo("starting containerd", err=True)
    return Containerd(release=release, prepare=prepared(scratch, logLevel="info"))


def _print(texts: Iterable[str]) -> None:
    for text in texts:
        click.echo(text)


_NEEDED = {"runc": "runc", "busybox": "busybox-static", "unshare": "util-linux"}


def _configure(containerd: Containerd, scratch: Path) -> None:
    directory = containerd.enclosure.etc_nri / "resource.d"
    directory.mkdir()
    for file in sorted((scratch / "etc/nri/resource.d").iterdir()):
        (directory / file.name).write_text(file.read_text())
        for plugin in json.loads(file.read_text())["plugins"]:
            _print(lines.plugin(plugin["type"], plugin["conf"], f"/etc/nri/resource.d/{file.name}"))


def _start(containerd: Containerd, cri: Cri, name: str, qos: str) -> tuple[str, str]:
    click.secho(f"pod {NAMESPACE}/{name}, qos.class={qos}, a container with half a CPU", bold=True)
    labels = {"io.kubernetes.pod.namespace": NAMESPACE}  # as the kubelet does
    pod = cri.run_pod(name, namespace=NAMESPACE, labels=labels, annotations={"qos.class": qos})
    container = create(cri, pod)
    cri.start(container)
    _show_knobs(containerd, container)
    return pod, container


def _show_knobs(containerd: Containerd, container: str) -> None:
    for name in ("cpu.cfs_quota_us", "cpuset.cpus"):
        click.secho(f"    {name}: {knob(containerd, container, name)}", fg="yellow")


if __name__ == "__main__":
    main()
