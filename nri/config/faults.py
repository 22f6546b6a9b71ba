"""Faults of a configuration, each with its place: one line for a person, and its parts for a program."""

from __future__ import annotations

from nri.errors import NRIError, escape
from nri.types import gojson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_FAULTS = 100
"""The number of faults of one configuration that are listed; more would take long to find, and help little."""

DOCUMENT = "(document)"
"""The path of the whole document."""


class Fault:
    """A fault in a file; ``str()`` is ``file:line:column: path: message``.

    Frozen, compared by value.
    """

    __slots__ = ("column", "file", "line", "message", "path")

    file: str
    line: int
    """From 1; also 1 for a fault of the file as a whole, so that every line has the same form."""
    column: int
    """In characters, from 1; also 1 for a fault of the file as a whole."""
    path: str
    """The path in the document, such as ``plugins[0].type``."""
    message: str
    """The fault and, where it can be said, what would be right."""

    def __init__(self, *, file: str, message: str, path: str = DOCUMENT, line: int = 1, column: int = 1) -> None:
        put = object.__setattr__
        put(self, "file", file)
        put(self, "line", line)
        put(self, "column", column)
        put(self, "path", path)
        put(self, "message", message)

    def __str__(self) -> str:
        return escape(f"{self.file}:{self.line}:{self.column}: {self.path}: {self.message}")

    def __repr__(self) -> str:
        return f"Fault({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fault):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in Fault.__slots__)

    def __hash__(self) -> int:
        return hash((self.file, self.line, self.column, self.path, self.message))

    def __setattr__(self, name: str, value: object = None) -> None:
        raise AttributeError(f"Fault.{name} cannot be set")

    __delattr__ = __setattr__


class InvalidFile(Fault):
    """A file that is not valid, with its content. To find its faults takes longer than a container can wait.

    Two of them are equal if their files and their contents are equal.
    """

    __slots__ = ("document",)

    document: bytes

    def __init__(self, *, file: str, document: bytes) -> None:
        super().__init__(file=file, message="is not a valid configuration; `nri check` says what is wrong")
        object.__setattr__(self, "document", document)

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and isinstance(other, InvalidFile) and other.document == self.document

    __hash__ = Fault.__hash__

    def explain(self, limit: int) -> tuple[Fault, ...]:
        """Return the faults of the file: at least one, at most *limit*."""
        from nri.config.diagnostics import diagnose

        return diagnose(self.file, self.document, limit)


class ConfigError(NRIError):
    """The host configuration cannot be used. ``str()`` has one line for each of its faults.

    Expected: operators write configurations by hand.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults: tuple[Fault, ...] = tuple(faults)
        """The faults of all files, in the order in which the files are read, each from its top."""
        super().__init__("\n".join(map(str, self.faults)))

    def explained(self) -> ConfigError:
        """Return an error with the faults of each file that is not valid.

        It lists at most :data:`MAX_FAULTS` faults; if there are more, the last line says so.
        """
        faults: list[Fault] = []
        for fault in self.faults:
            if len(faults) > MAX_FAULTS:
                break
            left = MAX_FAULTS + 1 - len(faults)
            faults += fault.explain(left) if isinstance(fault, InvalidFile) else [fault]
        if len(faults) > MAX_FAULTS:
            more = Fault(file=faults[MAX_FAULTS].file, message=f"there are more faults; {MAX_FAULTS} are listed")
            faults[MAX_FAULTS:] = [more]
        return ConfigError(faults)


def path_text(path: Sequence[str | int]) -> str:
    """Return the keys and indices of a path as one text, such as ``plugins[0].type``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.replace("-", "_").replace("$", "_").isidentifier() and len(part) <= 60:
            text += f".{part}"
        else:
            text += f"[{gojson.shorten(repr(part))}]"
    return text.removeprefix(".") or DOCUMENT
