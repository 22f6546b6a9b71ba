"""What is wrong in a configuration, and where: one line for a person, with its parts for a program."""

from __future__ import annotations

from nri.errors import NRIError, printable
from nri.types import gojson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DOCUMENT = "(document)"
"""The path of the whole document."""


class Fault:
    """One thing that is wrong in a file; ``str()`` is ``file:line:column: path: message``.

    Frozen, compared by value.
    """

    __slots__ = ("column", "file", "line", "message", "path")

    file: str
    line: int
    """From 1; 1 as well for what concerns the file as a whole, so that the line always has the same form."""
    column: int
    """In characters, from 1; likewise."""
    path: str
    """The place in the document, as in ``plugins[0].type``."""
    message: str
    """What is wrong, and what would be right."""

    def __init__(self, *, file: str, message: str, path: str = DOCUMENT, line: int = 1, column: int = 1) -> None:
        put = object.__setattr__
        put(self, "file", file)
        put(self, "line", line)
        put(self, "column", column)
        put(self, "path", path)
        put(self, "message", message)

    def __str__(self) -> str:
        return printable(f"{self.file}:{self.line}:{self.column}: {self.path}: {self.message}")

    def __repr__(self) -> str:
        return f"Fault({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fault):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self) -> int:
        return hash((self.file, self.line, self.column, self.path, self.message))

    def __setattr__(self, name: str, value: object = None) -> None:
        raise AttributeError(f"Fault.{name} cannot be set")

    __delattr__ = __setattr__


class ConfigError(NRIError):
    """The host configuration cannot be used. ``str()`` has one line for each of its faults.

    Expected: operators write configurations by hand.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults: tuple[Fault, ...] = tuple(faults)
        """Everything that is wrong, in all files: these in the order they are read, each from its top."""
        super().__init__("\n".join(map(str, self.faults)))


def path_text(path: Sequence[str | int]) -> str:
    """The keys and indices of a path as a person writes them: ``plugins[0].type``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.replace("-", "_").replace("$", "_").isidentifier() and len(part) <= 60:
            text += f".{part}"
        else:
            text += f"[{gojson.shorten(repr(part))}]"
    return text.removeprefix(".") or DOCUMENT
