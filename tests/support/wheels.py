"""The wheel of this project, and what it is installed into: commands with a registry behind them are tried again."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, stdin: str = "", cwd: Path = ROOT) -> str:
    """Run a command that must succeed; return what it prints."""
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, cwd=cwd, check=False
    )
    assert done.returncode == 0, (
        f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
    )
    return done.stdout


def patiently(*command: str | Path, cwd: Path) -> str:
    """As run(), for what downloads: tried again, as a registry may be busy."""
    for pause in (2, 5, 15):
        try:
            return run(*command, cwd=cwd)
        except AssertionError:
            time.sleep(pause)
    return run(*command, cwd=cwd)


def copy_sources(source: Path) -> None:
    """Copy what a wheel is made of."""
    shutil.copytree(ROOT / "nri", source / "nri", ignore=shutil.ignore_patterns("__pycache__"))
    for name in (
        "pyproject.toml",
        "setup.py",
        "MANIFEST.in",
        "README.md",
        "LICENSE",
        "constraints.txt",
    ):
        shutil.copy(ROOT / name, source)
    (source / "tools").mkdir()
    shutil.copy(ROOT / "tools/stamp", source / "tools")


def build(source: Path, place: Path) -> Path:
    """Build the wheel of a copy of the sources; return it."""
    patiently(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", place, source, cwd=place
    )
    (wheel,) = place.glob("nri-*.whl")
    return wheel


def environment(place: Path, *packages: str | Path) -> Path:
    """Make a virtual environment with some packages; return its folder of commands."""
    run(sys.executable, "-m", "venv", place, cwd=place.parent)
    install = (
        place / "bin/python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "-c",
        ROOT / "constraints.txt",
    )
    patiently(*install, *packages, cwd=place.parent)
    return place / "bin"


def clean(home: Path, commands: Path) -> dict[str, str]:
    """The environment of a person who has activated such an environment."""
    path = os.pathsep.join([str(commands), "/usr/bin", "/bin"])
    return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8"}
