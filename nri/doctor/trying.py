"""Tries whether a plugin can be a resident, or wait for its request: for ``nri check``."""

from __future__ import annotations

import os
import time

from nri.client.resident import Resident
from nri.client.standing import about
from nri.client.verbs import ANSWER_WITHIN, ask
from nri.client.waiting import DOES_NOT, Waiting

TRIED_FOR = 1.0
"""Seconds that a plugin is tried for whether it waits: half of them to load."""

_TRACE = 0.05
"""Seconds of a CPU in the second half that a program may use which waits."""

_LOOKS = 0.02
"""Seconds between two looks at it."""


def try_resident(path: str, plugin: str) -> str:
    """Start and end a resident; return the reason why a plugin that opts in cannot be one, or ""."""
    try:
        standing = about(path, plugin)
        if standing.state != "ready":
            return standing.reason if standing.state == "failed" else ""
        resident = Resident(path, plugin)
        try:
            return resident.start(time.monotonic() + ANSWER_WITHIN)
        finally:
            resident.end()
    except OSError as error:
        return f"it cannot be started: {error.strerror}"


def try_waiting(path: str, plugin: str) -> str:
    """Start a plugin without a request for a second; return why it should not wait, or ""."""
    try:
        process = Waiting(path, plugin)
    except OSError as error:
        return f"it cannot be started: {error.strerror}"
    try:
        _watch(process)  # it may load
        used = _watch(process)
        if process.end_reason:
            return process.end_reason
        if used > _TRACE:
            return f"{DOES_NOT}: it uses the CPU, {used / TRIED_FOR * 2:.0%} of one"
    finally:
        process.end()
    return _why_not_without_request(path, plugin)


def _watch(process: Waiting) -> float:
    """Watch a process for half of ``TRIED_FOR``; return the seconds of a CPU that it uses."""
    before = _seconds_on_cpu(process.pid)
    until = time.monotonic() + TRIED_FOR / 2
    while process.is_ready() and time.monotonic() < until:
        time.sleep(_LOOKS)
    return _seconds_on_cpu(process.pid) - before


def _why_not_without_request(path: str, plugin: str) -> str:
    """Run a plugin with an empty stdin, as a killed host leaves it; return what is wrong with its answer, or ""."""
    try:
        result, _ = ask(path, [plugin, "invoke"], within=TRIED_FOR)
    except OSError:
        return ""
    if not isinstance(result, dict) or result.get("error"):
        return ""
    return "it takes an empty stdin, as a killed bridge leaves it, for a request; expected an error"


def _seconds_on_cpu(pid: int) -> float:
    """Return how long the threads of a process have run or waited for a CPU; 0 where the kernel does not say."""
    seconds = 0.0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
                ran, waited, _ = file.read().split()
            seconds += (int(ran) + int(waited)) / 1e9
    except (OSError, ValueError):
        pass  # it has ended, or the kernel has no statistics
    return seconds
