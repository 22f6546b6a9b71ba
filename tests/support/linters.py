"""The tools of `make lint`, for tests of what others get: they are in `.venv`, and not beside every Python."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_module(folder: Path, module: str, *words: str) -> str:
    """Run a module of this Python in a folder, or of `.venv` if this one lacks it; return what it prints."""
    python = (
        sys.executable if find_spec(module.partition(".")[0]) else str(ROOT / ".venv/bin/python")
    )
    environment = {
        "PATH": os.defpath,
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder),
        "LANG": "C.UTF-8",
    }
    done = subprocess.run(
        [python, "-m", module, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
