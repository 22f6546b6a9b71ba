"""Runs a plugin with another verb than ``invoke``, and reads the JSON that it prints."""

from __future__ import annotations

import time

from nri.process.conversation import Output, launch
from nri.types import DecodeError, gojson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

ANSWER_WITHIN = 10.0
"""Seconds that a plugin has for an answer."""


def ignore(_line: str) -> None:
    """Do nothing with a line of stderr."""


def ask(
    path: str,
    argv: list[str],
    stdin: bytes = b"",
    *,
    within: float,
    log: Callable[[str], None] = ignore,
) -> tuple[Any, Output]:
    """Run ``TYPE VERB``; return the JSON that it printed, None if it printed none or has failed, and its output.

    :param argv: the type, or an interpreter and its script, and the verb.
    :param within: seconds that it has, such as ``ANSWER_WITHIN``.
    :param log: called with each line of its stderr.
    :raises OSError: it cannot be started.
    """
    output = launch(path, argv, stdin, time.monotonic() + within, log=log)
    return _json_of(output), output


def _json_of(output: Output) -> Any:
    if output.stopped or output.ending:
        return None
    try:
        return gojson.loads(output.stdout)
    except DecodeError:
        return None


def why_killed(output: Output, within: float) -> str:
    """Return why a plugin that was to answer has been killed, "" if it has not."""
    if not output.stopped:
        return ""
    if output.stopped == "deadline":
        return f"killed: no answer within {within:g} s"
    return "killed: it wrote too much"
