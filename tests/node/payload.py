"""The second disk: the project, the installed tree, what its Python needs, an image for containers, a containerd."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from harness.containerd import image as container_image
from harness.containerd import releases
from harness.node import ROOT

PYTHON = "3.13"  # the machine's
REQUIREMENTS = (
    *(
        "pytest",
        "pytest-timeout",
        "pytest-xdist",
        "grpcio",
        "protobuf",
        "click",
        "jsonschema",
        "google-re2",
        "hypothesis",
        "PyYAML",
    ),
    "jeepney",
)
FOLDERS = ("nri", "harness", "tests", "conf", "deploy", "tools", "docs", "fuzz")
FILES = ("pyproject.toml", "constraints.txt", "build.spec", "README.md", "Makefile")
SIZE = "1500M"


def write(disk: Path, cache: Path, base: Path) -> None:
    """Write the disk: an ext4 file system that the machine mounts at /payload.

    :param cache: the directory of what is downloaded.
    :param base: the root file system of a container image, as a tar.
    """
    tree = disk.with_suffix(".tree")
    shutil.rmtree(tree, ignore_errors=True)
    project = tree / "project"
    project.mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, project / folder, symlinks=True, ignore=ignored)
    for file in FILES:
        shutil.copy2(ROOT / file, project / file)
    shutil.copytree(ROOT / "dist/nri", project / "dist/nri", symlinks=True)
    subprocess.run(
        [ROOT / "tools/install", tree / "installed"], check=True, stdout=subprocess.DEVNULL
    )
    shutil.copytree(_packages(cache), tree / "site-packages")
    container_image.write_image(tree / "image.tar")
    shutil.copy(base, tree / "base.tar")
    said = subprocess.run(
        [ROOT / "tools/deb"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    # Dist may have older ones.
    shutil.copy(ROOT / said.partition("built ")[2].partition(",")[0], tree / "nri.deb")
    newest = releases.find((2,), cache=ROOT / ".cache/containerd", pauses=(2, 5, 20))
    shutil.copytree(newest.programs, tree / "containerd-2/bin")
    _make_disk(disk, tree, SIZE)
    shutil.rmtree(tree)


def _packages(cache: Path) -> Path:
    """Return a folder with the packages from PyPI that the machine's Python needs."""
    constraints = (ROOT / "constraints.txt").read_bytes()
    recipe = hashlib.sha256(constraints + " ".join((PYTHON, *REQUIREMENTS)).encode()).hexdigest()[
        :12
    ]
    folder = cache / f"site-packages-{recipe}"
    if not folder.exists():
        for old in cache.glob("site-packages-*"):
            shutil.rmtree(old)
        part = folder.with_suffix(".part")
        pip: list[str | Path] = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-qq",
            "--retries",
            "10",
            "--target",
            part,
        ]
        only: list[str | Path] = [
            "--python-version",
            PYTHON,
            "--only-binary=:all:",
            "--constraint",
            ROOT / "constraints.txt",
        ]
        subprocess.run([*pip, *only, *REQUIREMENTS], check=True)
        part.rename(folder)
    return folder


def _make_disk(disk: Path, tree: Path, size: str) -> None:
    disk.unlink(missing_ok=True)
    subprocess.run(
        ["mke2fs", "-q", "-t", "ext4", "-d", tree, "-O", "^has_journal", disk, size], check=True
    )
