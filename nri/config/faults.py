"""Faults of a configuration, each with its place: one line for a person, and its parts for a program."""

from __future__ import annotations

from nri.errors import NRIError, escape
from nri.types.jsonobject import JSONObject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_FAULTS = 100
"""The number of faults of one configuration that are listed; more would take long to find, and help little."""

DOCUMENT = "(document)"
"""The path of the whole document."""


class Fault(JSONObject):
    """A fault in a file; ``str()`` is ``file:line:column: path: message``."""

    __slots__ = ("column", "file", "line", "message", "path")

    file: str
    line: int
    """From 1; also 1 for a fault of the file as a whole, so that every line has the same form."""
    column: int
    """In characters, from 1; also 1 for a fault of the file as a whole."""
    path: str
    """The path in the document, such as ``plugins[0].type``."""
    message: str
    """The fault, and the right value if it is known."""

    def __init__(self, *, file: str, message: str, path: str = DOCUMENT, line: int = 1, column: int = 1) -> None:
        self._set(file=file, line=line, column=column, path=path, message=message)

    def __str__(self) -> str:
        return escape(f"{self.file}:{self.line}:{self.column}: {self.path}: {self.message}")

    def __repr__(self) -> str:
        return f"Fault({str(self)!r})"

    def __hash__(self) -> int:  # type: ignore[override]
        return hash((self.file, self.line, self.column, self.path, self.message))


class ConfigError(NRIError):
    """The host configuration cannot be used. ``str()`` has one line for each of its faults.

    Expected: operators write configurations by hand. At most ``MAX_FAULTS`` faults are listed; if there are more, the
    last line reports it.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        listed = tuple(faults)
        if len(listed) > MAX_FAULTS:
            more = Fault(file=listed[MAX_FAULTS].file, message=f"there are more faults; {MAX_FAULTS} are listed")
            listed = (*listed[:MAX_FAULTS], more)
        self.faults: tuple[Fault, ...] = listed
        """The faults of all files, in the order in which the files are read, each from its top."""
        super().__init__("\n".join(map(str, listed)))
