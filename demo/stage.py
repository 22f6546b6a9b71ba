"""A node for one chapter: an embedded runtime that has launched the real bridge, its pods, and what is printed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from demo import NAMESPACE, lines
from demo.pod_cgroups import PERIOD, PodCgroups
from harness.node import BINARIES, BridgeNode
from nri.cli.output import wrapped
from nri.v2 import api

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

QUOTA = 50_000
"""Microseconds of each 100,000: half a CPU."""

_FIELD = re.compile(r' ([^\s"=]+)=("(?:[^"\\]|\\.)*"|\S+)')


def show(texts: Iterable[str], **style: Any) -> None:
    """Print lines, in colours at a terminal."""
    for text in texts:
        click.secho(text, **style)


_STATES = {
    "RunPodSandbox": "create",
    "CreateContainer": "setup",
    "StartContainer": "create",
    "UpdateContainer": "resize",
    "PostUpdateContainer": "update",
    "StopContainer": "delete",
    "StopPodSandbox": "delete",
}
"""The state in the line about each event."""


class Pod:
    """A pod with one container, as a runtime describes them."""

    def __init__(
        self, cgroups: PodCgroups, name: str, annotations: Mapping[str, str], shares: int
    ) -> None:
        self.name, uid = name, f"{sum(map(ord, name)):08x}"
        self.path = f"{cgroups.parent}/pod{uid}"
        self.container_path = f"{self.path}/app"
        cgroups.make(self.path, str(QUOTA))
        self.pod = api.PodSandbox(id=f"{uid}-pod", name=name, namespace=NAMESPACE, uid=uid)
        self.pod.labels["io.kubernetes.pod.namespace"] = NAMESPACE  # as the kubelet does
        self.pod.labels["io.kubernetes.pod.name"] = name
        self.pod.annotations.update(annotations)
        self.pod.linux.cgroups_path = f"{self.path}/pause"
        cgroups.make(f"{self.path}/pause", "-1" if cgroups.version == 1 else "max")
        self.pod.pid = cgroups.run(f"{self.path}/pause")
        self.container = api.Container(id=f"{uid}-app", pod_sandbox_id=self.pod.id, name="app")
        self.container.annotations["io.kubernetes.cri.container-name"] = "app"
        self.container.linux.cgroups_path = self.container_path
        cpu = self.container.linux.resources.cpu
        cpu.quota.value, cpu.period.value, cpu.shares.value = QUOTA, int(PERIOD), shares


class Stage:
    """One node, in a scratch directory.

    :ivar cgroups: those of its pods.
    :ivar run: its /run.
    :param shown: the events of the runtime for which a plugin runs.
    """

    def __init__(self, scratch: Path, cgroups: PodCgroups, shown: Collection[str]) -> None:
        # Copies belong to the current user. The checkout may not, and the bridge runs no other user's executables.
        self._lib = shutil.copytree(BINARIES, scratch / "lib", symlinks=True)
        self.scratch, self.cgroups, self._shown = scratch, cgroups, shown
        self._took = 0.0
        self.run = scratch / "run"
        (self.run / "nri").mkdir(parents=True)
        self._node = BridgeNode(
            scratch,
            self._lib / "v1bridge",
            bin_dirs=[self._lib],
            options={"recordDir": str(self.run / "nri/v1bridge.record")},
            name="nri-demo",
            on_exchange=self._note,
        )
        self._read = 0

    @property
    def where(self) -> tuple[str, ...]:
        """The place of the pods' cgroups, for people."""
        return self.cgroups.where, f"{self.cgroups.parent}, below as …"

    def _note(self, exchange: Any) -> None:
        self._took += exchange.seconds * 1000

    @contextlib.contextmanager
    def begun(self) -> Iterator[None]:
        """Launch the bridge; the end of the block ends it."""
        with self._node:
            if not self._node.is_served:
                raise SystemExit(f"the bridge did not register; its log: {self._node.log()}")
            yield

    def configure(self, file: str, *plugins: Mapping[str, Any]) -> None:
        """Write a file of the configuration, and print what it says."""
        self._node.configure(file, *[self._placed(plugin) for plugin in plugins])
        show_plugins(file, plugins)

    def pod(
        self, name: str, annotations: Mapping[str, str] | None = None, *, shares: int = 512
    ) -> Pod:
        """Make a pod and run its sandbox."""
        pod = Pod(self.cgroups, name, annotations or {}, shares)
        about = ", ".join([f"{key}={value}" for key, value in (annotations or {}).items()])
        self.event("RunPodSandbox", pod, about if len(about) < 60 else "")
        return pod

    def start(self, pod: Pod, script: str = "") -> None:
        """Create and start the pod's container; with a script, print what it sees inside."""
        adjustment = self.event("CreateContainer", pod)
        self.cgroups.make(pod.container_path, str(QUOTA))
        pod.container.pid = self.cgroups.run(pod.container_path)
        self.event("StartContainer", pod, "the process exists, and waits")
        if adjustment is not None:
            run_hooks(adjustment, pod)
        if script and adjustment is not None:
            show(inside(self.scratch / pod.name, adjustment, script), fg="green")

    def limit(self, pod: Pod, quota: int) -> None:
        """Give the pod another CPU limit, as a runtime does in an update."""
        for path in (pod.path, pod.container_path):
            self.cgroups.limit(path, str(quota))
        pod.container.linux.resources.cpu.quota.value = quota
        self.event(
            "PostUpdateContainer",
            pod,
            f"the runtime wrote a new CPU limit, {quota / int(PERIOD):g}",
        )

    def stop(self, pod: Pod) -> None:
        """Stop and remove the pod."""
        for rpc in ("StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"):
            self.event(rpc, pod)

    def event(self, rpc: str, pod: Pod, about: str = "") -> api.ContainerAdjustment | None:
        """Send an event; print its outcome, if a plugin ran for it. Return what plugins ask for."""
        before = self.cgroups.knobs(pod.container_path)
        self._took = 0.0
        outcome = self._node.runtime.send(
            rpc, pod.pod, pod.container if "Container" in rpc else None
        )
        if rpc == "CreateContainer" and outcome.container is not None:
            pod.container.CopyFrom(outcome.container)  # as it is with the changes
        subject = pod.container if "Container" in rpc else pod.pod
        ran = self._runs(_STATES.get(rpc, ""), subject.id) if rpc in self._shown else []
        if ran or outcome.error is not None:
            show(lines.event(rpc, pod.name, self._took, about), bold=True)
        for fields in ran:
            show_run(fields, self.cgroups.shown, self.cgroups.machine)
        if outcome.error is not None:
            show(wrapped(str(outcome.error), "    error: "), fg="red")
        for knob, value in self.cgroups.knobs(pod.container_path).items():
            if self._shown and before and value != before[knob]:
                click.secho(f"    {knob}: {before[knob]} -> {value}", fg="yellow")
        return outcome.adjustment if rpc == "CreateContainer" else None

    def _runs(self, state: str, id_: str) -> list[dict[str, str]]:
        """Return the fields of the lines about an event's chain that the bridge has logged since the last call.

        An event is logged after its answer, so its line may not be there yet; lines about other containers, such as
        an update that follows, may be.
        """

        def new() -> list[dict[str, str]]:
            logged = self._node.log().splitlines(keepends=True)
            every = [fields_of(line) for line in logged[self._read :] if line.endswith("\n")]
            events = [
                fields
                for fields in every
                if fields.get("state") == state and id_.startswith(fields["id"])
            ]
            self._read += len(every) if events else 0
            return events

        return [fields for fields in until(new, 5) or [] if "plugins" in fields]

    def nri(self, *words: str) -> None:
        """Run the ``nri`` command on this node, and print what it prints."""
        show(self._nri(words, f"--socket={self.run}/nri/v1bridge.sock").splitlines())

    def apply(self, name: str, *plugins: Mapping[str, Any]) -> None:
        """Apply a directory of the scratch directory; one of these plugins, if it is not there."""
        directory = self.scratch / name
        if not directory.exists():
            directory.mkdir()
            entries = [self._placed(plugin) for plugin in plugins]
            (directory / "10.conf").write_text(json.dumps({"version": "0.1", "plugins": entries}))
        places = (
            f"--conf-dir={self.scratch}/resource.d",
            f"--record-dir={self.run}/nri/v1bridge.record",
            f"--bin-dir={self._lib}",
        )
        for line in self._nri(("apply", name), *places).splitlines():
            show(wrapped(line.replace(f"{self.scratch}/", ""), ""))

    def sets(self) -> list[str]:
        """The sets that `nri apply` has kept, the oldest first."""
        return sorted([f"sets/{path.name}" for path in (self.scratch / "sets").iterdir()])

    def _nri(self, words: Iterable[str], *hidden: str) -> str:
        """Print a command of ``nri``, run it with hidden options, too, and return what it prints."""
        click.secho(f"$ nri {' '.join(words)}", bold=True)
        command = [str(self._lib / "nri"), *words, *hidden]
        done = subprocess.run(
            command, cwd=self.scratch, capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr

    def _placed(self, plugin: Mapping[str, Any]) -> dict[str, Any]:
        """Return an entry with the places of this node, and a failure that fails."""
        conf = {}
        if plugin["type"] in ("konfine", "clearcfs"):
            if self.cgroups.mountinfo != "/proc/self/mountinfo":
                conf = {"mountinfo": self.cgroups.mountinfo}
        elif plugin["type"] == "hook-injector":
            conf = {"run": str(self.run)}
        placed = {"failurePolicy": "fail", **plugin}
        if conf:
            placed["conf"] = {**plugin.get("conf", {}), **conf}
        return placed


def until(condition: Callable[[], Any], seconds: float) -> Any:
    """Return the value of a condition when it is true, or what it is after so many seconds."""
    ends = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < ends:
        time.sleep(0.001)
    return value


def show_plugins(file: str, plugins: Iterable[Mapping[str, Any]]) -> None:
    """Print the plugins of a file of the configuration, without what places a made-up machine."""
    for plugin in plugins:
        hidden = ("mountinfo", "run", "sys")
        conf = {key: value for key, value in plugin.get("conf", {}).items() if key not in hidden}
        show(lines.plugin(plugin["type"], conf, f"resource.d/{file}"))


def show_run(fields: Mapping[str, str], short: Callable[[str], str], machine: str) -> None:
    """Print what the plugins of an event did, by the fields of its line in the bridge's log.

    :param short: cuts the directories in a text.
    :param machine: the CPUs of the machine, as a list.
    """
    for part in fields["plugins"].split(", "):
        plugin, _, milliseconds = part.split(" ")
        prefix = f"{plugin}."
        result = {key.removeprefix(prefix): fields[key] for key in fields if key.startswith(prefix)}
        result |= {key: fields[key] for key in fields if key == "error"}
        shown = {key: short(value) for key, value in result.items()}
        if "cpus" in shown:
            shown["cpus"] = f"{{{shown['cpus']}}} of {machine}"
        show(lines.run(fields["state"], plugin, float(milliseconds.removesuffix("ms")), shown))


def run_hooks(adjustment: api.ContainerAdjustment, pod: Pod) -> None:
    """Run the hooks that plugins have added, as an OCI runtime does between creating and starting a container."""
    state = {
        "ociVersion": "1.0.2",
        "id": pod.container.id,
        "status": "created",
        "pid": pod.container.pid,
    }
    for hook in (*adjustment.hooks.create_runtime, *adjustment.hooks.prestart):
        subprocess.run(
            [hook.path, *hook.args[1:]], input=json.dumps(state), text=True, check=True, env={}
        )


def inside(folder: Path, adjustment: api.ContainerAdjustment, script: str) -> list[str]:
    """Return what a script prints in a process that has the devices and limits of an adjustment.

    It stands for the container: the devices are below the folder, which is the process's directory.
    """
    for device in adjustment.linux.devices:
        path = folder / device.path.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.mknod(
                path,
                0o020000 | (device.file_mode.value or 0o666),
                os.makedev(device.major, device.minor),
            )
        except OSError as error:
            return [f"    inside: {device.path} cannot be made here: {error.strerror}"]

    def limit() -> None:
        for rlimit in adjustment.rlimits:
            kind = getattr(resource, rlimit.type)
            resource.setrlimit(kind, (rlimit.soft, rlimit.hard))

    done = subprocess.run(
        ["/bin/sh", "-c", script],
        cwd=folder,
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
    )
    return [f"    inside: {line}" for line in (done.stdout + done.stderr).splitlines()]


def fields_of(line: str) -> dict[str, str]:
    """Return the fields of a line of the bridge's log."""
    return {
        key: json.loads(value) if value.startswith('"') else value
        for key, value in _FIELD.findall(line)
    }
