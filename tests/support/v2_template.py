"""The template of a v2 plugin, filled with a name."""

import sys
from pathlib import Path

import nri
from nri.authoring.new import make, module_name

ROOT = Path(nri.__file__).parent.parent


def filled(folder: Path, name: str) -> Path:
    """Make the folder of a plugin of this name in another; return the plugin's file."""
    make(name, "v2", str(folder))
    return folder / name / f"{module_name(name)}.py"


def launchable(plugin: Path, target: Path) -> None:
    """Make the executable ``target`` of a plugin, which finds this tree without an environment."""
    python = plugin.with_name("python")
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" "$@"\n')
    target.write_text(f"#!{python}\n{plugin.read_text()}")
    for file in (python, target):
        file.chmod(0o755)
