"""The executables that are measured: copies of the compiled plugins, links to them, and programs in C."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from harness.node import BINARIES

LINKS = 6
"""Names of clearcfs that a chain of different plugins can have: clearcfs, clearcfs2 and so on."""


def binaries(scratch: Path) -> Path:
    """Return a directory with the compiled plugins, the one in C, and links.

    They are copies: the bridge runs no executable of another user, and the checkout may belong to one.
    """
    if not (BINARIES / "clearcfs").exists():
        raise SystemExit("dist/nri is not built; run: make binaries")
    directory = scratch / "nri"
    shutil.copytree(BINARIES, directory, symlinks=True)
    compiled("noop", directory)
    for number in range(2, LINKS + 1):
        (directory / f"clearcfs{number}").symlink_to("clearcfs")
    return directory


def compiled(name: str, directory: Path) -> Path:
    """Compile ``bench/NAME.c``; return the executable in ``directory``."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise SystemExit(
            "no C compiler for the references; install one (Debian: apt-get install gcc libc6-dev)"
        )
    source, program = Path(__file__).with_name(f"{name}.c"), directory / name
    subprocess.run([compiler, "-O2", "-Wall", "-Werror", "-o", program, source], check=True)
    return program
