"""The command line of ``nri hook``, read without a library for command lines.

Only a command line that is right is understood here. Everything else, ``--help`` too, is click's: it has the same
options, and words for what is wrong with them.
"""

from __future__ import annotations

from nri.client.chain import DEFAULT_TIMEOUT
from nri.client.lookup import DEFAULT_BIN_DIRS
from nri.config import DEFAULT_CONF_DIR, DEFAULT_CONF_FILE
from nri.config.entries import MAX_TIMEOUT
from nri.types.v1 import STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


DEFAULT_DEADLINE = 8.0
"""Seconds for the whole hook: less than the 10 that users of podman and CRI-O give a hook before it is killed."""


class Arguments:
    """What ``nri hook`` is told, with the defaults of all that it is not."""

    __slots__ = ("bin_dirs", "check_owner", "conf_dir", "conf_file", "deadline", "log_file", "state", "timeout")

    def __init__(self, state: str) -> None:
        self.state = state
        self.conf_dir = DEFAULT_CONF_DIR
        self.conf_file = DEFAULT_CONF_FILE
        self.bin_dirs: tuple[str, ...] = DEFAULT_BIN_DIRS
        self.timeout = DEFAULT_TIMEOUT
        self.deadline = DEFAULT_DEADLINE
        self.log_file = ""
        self.check_owner = True


def parse(argv: Sequence[str]) -> Arguments | None:
    """The arguments after ``nri hook``; None for what is not right."""
    states: list[str] = []
    given: dict[str, list[str]] = {
        name: [] for name in ("--conf-dir", "--conf-file", "--bin-dir", "--log-file", "--timeout", "--deadline")
    }
    check_owner = True
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--no-check-owner":
            check_owner = False
        elif name not in given:
            states.append(word)
        elif value := value if equals else next(words, ""):
            given[name].append(value)
        else:
            return None
    if len(states) != 1 or states[0] not in STATES:
        return None
    arguments = Arguments(states[0])
    arguments.conf_dir = (given["--conf-dir"] or [arguments.conf_dir])[-1]
    arguments.conf_file = (given["--conf-file"] or [arguments.conf_file])[-1]
    arguments.bin_dirs = tuple(given["--bin-dir"]) or arguments.bin_dirs
    arguments.check_owner = check_owner
    arguments.log_file = (given["--log-file"] or [""])[-1]
    try:
        arguments.timeout = float(given["--timeout"][-1]) if given["--timeout"] else arguments.timeout
        arguments.deadline = float(given["--deadline"][-1]) if given["--deadline"] else arguments.deadline
    except ValueError:
        return None
    return arguments if 0 < arguments.timeout <= MAX_TIMEOUT and 0 < arguments.deadline <= MAX_TIMEOUT else None
