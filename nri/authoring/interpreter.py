"""Runs this Python for something else: a rehearsal of a plugin, or PyInstaller. Each run has a deadline."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

from nri.authoring.build_errors import BuildError
from nri.process.conversation import Asked, Conversation, Lines, Output, start

if TYPE_CHECKING:
    from collections.abc import Mapping

REHEARSE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rehearse.py")
_MAX_OUTPUT = 16 * 1024 * 1024  # bytes
_PATH_WITHIN = 30.0  # seconds for the interpreter's start


def run_python(
    arguments: list[str], stdin: bytes, within: float, environment: Mapping[str, str], log: list[str]
) -> Output:
    """Run this Python; add the lines of its stderr to ``log``. Its whole process group ends with it, or with us.

    :param within: seconds.
    :raises BuildError: when it can't be started.
    """
    deadline = time.monotonic() + within
    try:
        pid, pipes = start(sys.executable, [sys.executable, *arguments], deadline, environment)
        lines = Lines(_MAX_OUTPUT, log.append)
        return Conversation(Asked(pid), pipes, stdin, lines, _MAX_OUTPUT).run(deadline)
    except OSError as error:
        raise BuildError(f"{sys.executable} can't be started: {error.strerror}") from error


def search_path() -> list[str]:
    """Return the folders in which this Python looks for modules, without that of a script.

    :raises BuildError: when it does not say.
    """
    lines: list[str] = []
    code = "import json, sys; print(json.dumps(sys.path))"
    output = run_python(["-P", "-c", code], b"", _PATH_WITHIN, dict(os.environ), lines)
    try:
        folders = json.loads(output.stdout)
        return [os.path.abspath(folder) for folder in folders if folder and os.path.exists(folder)]
    except ValueError as error:
        raise BuildError(f"{sys.executable} does not work: {output.ending}: {' '.join(lines[-1:])}") from error


def rehearsal(script: str, verb: str, search: list[str], report: str) -> list[str]:
    """Return the arguments of this Python that run a plugin from its source."""
    return ["-I", "-S", "-B", "-X", "utf8", REHEARSE, report, script, verb, *search]
