"""The five demonstrations of NRI's introduction, with the real bridge and plugins on an embedded runtime.

``python -m demo [CHAPTER]``. Prints each event of the runtime for which plugins ran, with its time; below it the
plugins with their results, and what has changed: knobs of the container's cgroup, or what is seen inside.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from demo import chapters
from demo.pod_cgroups import PodCgroups
from demo.stage import Stage, show
from harness.node import BINARIES
from nri.cli.output import wrapped

_ABOUT = (
    "The runtime sends events to the bridge, a v2 plugin. For each event the bridge runs the v0.1 plugins of its "
    "configuration: executables that read a request and write a result."
)


@contextlib.contextmanager
def _stage(chapter: chapters.Chapter) -> Iterator[Stage]:
    with (
        tempfile.TemporaryDirectory(prefix="nri-demo-") as folder,
        PodCgroups(Path(folder), chapter.machine) as cgroups,
    ):
        yield Stage(Path(folder), cgroups, chapter.shown)


def main() -> None:
    """Run all chapters, or those that are named."""
    if not (BINARIES / "v1bridge").exists():
        raise SystemExit("dist/nri is not built; run: make demo")
    os.environ.setdefault("COLUMNS", "80")  # the lines are for people, also in a pipe
    names = chapters.chosen([*chapters.CHAPTERS])
    logging.disable()  # the demonstration prints what the embedded runtime would log
    click.secho("\nThe Node Resource Interface v0.1 on a runtime that speaks NRI v2\n", bold=True)
    show(wrapped(_ABOUT, ""))
    chapters.play(names, _stage)
    if os.geteuid() == 0 and shutil.which("containerd"):
        click.echo("\nThe same on the real thing: make demo-containerd")
    click.echo("")


if __name__ == "__main__":
    chapters.run(main)
