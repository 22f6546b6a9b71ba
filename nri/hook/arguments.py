"""Parses the command line of ``nri hook`` without click.

Only a valid command line is parsed here. Click, which has the same options, handles ``--help`` and all errors.
"""

from __future__ import annotations

from nri.config.entries import DEFAULT_TIMEOUT, FAILURE_POLICIES, MAX_TIMEOUT
from nri.places import DEFAULT_BIN_DIRS, DEFAULT_CONF_DIR, DEFAULT_CONF_FILE
from nri.types.v1 import STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_DEADLINE = 8.0
"""Seconds for the whole hook. Configurations of podman and CRI-O usually kill a hook after 10."""

_OPTIONS = {
    f"--{name}": name.replace("-", "_")
    for name in ("conf-dir", "conf-file", "failure-policy", "log-file", "timeout", "deadline")
}
_OPTIONS["--bin-dir"] = "bin_dirs"


class Arguments:
    """The arguments of ``nri hook``, with their defaults."""

    conf_dir, conf_file, log_file = DEFAULT_CONF_DIR, DEFAULT_CONF_FILE, ""
    bin_dirs: tuple[str, ...] = DEFAULT_BIN_DIRS
    check_owner, failure_policy = True, "fail"
    timeout, deadline = DEFAULT_TIMEOUT, DEFAULT_DEADLINE

    def __init__(self, state: str) -> None:
        self.state = state


def parse(argv: Sequence[str]) -> Arguments | None:
    """Parse the words after ``nri hook``; return None if they are not valid."""
    states: list[str] = []
    given: dict[str, list[str]] = {}
    check_owner = True
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--no-check-owner":
            check_owner = False
        elif name not in _OPTIONS:
            states.append(word)
        elif value := value if equals else next(words, ""):
            given.setdefault(_OPTIONS[name], []).append(value)
        else:
            return None
    if len(states) != 1 or states[0] not in STATES:
        return None
    arguments = Arguments(states[0])
    arguments.check_owner = check_owner
    arguments.bin_dirs = tuple(given.pop("bin_dirs", arguments.bin_dirs))
    try:
        for name, values in given.items():
            setattr(arguments, name, float(values[-1]) if name in ("timeout", "deadline") else values[-1])
    except ValueError:
        return None
    if arguments.failure_policy not in FAILURE_POLICIES:
        return None
    return arguments if 0 < arguments.timeout <= MAX_TIMEOUT and 0 < arguments.deadline <= MAX_TIMEOUT else None
