"""The template of a v2 plugin, filled with a name."""

import re
import sys
from pathlib import Path

import nri

ROOT = Path(nri.__file__).parent.parent
TEMPLATE = ROOT / "nri/authoring/templates/v2"
NAMES = {"plugin.py.txt": "{module}.py", "test_plugin.py.txt": "test_{module}.py"}


def filled(folder: Path, name: str) -> Path:
    """Fill the template for a plugin of this name; return the plugin's file."""
    words = re.findall("[a-z0-9]+", name)
    values = {"name": name, "module": "_".join(words), "class": "".join(word.title() for word in words)}
    for source in TEMPLATE.iterdir():
        file = NAMES.get(source.name, source.name.removesuffix(".txt")).format(**values)
        text = re.sub("@(name|module|class)@", lambda found: values[found[1]], source.read_text())
        (folder / file).write_text(text)
    return folder / f"{values['module']}.py"


def launchable(plugin: Path, target: Path) -> None:
    """Make the executable ``target`` of a plugin, which finds this tree without an environment."""
    python = plugin.with_name("python")
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" "$@"\n')
    target.write_text(f"#!{python}\n{plugin.read_text()}")
    for file in (python, target):
        file.chmod(0o755)
