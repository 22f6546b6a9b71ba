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
    assert done.returncode == 0 or not check, (
        f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
    )
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
    for name in ("deb", "install", "install-lib", "layout", "needed-libc", "rollback", "uninstall"):
        shutil.copy(ROOT / "tools" / name, root / "tools")
    return root


def build(checkout: Path, version: str, content: str = "") -> None:
    """Make other binaries in a checkout: `nri` prints this version."""
    nri = checkout / "dist/nri/nri"
    nri.write_text(
        f"#!/bin/sh\n# {content}\n[ $1 = --version ] && echo 'nri {version} (Python 3)'\n"
    )


def sleeper(path: Path) -> None:
    """Make the file an executable that can be run for as long as a test needs: a copy of sleep."""
    path.unlink(missing_ok=True)
    shutil.copy(shutil.which("sleep") or "/bin/sleep", path)


def tree(root: Path) -> dict[str, str]:
    """All files and links below a directory, with what they contain; empty directories, too."""
    found = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_file():
            found[name] = path.read_bytes().decode("latin-1")
        elif not any(path.iterdir()):
            found[name] = "(empty)"
    return found


def links(tree: Path) -> dict[str, str]:
    """The links below a directory."""
    return {
        str(path.relative_to(tree)): os.readlink(path)
        for path in tree.rglob("*")
        if path.is_symlink()
    }
