"""Two pods live and die on an embedded runtime: it launches the real bridge, which runs the real plugins.

Prints each event that the bridge receives, the result and duration of each v0.1 plugin, and the container's knobs
before and after.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from demo import NAMESPACE, lines
from demo.pod_cgroups import PERIOD, PodCgroups
from harness.node import BINARIES, ROOT, BridgeNode
from nri import adaptation, config
from nri.cli.output import wrapped
from nri.v2 import api

QUOTA, NEW_QUOTA = 50_000, 70_000


class Pod:
    """A pod with one container, as a runtime describes them."""

    def __init__(self, cgroups: PodCgroups, name: str, qos: str) -> None:
        self.name, self.qos = name, qos
        uid = {"web": "0d9c5a4e", "batch": "7b1e4a53"}[name]
        self.path = f"{cgroups.parent}/pod{uid}"
        self.container_path = f"{self.path}/app"
        cgroups.make(self.path, str(QUOTA))
        self.pod = api.PodSandbox(id=f"{uid}-pod", name=name, namespace=NAMESPACE, uid=uid)
        self.pod.labels["io.kubernetes.pod.namespace"] = NAMESPACE  # as the kubelet does
        self.pod.annotations["qos.class"] = qos
        self.pod.linux.cgroups_path = f"{self.path}/pause"
        cgroups.make(f"{self.path}/pause", "-1" if cgroups.version == 1 else "max")
        self.pod.pid = cgroups.run(f"{self.path}/pause")
        self.container = api.Container(id=f"{uid}-app", pod_sandbox_id=self.pod.id, name="app")
        self.container.linux.cgroups_path = self.container_path
        self.container.linux.resources.cpu.quota.value = QUOTA
        self.container.linux.resources.cpu.period.value = int(PERIOD)


class Show:
    """Sends events and prints what happens."""

    def __init__(self, node: BridgeNode, cgroups: PodCgroups, exchanges: list[adaptation.Exchange]) -> None:
        self._node, self._cgroups, self._exchanges = node, cgroups, exchanges
        self._read = 0

    def event(self, rpc: str, pod: Pod, about: str = "") -> None:
        """Send an event; print its outcome, if a plugin may run for it."""
        before = self._cgroups.knobs(pod.container_path)
        self._exchanges.clear()
        outcome = self._node.runtime.send(rpc, pod.pod, pod.container if "Container" in rpc else None)
        took = sum(exchange.seconds for exchange in self._exchanges) * 1000
        if rpc not in _WITH_PLUGINS and outcome.error is None:
            return
        _print(lines.event(rpc, pod.name, took, about), bold=True)
        for fields in self._new_lines() if rpc in _WITH_PLUGINS else []:
            for part in fields["plugins"].split(", "):
                plugin, _, milliseconds = part.split(" ")
                result = {
                    key.removeprefix(f"{plugin}."): fields[key] for key in fields if key.startswith(f"{plugin}.")
                }
                result |= {key: fields[key] for key in fields if key == "error"}
                below = {key: self._cgroups.shown(value) for key, value in result.items()}
                if "cpus" in below:
                    below["cpus"] = f"{{{below['cpus']}}} of {self._cgroups.machine}"
                _print(lines.run(fields["state"], plugin, float(milliseconds.removesuffix("ms")), below))
        if outcome.error is not None:
            _print(wrapped(str(outcome.error), "    error: "), fg="red")
        for knob, value in self._cgroups.knobs(pod.container_path).items():
            if before and value != before[knob]:
                click.secho(f"    {knob}: {before[knob]} -> {value}", fg="yellow")

    def _new_lines(self) -> list[dict[str, str]]:
        """Return the fields of the lines about events that the bridge has logged since the last call.

        An event is logged after its answer, so its line may not be there yet.
        """
        until = time.monotonic() + 5
        while True:
            lines = self._node.log().splitlines(keepends=True)
            new = [_fields(line) for line in lines[self._read :] if line.endswith("\n")]
            if events := [fields for fields in new if "plugins" in fields]:
                self._read += len(new)
                return events
            if time.monotonic() > until:
                return []
            time.sleep(0.001)


_FIELD = re.compile(r' ([^\s"=]+)=("(?:[^"\\]|\\.)*"|\S+)')


def _fields(line: str) -> dict[str, str]:
    """Return the fields of a line of the bridge's log."""
    return {key: json.loads(value) if value.startswith('"') else value for key, value in _FIELD.findall(line)}


_WANTED = "An operator wants CPU 0 for the system, and no CPU quota for latency-sensitive pods."
_WHO = (
    "The runtime sends events to the bridge, a v2 plugin. For each event the bridge runs the v0.1 plugins: konfine "
    "keeps containers off CPU 0, clearcfs lifts the quota of pods with qos.class=ls."
)
_WITHOUT = (
    "Without the plugins, web would be throttled at half a CPU and then at 0.7, and both pods could run on CPU 0. "
    "batch keeps its quota: it is not latency-sensitive."
)
_WITH_PLUGINS = {"RunPodSandbox", "StartContainer", "PostUpdateContainer", "StopContainer", "StopPodSandbox"}


def main() -> None:
    """Run the demonstration."""
    if not (BINARIES / "v1bridge").exists():
        raise SystemExit("dist/nri is not built; run: make demo")
    logging.disable()  # the demonstration prints what the embedded runtime would log
    with tempfile.TemporaryDirectory(prefix="nri-demo-") as folder, PodCgroups(Path(folder)) as cgroups:
        # Copies belong to the current user. The checkout may not, and the bridge runs no other user's executables.
        binaries = shutil.copytree(BINARIES, Path(folder) / "lib", symlinks=True)
        exchanges: list[adaptation.Exchange] = []
        node = BridgeNode(
            Path(folder),
            binaries / "v1bridge",
            bin_dirs=[binaries],
            name="nri-demo",
            on_exchange=exchanges.append,
        )
        _configure(node, cgroups)
        with node:
            if not node.is_served:
                raise SystemExit(f"the bridge did not register; its log: {node.log()}")
            _tell(Show(node, cgroups, exchanges), node, cgroups)


def _configure(node: BridgeNode, cgroups: PodCgroups) -> None:
    """Write the sample configuration, as ``make install`` does, for these cgroups."""
    for file in sorted((ROOT / "conf/resource.d").glob("*.conf")):
        plugins = json.loads(file.read_text())["plugins"]
        for plugin in plugins:
            if cgroups.mountinfo != "/proc/self/mountinfo":
                plugin["conf"]["mountinfo"] = cgroups.mountinfo
            plugin["failurePolicy"] = "fail"  # the demonstration shows every fault
        node.configure(file.name, *plugins)


def _tell(show: Show, node: BridgeNode, cgroups: PodCgroups) -> None:
    click.secho("\nThe Node Resource Interface v0.1 on a runtime that speaks NRI v2\n", bold=True)
    _print([*wrapped(_WANTED, ""), *wrapped(_WHO, ""), ""])
    _print(lines.described("node", cgroups.where, f"{cgroups.parent}, below as …"))
    _print(lines.described("runtime", "embedded; it launched 10-v1bridge as containerd does"))
    for plugin in config.load(str(node.conf_dir)).plugins:
        conf = {key: value for key, value in plugin.conf.items() if key != "mountinfo"}
        _print(lines.plugin(plugin.type, conf, f"conf/resource.d/{Path(plugin.source).name}"))
    pods_are = "web: latency-sensitive (qos.class=ls); batch: not. Half a CPU each."
    allowed = f"Both are in the namespace {NAMESPACE}: the sample lets only its pods set their class."
    _print(lines.described("pods", pods_are, allowed))
    events = "An event of the runtime with its time; below it the plugins that ran for it."
    skipped = "skipped=REASON: the plugin left the container as it is."
    _print([*lines.described("legend", events, skipped), ""])
    pods = [Pod(cgroups, "web", "ls"), Pod(cgroups, "batch", "batch")]
    for pod in pods:
        show.event("RunPodSandbox", pod, f"qos.class={pod.qos}")
        show.event("CreateContainer", pod)
        cgroups.make(pod.container_path, str(QUOTA))
        pod.container.pid = cgroups.run(pod.container_path)
        show.event("StartContainer", pod, "the process exists, and waits")
    web = pods[0]
    for path in (web.path, web.container_path):
        cgroups.limit(path, str(NEW_QUOTA))
    web.container.linux.resources.cpu.quota.value = NEW_QUOTA
    show.event("PostUpdateContainer", web, "the runtime wrote a new CPU limit, 0.7")
    for pod in pods:
        for rpc in ("StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"):
            show.event(rpc, pod)
    click.echo("")
    _print(wrapped(_WITHOUT, ""))
    if os.geteuid() == 0 and shutil.which("containerd"):
        click.echo("\nThe same on the real thing: make demo-containerd")
    click.echo("")


def _print(texts: Iterable[str], **style: Any) -> None:
    for text in texts:
        click.secho(text, **style)


if __name__ == "__main__":
    main()
