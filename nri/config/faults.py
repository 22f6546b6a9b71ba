"""Faults of a configuration, each with its place: one line for a person, and its parts for a program."""

from __future__ import annotations

from nri.errors import NRIError, escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_FAULTS = 100
"""The number of faults of one configuration that are listed; more would take long to find, and help little."""

DOCUMENT = "(document)"
"""The path of the whole document."""


class Fault:
    """A fault in a file; ``str()`` is ``file:line:column: path: message``.

    :param message: the fault, and the right value if it is known.
    :param path: in the document, such as ``plugins[0].type``.
    :param line: from 1; also 1 for a fault of the file as a whole, so that every line has the same form.
    :param column: in characters, from 1; also 1 for a fault of the file as a whole.
    """

    __slots__ = ("column", "file", "line", "message", "path")

    def __init__(
        self, *, file: str, message: str, path: str = DOCUMENT, line: int = 1, column: int = 1
    ) -> None:
        self.file = file
        self.message = message
        self.path = path
        self.line = line
        self.column = column

    def __str__(self) -> str:
        return escape(f"{self.file}:{self.line}:{self.column}: {self.path}: {self.message}")

    def __repr__(self) -> str:
        return f"Fault({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fault) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def _values(self) -> tuple[str, str, str, int, int]:
        return (self.file, self.message, self.path, self.line, self.column)


class ConfigError(NRIError):
    """The host configuration cannot be used. ``str()`` has one line for each of its faults.

    Expected: operators write configurations by hand. At most ``MAX_FAULTS`` faults are listed; if there are more, the
    last line reports it.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        listed = tuple(faults)
        if len(listed) > MAX_FAULTS:
            more = Fault(
                file=listed[MAX_FAULTS].file,
                message=f"there are more faults; {MAX_FAULTS} are listed",
            )
            listed = (*listed[:MAX_FAULTS], more)
        self.faults: tuple[Fault, ...] = listed
        """The faults of all files, in the order in which the files are read, each from its top."""
        super().__init__("\n".join(map(str, listed)))
