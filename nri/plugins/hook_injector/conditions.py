"""The conditions under which a hook is injected, as podman decides them (``When.Match`` in its pkg/hooks/1.0.0).

Patterns are the operator's, what they are matched with is the pod's. A pattern with repeats inside of repeats can
take for ever on a text that was made for it, and :mod:`re` cannot be stopped. So a forked process matches, and has
little time for all of a container's hooks; what it has not decided then counts as met, as does a text that is too
long to be matched: in this way a pod avoids no hook, and gets none that it could not have by another name.
"""

from __future__ import annotations

import os
import re
import select
import time

from nri.errors import NRIError
from nri.types import DecodeError
from nri.types.gojson import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from nri.types.v1 import Spec

    Question = Callable[[], bool | None]
    """Returns whether a condition is met; None if the container's command is needed, and not known."""

SECONDS = 0.2
"""Time for all patterns that one container is compared with."""

LONGEST = 4096
"""Characters of a text that is matched."""

_SIGKILL = 9
_ANSWERS = {True: b"1", False: b"0", None: b"?"}

_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t-\r ",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
"""The classes of POSIX and Go, which Python lacks, within brackets."""


class Subject:
    """What conditions look at of a container."""

    def __init__(self, spec: Spec | None) -> None:
        self.annotations = spec.annotations if spec is not None else {}
        process: Any = spec.process if spec is not None else None
        args = process.get("args") if isinstance(process, dict) else None
        self.command = args[0] if isinstance(args, list) and args and isinstance(args[0], str) else None
        mounts: Any = spec.mounts if spec is not None else None
        self.has_bind_mounts = isinstance(mounts, list) and any(map(_is_bind, mounts))


def _is_bind(mount: Any) -> bool:
    if not isinstance(mount, dict):
        return False
    options = mount.get("options")
    return mount.get("type") == "bind" or (isinstance(options, list) and ("bind" in options or "rbind" in options))


def question(when: dict[str, Any], container: Subject) -> Question | None:
    """Return what is to be decided by patterns; None if a condition without patterns does not hold.

    :param when: of a file of oci-hooks(5).
    :raises DecodeError: a pattern is not a regular expression.
    """
    keys = [
        (_compiled(key, "when.annotations"), _compiled(value, f"when.annotations.{shorten(key)}"))
        for key, value in when.get("annotations", {}).items()
    ]
    commands = [
        _compiled(command, f"when.commands[{index}]") for index, command in enumerate(when.get("commands", ()))
    ]
    bind_mounts = when.get("hasBindMounts")
    if when.get("always") is False or bind_mounts is False or (bind_mounts and not container.has_bind_mounts):
        return None
    if not keys and not commands:
        return _yes

    def is_met() -> bool | None:
        texts = container.annotations.items()
        for key, value in keys:
            if not any(_search(key, name) and _search(value, text) for name, text in texts):
                return False
        if commands and container.command is None:
            return None
        return not commands or any(_search(pattern, container.command or "") for pattern in commands)

    return is_met


def decide(questions: Sequence[Question]) -> list[bool | None]:
    """Return the answer to each question, in the order in which they are decided while there is time.

    :raises NRIError: no process can be forked.
    """
    if all(check is _yes for check in questions):
        return [True] * len(questions)
    answers: list[bool | None] = [{b"0": False, b"?": None}.get(answer, True) for answer in _in_child(questions)]
    return answers + [True] * (len(questions) - len(answers))


def _yes() -> bool:
    return True


def _search(pattern: re.Pattern[str], text: str) -> bool:
    return len(text) > LONGEST or pattern.search(text) is not None


def _in_child(questions: Sequence[Question]) -> list[bytes]:
    """Return the answers that a process gives in time."""
    until = time.monotonic() + SECONDS
    reads, writes = os.pipe()
    try:
        pid = os.fork()
        if pid == 0:
            try:
                for check in questions:
                    os.write(writes, _ANSWERS[check()])
            finally:
                os._exit(0)
    except OSError as error:
        os.close(reads)
        raise NRIError(f"no process can be forked to match patterns: {error.strerror}") from error
    finally:
        os.close(writes)
    answers, poll = b"", select.poll()
    poll.register(reads, select.POLLIN)
    try:
        while poll.poll(max(0.0, until - time.monotonic()) * 1000):
            if not (more := os.read(reads, len(questions))):
                break
            answers += more
    finally:
        os.close(reads)
        os.kill(pid, _SIGKILL)
        os.waitpid(pid, 0)
    return [answers[place : place + 1] for place in range(len(answers))]


def _compiled(pattern: str, where: str) -> re.Pattern[str]:
    text = pattern
    if "[:" in text:
        for name, signs in _CLASSES.items():
            text = text.replace(f"[:{name}:]", signs)
    try:
        return re.compile(text, re.ASCII)
    except (re.error, RecursionError, OverflowError) as error:
        raise DecodeError(
            f"{where}: found {shorten(repr(pattern))}, expected a regular expression: {error}"
        ) from error
