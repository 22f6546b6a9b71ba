"""The executables that are measured: copies of the compiled plugins, links to them, and programs in C and shell."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from harness.node import BINARIES

LINKS = 10
"""Names of a plugin that a chain of different plugins can have: clearcfs, clearcfs2 and so on; likewise noop."""

SCRIPT = """#!/bin/sh
while read -r line; do :; done
echo '{"plugin":"script","version":"0.1","error":""}'
"""
"""A plugin in shell that does what noop.c does: it reads its request to the end, and answers."""


def binaries(scratch: Path) -> Path:
    """Return a directory with the compiled plugins, those in C and shell, and links to them.

    They are copies: the bridge runs no executable of another user, and the checkout may belong to one.
    """
    if not (BINARIES / "clearcfs").exists():
        raise SystemExit("dist/nri is not built; run: make binaries")
    directory = scratch / "nri"
    shutil.copytree(BINARIES, directory, symlinks=True)
    compiled("noop", directory)
    (directory / "script").write_text(SCRIPT)
    (directory / "script").chmod(0o755)
    for name in ("clearcfs", "noop"):
        for number in range(2, LINKS + 1):
            (directory / f"{name}{number}").symlink_to(name)
    return directory


def compiled(name: str, directory: Path) -> Path:
    """Compile ``bench/NAME.c``; return the executable in ``directory``."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise SystemExit("no C compiler for the references; install one (Debian: apt-get install gcc libc6-dev)")
    source, program = Path(__file__).with_name(f"{name}.c"), directory / name
    subprocess.run([compiler, "-O2", "-Wall", "-Werror", "-o", program, source], check=True)
    return program
