"""Two pods live and die on an embedded runtime: it launches the real bridge, the bridge runs the real plugins.

Shown is each event that the bridge got, what each v0.1 plugin made of it and how long it took, and the knobs of the
container before and after.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from demo.node import PERIOD, Node
from nri import adaptation, api, config

ROOT = Path(__file__).resolve().parent.parent
BINARIES = ROOT / "dist/nri"
QUOTA, NEW_QUOTA = 50_000, 70_000
NAMESPACE = "kube-system"
"""The namespace of the pods: the one whose pods may say their class by the sample configuration."""


class Pod:
    """A pod with one container, as a runtime would describe them."""

    def __init__(self, node: Node, name: str, qos: str) -> None:
        self.name, self.qos = name, qos
        uid = {"web": "0d9c5a4e", "batch": "7b1e4a53"}[name]
        self.path = f"{node.parent}/pod{uid}"
        self.container_path = f"{self.path}/app"
        node.make(self.path, str(QUOTA))
        self.pod = api.PodSandbox(id=f"{uid}-pod", name=name, namespace=NAMESPACE, uid=uid)
        self.pod.labels["io.kubernetes.pod.namespace"] = NAMESPACE  # as the kubelet does
        self.pod.annotations["qos.class"] = qos
        self.pod.linux.cgroups_path = f"{self.path}/pause"
        node.make(f"{self.path}/pause", "-1" if node.version == 1 else "max")
        self.pod.pid = node.run(f"{self.path}/pause")
        self.container = api.Container(id=f"{uid}-app", pod_sandbox_id=self.pod.id, name="app")
        self.container.linux.cgroups_path = self.container_path
        self.container.linux.resources.cpu.quota.value = QUOTA
        self.container.linux.resources.cpu.period.value = int(PERIOD)


class Show:
    """The runtime's side of the story, told as it happens."""

    def __init__(self, runtime: adaptation.Runtime, node: Node, log: Path) -> None:
        self._runtime, self._node, self._log = runtime, node, log
        self._read = 0
        self.exchanges: list[adaptation.Exchange] = []

    def event(self, rpc: str, pod: Pod, about: str = "") -> None:
        """Send an event, and show what came of it."""
        before = self._node.knobs(pod.container_path)
        self.exchanges.clear()
        outcome = self._runtime.send(rpc, pod.pod, pod.container if "Container" in rpc else None)
        took = sum(exchange.seconds for exchange in self.exchanges) * 1000
        click.secho(f"{rpc:20} {pod.name:6}{took:6.1f} ms", bold=True, nl=False)
        click.echo(f"   {about}" if about else "")
        for line in self._new_lines():
            said = line.get("metadata", {}) | {key: line[key] for key in line if key not in _COMMON}
            click.echo(
                f"    {line['state']:7} {line['plugin']:9} {line['ms']:6.1f} ms   {_pairs(said) or 'nothing to do'}"
            )
        if outcome.error is not None:
            click.secho(f"    error: {outcome.error}", fg="red")
        for knob, value in self._node.knobs(pod.container_path).items():
            if before and value != before[knob]:
                click.secho(f"    {knob}: {before[knob]} -> {value}", fg="yellow")

    def _new_lines(self) -> list[dict[str, Any]]:
        """What the bridge has logged of plugins since the last time."""
        lines = self._log.read_text().splitlines()
        new, self._read = lines[self._read :], len(lines)
        return [line for line in map(json.loads, new) if "plugin" in line and "ms" in line]


_COMMON = {"time", "level", "message", "state", "pod", "container", "id", "plugin", "ms", "metadata"}


def main() -> None:
    """The demonstration."""
    if not (BINARIES / "v1bridge").exists():
        raise SystemExit("dist/nri is not built; run: make demo")
    logging.disable()  # what the embedded runtime would log is shown
    with tempfile.TemporaryDirectory(prefix="nri-demo-") as folder, Node(Path(folder)) as node:
        scratch = Path(folder)
        log = scratch / "bridge.log"
        _lay_out(scratch, node, log)
        shown: list[Show] = []
        runtime = adaptation.Runtime(
            "nri-demo",
            plugin_dir=str(scratch / "plugins"),
            config_dir=str(scratch / "conf.d"),
            on_exchange=lambda exchange: shown[0].exchanges.append(exchange) if shown else None,
        )
        with runtime:
            if runtime.plugins != ["10-v1bridge"]:
                raise SystemExit(f"the bridge did not register; its log: {log.read_text() if log.exists() else ''}")
            shown.append(Show(runtime, node, log))
            _tell(shown[0], node, scratch)


def _lay_out(scratch: Path, node: Node, log: Path) -> None:
    """What `make install` would put on a node, in a scratch directory."""
    for directory in ("plugins", "conf.d", "resource.d"):
        (scratch / directory).mkdir()
    # Copies are ours: the bridge runs nothing of another user's, and the checkout may be one's.
    binaries = shutil.copytree(BINARIES, scratch / "lib", symlinks=True)
    (scratch / "plugins/10-v1bridge").symlink_to(binaries / "v1bridge")
    for file in sorted((ROOT / "conf/resource.d").glob("*.conf")):
        document = json.loads(file.read_text())
        for plugin in document["plugins"]:
            if node.mountinfo != "/proc/self/mountinfo":
                plugin["conf"]["mountinfo"] = node.mountinfo
            plugin["failurePolicy"] = "fail"  # a demonstration hides nothing
        (scratch / "resource.d" / file.name).write_text(json.dumps(document))
    settings = {"confDir": str(scratch / "resource.d"), "binDirs": [str(binaries)], "logFile": str(log)}
    (scratch / "conf.d/10-v1bridge.conf").write_text(json.dumps(settings | {"logFormat": "json"}))


def _tell(show: Show, node: Node, scratch: Path) -> None:
    click.secho("\nThe Node Resource Interface v0.1 on a runtime that speaks NRI v2\n", bold=True)
    click.echo(f"node       {node.where}")
    click.echo(f"           {node.parent}")
    click.echo("runtime    embedded; it launched 10-v1bridge as containerd does, and sends it v2 events")
    for plugin in config.load(str(scratch / "resource.d")).plugins:
        conf = {key: value for key, value in plugin.conf.items() if key != "mountinfo"}
        file = Path(plugin.source).name
        click.echo(f"plugin     {plugin.type:9} {json.dumps(conf)}  from conf/resource.d/{file}")
    click.echo("pods       web: latency-sensitive (qos.class=ls); batch: not. Each has half a CPU.")
    click.echo(
        f"           Both are in the namespace {NAMESPACE}: the sample lets pods of no other say their class.\n"
    )
    pods = [Pod(node, "web", "ls"), Pod(node, "batch", "batch")]
    for pod in pods:
        show.event("RunPodSandbox", pod, f"qos.class={pod.qos}")
        show.event("CreateContainer", pod)
        node.make(pod.container_path, str(QUOTA))
        pod.container.pid = node.run(pod.container_path)
        show.event("StartContainer", pod, "the process exists, and waits")
    web = pods[0]
    for path in (web.path, web.container_path):
        node.limit(path, str(NEW_QUOTA))
    web.container.linux.resources.cpu.quota.value = NEW_QUOTA
    show.event("PostUpdateContainer", web, "the runtime has written a new CPU limit, 0.7")
    for pod in pods:
        for rpc in ("StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"):
            show.event(rpc, pod)
    if os.geteuid() == 0 and shutil.which("containerd"):
        click.echo("\nThe same on the real thing: make demo-containerd")
    click.echo("")


def _pairs(values: dict[str, Any]) -> str:
    return "  ".join(f"{key}={value}" for key, value in values.items())


if __name__ == "__main__":
    sys.exit(main())
