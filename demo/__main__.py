"""The five demonstrations of NRI's introduction, with the real bridge and plugins on an embedded runtime.

``python -m demo [CHAPTER]``. Prints each event of the runtime for which plugins ran, with its time; below it the
plugins with their results, and what has changed: knobs of the container's cgroup, or what is seen inside.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path

import click

from demo.chapters import CHAPTERS
from demo.pod_cgroups import PodCgroups
from demo.stage import Stage, show
from harness.node import BINARIES
from nri.cli.output import wrapped

_ABOUT = (
    "The runtime sends events to the bridge, a v2 plugin. For each event the bridge runs the v0.1 plugins of its "
    "configuration: executables that read a request and write a result."
)


def main() -> None:
    """Run all chapters, or those that are named."""
    if not (BINARIES / "v1bridge").exists():
        raise SystemExit("dist/nri is not built; run: make demo")
    chosen = sys.argv[1:] or [*CHAPTERS]
    if unknown := [name for name in chosen if name not in CHAPTERS]:
        raise SystemExit(f"found the chapter {unknown[0]!r}, expected one of {', '.join(CHAPTERS)}")
    logging.disable()  # the demonstration prints what the embedded runtime would log
    click.secho("\nThe Node Resource Interface v0.1 on a runtime that speaks NRI v2\n", bold=True)
    show(wrapped(_ABOUT, ""))
    for number, name in enumerate(chosen, 1):
        chapter = CHAPTERS[name]
        click.secho(f"\n{number}. {name}", bold=True, fg="cyan")
        show([*wrapped(f"An operator wants to {chapter.wants}", ""), ""])
        with (
            tempfile.TemporaryDirectory(prefix="nri-demo-") as folder,
            PodCgroups(Path(folder), chapter.machine) as cgroups,
        ):
            chapter.play(Stage(Path(folder), cgroups, chapter.shown))
    if os.geteuid() == 0 and shutil.which("containerd"):
        click.echo("\nThe same on the real thing: make demo-containerd")
    click.echo("")


if __name__ == "__main__":
    main()
