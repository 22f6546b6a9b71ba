"""Run a command again whenever a source file changes, and show what its output has that was not there before."""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PAUSE = 0.3
"""Seconds between two looks at the files."""

_WATCHED = (".py", ".conf", ".json")


class Watcher:
    """Runs ``nri`` in a process of its own: each run loads the plugin anew.

    :param directory: whose files are watched, those below it not.
    :param echo: prints a line.
    """

    def __init__(self, directory: str, echo: Callable[[str], object]) -> None:
        self._directory, self._echo = directory, echo
        self._before: list[str] | None = None

    def run(self, arguments: Sequence[str]) -> None:
        """Run ``nri ARGUMENTS`` now and after each change, until it is interrupted."""
        try:
            while True:
                seen = self._look()
                self.once(arguments)
                while self._look() == seen:
                    time.sleep(PAUSE)
        except KeyboardInterrupt:
            return

    def once(self, arguments: Sequence[str]) -> None:
        """Run the command, and print its output: all of it at first, then what has changed."""
        command = [sys.executable, "-m", "nri.cli.entry", *arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        if self._before is None:
            found = lines
        else:
            changes = difflib.unified_diff(self._before, lines, lineterm="", n=1)
            found = [line for line in changes if not line.startswith(("---", "+++", "@@"))] or [
                "(nothing has changed)"
            ]
        self._before = lines
        for line in found:
            self._echo(line)
        self._echo(f"-- exit status {done.returncode}; waiting for a change in {self._directory}")

    def _look(self) -> dict[str, tuple[int, int]]:
        seen = {}
        try:
            names = [name for name in os.listdir(self._directory) if name.endswith(_WATCHED)]
        except OSError:
            return {}  # it was removed, and may come again
        for name in names:
            try:
                status = os.stat(os.path.join(self._directory, name))
            except OSError:
                continue  # it was just replaced
            seen[name] = status.st_mtime_ns, status.st_size
        return seen
