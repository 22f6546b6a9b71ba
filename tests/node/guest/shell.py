"""Run commands in the machine, and wait for what they lead to."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 180.0  # seconds; everything is 10 to 20 times slower than on real hardware


class FailedError(AssertionError):
    """A command failed; the message has its output."""


def run(*command: str | Path, status: int | None = 0) -> str:
    """Return the output of a command, stderr included.

    :param status: the expected exit status; None for any.
    """
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=PATIENCE * 2,
        check=False,
    )
    if status is not None and done.returncode != status:
        words = " ".join(map(str, command))
        raise FailedError(
            f"{words}: exit status {done.returncode}, expected {status}:\n{done.stdout}"
        )
    return done.stdout


def wait_until(what: str, condition: Callable[[], object], within: float = PATIENCE) -> float:
    """Wait for a condition; return the seconds that it took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > within:
            raise AssertionError(f"never: {what}, within {within:g} s")
        time.sleep(0.05)
    return time.monotonic() - began
