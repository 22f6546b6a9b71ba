"""A checkout from which ``tools/install`` installs, with scripts for executables, and the installed tree."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BINARIES = ("clearcfs", "konfine", "nri", "v1bridge")
BRIDGE = "opt/nri/plugins/10-v1bridge"


def run(*command: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not check, f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def source(tmp_path: Path) -> Path:
    """A checkout with the files that tools/install needs, and files for executables."""
    root = tmp_path / "source"
    (root / "dist/nri").mkdir(parents=True)
    for name in BINARIES:
        (root / "dist/nri" / name).write_text("#!/bin/sh\n")
        (root / "dist/nri" / name).chmod(0o755)
    shutil.copytree(ROOT / "conf", root / "conf")
    (root / "tools").mkdir()
    for name in ("install", "install-lib"):
        shutil.copy(ROOT / "tools" / name, root / "tools")
    return root


def links(tree: Path) -> dict[str, str]:
    """The links below a directory."""
    return {str(path.relative_to(tree)): os.readlink(path) for path in tree.rglob("*") if path.is_symlink()}
