"""The command line of runc and crun, as far as it has to be understood. No I/O.

Both are accepted at once: Go's options (``-bundle DIR``, ``--force=false``) and those of argp (``-bDIR``), which must
not be abbreviated. The words themselves are handed over as they are, so an option that is missing here is no fault.
Sources: ``--help`` of runc 1.1 and crun 1.8, ``*.go`` of runc 1.4 and ``src/*.c`` of crun 1.24.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Names = dict[str, tuple[str, bool]]

RUNS_CHAIN = frozenset(("create", "run", "restore", "update", "pause", "resume", "delete"))
"""The commands that plugins can be run for; all others are handed over at once."""

COMMANDS = RUNS_CHAIN.union(
    (
        "checkpoint",
        "events",
        "exec",
        "features",
        "help",
        "kill",
        "list",
        "mounts",
        "ps",
        "spec",
        "start",
        "state",
    )
)
"""The commands of both runtimes."""

REFUSED_IF_BROKEN = frozenset(("create", "run", "restore", "update", "start"))
"""The commands that are refused where it cannot be known which plugins to run."""


def _names(*options: str) -> Names:
    """Return each name with the first of its option's names, and whether it takes a value; ``name|n=`` does."""
    table: Names = {}
    for option in options:
        names = option.rstrip("=").split("|")
        table |= dict.fromkeys(names, (names[0], option.endswith("=")))
    return table


_HELP = "help|h|?"
GLOBAL = _names(
    *("debug", "systemd-cgroup", "version|v|V", "usage", _HELP),
    *("log=", "log-format=", "log-level=", "root=", "criu=", "rootless=", "cgroup-manager="),
)
_CREATE = (
    *("bundle|b=", "config|f=", "console-socket=", "pidfd-socket=", "pid-file=", "preserve-fds="),
    *("no-pivot", "no-new-keyring", "no-subreaper", "usage", _HELP),
)
RESOURCES = (
    *(
        "blkio-weight",
        "cpu-period",
        "cpu-quota",
        "cpu-share",
        "cpu-burst",
        "cpu-rt-period",
        "cpu-rt-runtime",
    ),
    *("cpu-idle", "cpuset-cpus", "cpuset-mems", "kernel-memory", "kernel-memory-tcp", "memory"),
    *("memory-reservation", "memory-swap", "pids-limit"),
)
"""The options of ``update`` that are resources."""

OPTIONS: dict[str, Names] = {
    "create": _names(*_CREATE),
    "run": _names(*_CREATE, "detach|d", "keep"),
    "restore": _names("usage", _HELP),  # no other is looked at
    "update": _names(
        *("resources|r=", "l3-cache-schema=", "mem-bw-schema=", "usage", _HELP),
        *[f"{name}=" for name in RESOURCES],
    ),
    "delete": _names("force|f", "regex|r", "usage", _HELP),
    "start": _names("usage", _HELP),
    "pause": _names("usage", _HELP),
    "resume": _names("usage", _HELP),
}
"""The options of the commands in ``RUNS_CHAIN``, and of ``start``."""


class Given:
    """An option as it was given.

    :ivar name: its first name without dashes.
    :ivar value: its value; "true" for a flag that was given without one.
    :ivar words: its words on the command line.
    """

    __slots__ = ("is_known", "name", "value", "words")

    def __init__(
        self, name: str, value: str, words: Sequence[str], *, is_known: bool = True
    ) -> None:
        self.name = name
        self.value = value
        self.words = list(words)
        self.is_known = is_known


class CommandLine:
    """The words of a command line, without the program's name.

    :ivar before: the options before the command, and *words_before* their words.
    :ivar command: the command; "" if there is none.
    :ivar options: the command's options, and *arguments* its other words; empty unless it is in ``OPTIONS``.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        self.before, at = _read_before(self.words)
        self.words_before = self.words[:at]
        self.command = "".join(self.words[at : at + 1])
        self.options: list[Given] = []
        self.arguments: list[str] = []
        if self.command in OPTIONS:
            self._read_after(self.words[at + 1 :])

    @property
    def container(self) -> str:
        """The only argument, which is the container's id; "" if there is none, or more."""
        return self.arguments[0] if len(self.arguments) == 1 else ""

    def value(self, name: str, default: str = "") -> str:
        """Return the last value of an option of the command, or of one before it."""
        given = [option.value for option in (*self.before, *self.options) if option.name == name]
        return given[-1] if given else default

    def has(self, name: str) -> bool:
        """Return whether a flag is set."""
        return self.value(name, "false") not in ("false", "0", "f", "F", "FALSE", "False")

    @property
    def asks_for_help(self) -> bool:
        """True if the command prints its usage, and does nothing else."""
        return any(self.has(name) for name in ("help", "usage", "version"))

    @property
    def quiet_before(self) -> list[str]:
        """The words before the command for a call of our own, whose errors are ours to report."""
        own = ("log", "log-format", "log-level", "debug")
        words: list[str] = []
        for option in self.before:
            if option.name not in own:
                words += option.words
        return words

    def _read_after(self, words: list[str]) -> None:
        at = 0
        # The value of an option that is not known here looks like an argument.
        may_be_value = False
        certain: list[str] = []
        while at < len(words):
            word = words[at]
            if word == "--":
                self.arguments += words[at + 1 :]
                certain += words[at + 1 :]
                break
            if _is_option(word):
                given, at = _read_option(words, at, OPTIONS[self.command])
                self.options += given
                may_be_value |= not given[-1].is_known and "=" not in word
                continue
            self.arguments.append(word)
            if not may_be_value:
                certain.append(word)
            may_be_value = False
            at += 1
        # One argument is the container.
        if len(self.arguments) != 1:
            self.arguments = certain


def _read_before(words: list[str]) -> tuple[list[Given], int]:
    """Return the options before the command, and the index of the command."""
    options: list[Given] = []
    at = 0
    while at < len(words) and _is_option(words[at]):
        if words[at] == "--":
            return options, at + 1
        given, next_ = _read_option(words, at, GLOBAL)
        if not given[-1].is_known and "=" not in words[at] and _is_value(words, next_):
            given[-1].words.append(words[next_])
            next_ += 1
        options += given
        at = next_
    return options, at


def _is_value(words: list[str], at: int) -> bool:
    """Return whether the word after an option that is not known is its value, and not the command."""
    if at >= len(words) or _is_option(words[at]):
        return False
    if words[at] not in COMMANDS:
        return True
    # Where both readings make sense, take the one that runs plugins.
    return words[at] not in RUNS_CHAIN and at + 1 < len(words) and words[at + 1] in RUNS_CHAIN


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _read_option(words: list[str], at: int, names: Names) -> tuple[list[Given], int]:
    """Return what the word at this index gives, several flags for ``-df``, and the index of the next word."""
    word = words[at]
    name, equals, value = word.lstrip("-").partition("=")
    entry = names.get(name)
    if entry is not None:
        first, takes_value = entry
        if equals:
            return [Given(first, value, [word])], at + 1
        if not takes_value:
            return [Given(first, "true", [word])], at + 1
        return [_with_next(first, words, at)], at + 2
    if not word.startswith("--") and word[1] in names:
        return _read_letters(words, at, names)
    return [Given(name, value, [word], is_known=False)], at + 1


def _read_letters(words: list[str], at: int, names: Names) -> tuple[list[Given], int]:
    options: list[Given] = []
    letters = words[at][1:]
    for index, letter in enumerate(letters):
        first, takes_value = names.get(letter, (letter, False))
        rest = letters[index + 1 :]
        if takes_value and rest:
            return [*options, Given(first, rest, [words[at]])], at + 1
        if takes_value:
            return [*options, _with_next(first, words, at)], at + 2
        own = [words[at]] if index == 0 else []
        options.append(Given(first, "true", own, is_known=letter in names))
    return options, at + 1


def _with_next(first: str, words: list[str], at: int) -> Given:
    """Return an option whose value is the next word; "" at the end."""
    value = "".join(words[at + 1 : at + 2])
    return Given(first, value, words[at : at + 2])
