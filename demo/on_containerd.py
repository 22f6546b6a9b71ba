"""The same chapters on a private, real containerd, which launches the bridge and starts real pods.

``make demo-containerd``; needs root, runc and busybox-static. The containerd is Debian's release 2.x, independent of
the machine's own: the machine's files and containers are not touched, and nothing is left behind. The chapter
"policy" has a made-up machine, so it is in `make demo` alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from demo import NAMESPACE, chapters
from demo.stage import QUOTA, fields_of, show, show_plugins, show_run, until
from harness import debian
from harness.containerd import image, releases
from harness.containerd.bridged import LOG, knob, prepared
from harness.containerd.instance import Containerd
from harness.node import ROOT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

KNOBS = ("cpu.cfs_quota_us", "cpu.max", "cpuset.cpus")
_NEEDED = {"runc": "runc", "busybox": "busybox-static", "unshare": "util-linux"}
_OUT = "/inside"
_CPUS = f"0-{(os.cpu_count() or 1) - 1}"


class RealPod:
    """A pod with one container; its ids."""

    def __init__(self, name: str, pod: str) -> None:
        self.name, self.pod, self.container = name, pod, ""


class RealStage:
    """What ``demo.stage.Stage`` is, on containerd."""

    where = ("of containerd's own pods",)

    def __init__(
        self, scratch: Path, containerd: Containerd, cri: Any, shown: Collection[str]
    ) -> None:
        self.scratch, self._containerd, self._cri, self._shown = scratch, containerd, cri, shown
        self._conf = containerd.enclosure.etc_nri / "resource.d"
        self._conf.mkdir()
        self._log = containerd.enclosure.root / LOG

    @contextlib.contextmanager
    def begun(self) -> Iterator[None]:
        """The bridge runs already."""
        yield

    def configure(self, file: str, *plugins: Mapping[str, Any]) -> None:
        """Write a file of the configuration, and print what it says."""
        document = {
            "version": "0.1",
            "plugins": [{"failurePolicy": "fail", **plugin} for plugin in plugins],
        }
        (self._conf / file).write_text(json.dumps(document))
        show_plugins(file, plugins)

    def pod(self, name: str, annotations: Mapping[str, str] | None = None, **_: int) -> RealPod:
        """Run a pod's sandbox."""
        labels = {"io.kubernetes.pod.namespace": NAMESPACE}  # as the kubelet does
        run = self._cri.run_pod
        made = run(name, namespace=NAMESPACE, labels=labels, annotations=annotations)
        self._show("RunPodSandbox", name, "create", made)
        return RealPod(name, made)

    def start(self, pod: RealPod, script: str = "") -> None:
        """Create and start the pod's container; with a script, print what it sees inside."""
        command = (
            ["/bin/sh", "-c", f"({script}) > {_OUT} 2>&1; exec sleep 1000"]
            if script
            else image.FOREVER
        )
        create, quota = self._cri.create_container, {"cpu_quota": QUOTA, "cpu_period": 100_000}
        pod.container = create(pod.pod, "app", image=image.NAME, command=command, **quota)
        self._show("CreateContainer", pod.name, "setup", pod.container)
        self._cri.start(pod.container)
        self._show("StartContainer", pod.name, "create", pod.container)
        self._show_knobs(pod)
        if script:
            out = Path(f"{self._containerd.process_of(pod.container)}/root{_OUT}")
            until(lambda: out.exists() and "files" in out.read_text(), 60)
            show([f"    inside: {line}" for line in out.read_text().splitlines()], fg="green")

    def limit(self, pod: RealPod, quota: int) -> None:
        """Give the pod's container another CPU limit."""
        self._cri.update_resources(pod.container, cpu_quota=quota, cpu_period=100_000)
        self._show("PostUpdateContainer", pod.name, "update", pod.container)
        self._show_knobs(pod)

    def stop(self, pod: RealPod) -> None:
        """Stop the pod."""
        self._cri.stop(pod.container)
        self._show("StopContainer", pod.name, "delete", pod.container)
        self._cri.stop_pod(pod.pod)
        self._show("StopPodSandbox", pod.name, "delete", pod.pod)

    def _show(self, event: str, pod: str, state: str, id_: str) -> None:
        """Print an event and the plugins that ran for it; its line in the log comes after the runtime's answer."""
        if event not in self._shown:
            return

        def ran() -> list[dict[str, str]]:
            logged = self._log.read_text().splitlines() if self._log.exists() else []
            every = [fields for line in logged if "plugins" in (fields := fields_of(line))]
            return [
                fields
                for fields in every
                if fields["state"] == state and id_.startswith(fields["id"])
            ]

        if runs := until(ran, 5):
            click.secho(f"{event:20} {pod}", bold=True)
            show_run(
                runs[-1],
                lambda text: text.replace(self._containerd.enclosure.cgroup_parent, "…"),
                _CPUS,
            )

    def _show_knobs(self, pod: RealPod) -> None:
        for name in KNOBS:
            with contextlib.suppress(OSError):
                click.secho(
                    f"    {name}: {knob(self._containerd, pod.container, name)}", fg="yellow"
                )


def main() -> None:
    """Run the chapters, or those that are named."""
    missing = [package for program, package in _NEEDED.items() if not shutil.which(program)]
    if os.geteuid() != 0 or missing:
        wanted = "root" if os.geteuid() != 0 else f"the Debian packages {', '.join(missing)}"
        raise SystemExit(f"make demo-containerd needs {wanted}")
    names = chapters.chosen(
        [name for name, chapter in chapters.CHAPTERS.items() if not chapter.machine]
    )
    click.echo("looking for containerd 2.x, which may be downloaded", err=True)
    try:
        release = releases.find((2,), cache=ROOT / ".cache/containerd", pauses=(2, 5))
    except debian.UnavailableError as error:
        raise SystemExit(f"make demo-containerd: {error}") from None
    with tempfile.TemporaryDirectory() as tree:
        subprocess.run([ROOT / "tools/install", tree], check=True, stdout=subprocess.DEVNULL)

        @contextlib.contextmanager
        def stage(chapter: chapters.Chapter) -> Iterator[RealStage]:
            with (
                tempfile.TemporaryDirectory(prefix="nri-demo-") as scratch,
                Containerd(
                    release=release, prepare=prepared(Path(tree), logLevel="info")
                ) as containerd,
                containerd.cri() as cri,
            ):
                yield RealStage(Path(scratch), containerd, cri, chapter.shown)

        chapters.play(names, stage, f", on containerd {'.'.join(map(str, release.version))}")


if __name__ == "__main__":
    chapters.run(main)
