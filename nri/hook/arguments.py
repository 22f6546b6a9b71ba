"""Parses the command line of ``nri hook`` without click.

Only a valid command line is parsed here. Click, which has the same options, handles ``--help`` and all errors.
"""

from __future__ import annotations

from nri.client.chain import DEFAULT_TIMEOUT
from nri.config.entries import MAX_TIMEOUT
from nri.places import DEFAULT_BIN_DIRS, DEFAULT_CONF_DIR, DEFAULT_CONF_FILE
from nri.types.v1 import STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


DEFAULT_DEADLINE = 8.0
"""Seconds for the whole hook. Configurations of podman and CRI-O usually kill a hook after 10."""


class Arguments:
    """The arguments of ``nri hook``, with their defaults."""

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
    """Parse the words after ``nri hook``; return None if they are not valid."""
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
    is_valid = 0 < arguments.timeout <= MAX_TIMEOUT and 0 < arguments.deadline <= MAX_TIMEOUT
    return arguments if is_valid else None
