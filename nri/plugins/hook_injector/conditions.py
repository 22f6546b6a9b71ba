"""The conditions under which a hook is injected, as podman decides them (``When.Match`` in its pkg/hooks/1.0.0).

Patterns are the operator's, what they are matched with is the pod's. A pattern with repeats inside of repeats can
take for ever on a text that was made for it. So each condition has little time, and one that takes longer counts as
met: in this way a pod avoids no hook, and gets none that it could not have by another name.
"""

from __future__ import annotations

import re
import signal
import time

from nri.errors import NRIError
from nri.types import DecodeError
from nri.types.gojson import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nri.plugins.hook_injector.hook_files import When
    from nri.types.v1 import Spec

SECONDS, SECONDS_OF_ALL = 0.1, 0.5
"""Time for the patterns of one condition, and of all conditions for one container."""

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


class _TooSlowError(Exception):
    pass


class Subject:
    """What conditions look at of a container."""

    def __init__(self, spec: Spec | None) -> None:
        self.annotations = spec.annotations if spec is not None else {}
        process: Any = spec.process if spec is not None else None
        args = process.get("args") if isinstance(process, dict) else None
        self.command = args[0] if isinstance(args, list) and args and isinstance(args[0], str) else None
        mounts: Any = spec.mounts if spec is not None else None
        self.has_bind_mounts = isinstance(mounts, list) and any(map(_is_bind, mounts))
        self._left = SECONDS_OF_ALL

    def has(self, key: re.Pattern[str], value: re.Pattern[str]) -> bool:
        """Return whether an annotation matches two patterns."""
        texts = self.annotations.items()
        return self._in_time(lambda: any(key.search(name) and value.search(text) for name, text in texts))

    def runs(self, pattern: re.Pattern[str]) -> bool:
        """Return whether the first word of the command matches a pattern.

        :raises NRIError: the command is not known.
        """
        command = self.command
        if command is None:
            raise NRIError("when.commands: the request has no spec.process.args; expected a container's command")
        return self._in_time(lambda: bool(pattern.search(command)))

    def _in_time(self, is_so: Callable[[], bool]) -> bool:
        """Return the answer of a function, or True if no time is left for it.

        The engine of :mod:`re` looks for signals while it searches. So this runs in the main thread alone.
        """
        started = time.monotonic()
        armed = [True]

        def stop(*_: object) -> None:
            if armed:
                raise _TooSlowError

        former = signal.signal(signal.SIGALRM, stop)
        before = signal.getitimer(signal.ITIMER_REAL)
        try:
            # Within the block: on a busy machine the signal may come before the next line.
            signal.setitimer(signal.ITIMER_REAL, max(min(SECONDS, self._left), 0.001))
            return is_so()
        except _TooSlowError:
            return True
        finally:
            armed.clear()  # a signal that comes now is late
            signal.setitimer(signal.ITIMER_REAL, *before)
            signal.signal(signal.SIGALRM, former)
            self._left -= time.monotonic() - started


def _is_bind(mount: Any) -> bool:
    if not isinstance(mount, dict):
        return False
    options = mount.get("options")
    return mount.get("type") == "bind" or (isinstance(options, list) and ("bind" in options or "rbind" in options))


def is_met(when: When, container: Subject) -> bool:
    """Return whether all conditions that are given hold.

    :raises DecodeError: a pattern is not a regular expression.
    :raises NRIError: the container's command is needed, and not known.
    """
    keys = [
        (_compiled(key, "when.annotations"), _compiled(value, f"when.annotations.{shorten(key)}"))
        for key, value in when.annotations.items()
    ]
    commands = [_compiled(command, f"when.commands[{index}]") for index, command in enumerate(when.commands)]
    if when.always is False or (
        when.has_bind_mounts is not None and not (when.has_bind_mounts and container.has_bind_mounts)
    ):
        return False
    if not all(container.has(key, value) for key, value in keys):
        return False
    return not commands or any(map(container.runs, commands))


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
