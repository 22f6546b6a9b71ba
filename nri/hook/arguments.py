"""The command line of ``nri hook``, read without a library for command lines.

Only a command line that is right is understood here. Everything else, ``--help`` too, is click's: it has the same
options, and words for what is wrong with them.
"""

from __future__ import annotations

from nri.client.chain import DEFAULT_TIMEOUT
from nri.client.find import DEFAULT_BIN_DIRS
from nri.config import DEFAULT_CONF_DIR, DEFAULT_CONF_FILE
from nri.types.v1 import STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Arguments:
    """What ``nri hook`` is told."""

    __slots__ = ("bin_dirs", "conf_dir", "conf_file", "state", "timeout")

    def __init__(
        self,
        state: str,
        *,
        conf_dir: str = DEFAULT_CONF_DIR,
        conf_file: str = DEFAULT_CONF_FILE,
        bin_dirs: Sequence[str] = (),
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self.state = state
        self.conf_dir = conf_dir
        self.conf_file = conf_file
        self.bin_dirs = tuple(bin_dirs) or DEFAULT_BIN_DIRS
        self.timeout = timeout


def parse(argv: Sequence[str]) -> Arguments | None:
    """The arguments after ``nri hook``; None for what is not right."""
    states: list[str] = []
    options: dict[str, list[str]] = {"--conf-dir": [], "--conf-file": [], "--bin-dir": [], "--timeout": []}
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if name in options:
            options[name].append(value if equals else next(words, ""))
        else:
            states.append(word)
    if len(states) != 1 or states[0] not in STATES or "" in [value for given in options.values() for value in given]:
        return None
    arguments = Arguments(states[0], bin_dirs=options["--bin-dir"])
    if options["--conf-dir"]:
        arguments.conf_dir = options["--conf-dir"][-1]
    if options["--conf-file"]:
        arguments.conf_file = options["--conf-file"][-1]
    for seconds in options["--timeout"]:
        try:
            arguments.timeout = float(seconds)
        except ValueError:
            return None
        if not 0 < arguments.timeout <= 3600:
            return None
    return arguments
