"""The example plugins of docs/other-languages.md, taken from the page and made into executables."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/other-languages.md"
JANSSON = "/usr/include/jansson.h"
SOURCES = dict(
    re.findall(r"^```(?:sh|c) (\S+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
)
"""The text of each source file on the page, by its name there."""


def need(program: str, package: str) -> None:
    """Skip the test where a program, or the file of a path, is missing. In CI, which has all, the test has failed."""
    if shutil.which(program) is None and not os.path.exists(program):
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(
            f"needs the Debian package {package}"
        )


def shell(folder: Path) -> Path:
    """Write the plugin in shell; return its path."""
    need("jq", "jq")
    path = folder / "class-sh"
    path.write_text(SOURCES["class-sh"])
    path.chmod(0o755)
    return path


def c(folder: Path) -> Path:
    """Compile the plugin in C, with warnings as errors; return its path."""
    need("cc", "gcc")
    need(JANSSON, "libjansson-dev")
    source, path = folder / "class-c.c", folder / "class-c"
    source.write_text(SOURCES["class-c.c"])
    _run("cc", "-O2", "-Wall", "-Werror", "-o", str(path), str(source), "-ljansson")
    return path


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
