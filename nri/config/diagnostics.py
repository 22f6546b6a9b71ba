"""The faults of a configuration file that is not valid, each with its place.

The search ends at a limit and skips valid entries, so that a file with 20,000 entries takes a moment only.
"""

from __future__ import annotations

import codecs
import itertools
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator

from nri.config.faults import MAX_FAULTS, Fault, path_text
from nri.config.findings import explain
from nri.config.source_positions import SourcePositions, refused
from nri.config.validate import HOST_CONFIG, PLUGIN
from nri.types import DecodeError, gojson
from nri.types.table import NOTE_PREFIX
from nri.types.table_explained import schema
from nri.types.v1 import STATES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nri.config.findings import Error

_OF_DOCUMENT, _OF_PLUGIN = (Draft202012Validator(schema(table)) for table in (HOST_CONFIG, PLUGIN))


def diagnose(file: str, document: bytes, limit: int = MAX_FAULTS) -> tuple[Fault, ...]:
    """Return the faults of a configuration file that is not valid, from its top: at least one, at most *limit*.

    If the file is not UTF-8 or not JSON, that is its last fault: any other would be a guess.
    """
    faults: list[Fault] = []
    if document.startswith(codecs.BOM_UTF8):
        document = document.removeprefix(codecs.BOM_UTF8)
        message = "found a byte order mark (U+FEFF) at the start of the file, expected UTF-8 without one"
        faults.append(Fault(file=file, message=message))
    try:
        text = document.decode()
        value = gojson.loads(text)
    except UnicodeDecodeError as error:
        before = document[: error.start].decode()
        line, column = gojson.position(before, len(before))
        message = f"found the byte 0x{document[error.start]:02x}, which is not UTF-8, expected a file in UTF-8"
        return (*faults, Fault(file=file, line=line, column=column, message=message))
    except DecodeError as error:
        return (*faults, _not_json(file, text, error))
    positions = SourcePositions(text, limit)
    for path, (line, column), first in positions.duplicates:
        message = "the key is given again, expected it once; it was given first at line {} column {}".format(*first)
        faults.append(Fault(file=file, line=line, column=column, path=path_text(path), message=message))
    try:
        faults += [positions.fault(file, *finding[:3]) for finding in explain(_errors(value, limit), limit)]
    except RecursionError:  # a validator compares two states recursively
        faults.append(Fault(file=file, message="nested too deep to be checked, expected a handful of levels"))
    if not faults:  # the table and its schema differ; tests compare them
        faults.append(Fault(file=file, message="not accepted for an unknown reason; please report this as a bug"))
    return tuple(sorted(faults, key=lambda fault: (fault.line, fault.column))[:limit])


def _errors(value: Any, limit: int) -> Iterator[Error]:
    """Yield a validator's errors for a document, and for the first *limit* entries that are not valid."""
    plugins = value.get("plugins") if isinstance(value, dict) else None
    if not isinstance(plugins, list):
        yield from _OF_DOCUMENT.iter_errors(value)
        return
    yield from _OF_DOCUMENT.iter_errors({**value, "plugins": []})
    bad = (index for index, plugin in enumerate(plugins) if not PLUGIN.accepts(plugin))
    for index in itertools.islice(bad, limit):
        plugin = plugins[index]
        if isinstance(plugin, dict) and isinstance(states := plugin.get("states"), list):
            # One more than there are states is enough for a fault.
            plugin = {**plugin, "states": states[: len(STATES) + 1]}
        for error in _OF_PLUGIN.iter_errors(plugin):
            error.path.extendleft((index, "plugins"))
            yield error


def _not_json(file: str, text: str, error: DecodeError) -> Fault:
    if not text.strip(" \t\r\n"):
        minimal = '{"version": "0.1", "plugins": [{"type": "NAME"}]}'
        return Fault(file=file, message=f"found an empty file, expected at least {minimal}")
    line, column = (error.line, error.column) if error.line else refused(text)
    return Fault(file=file, line=line, column=column, message=error.reason + _hint(text, line, column))


def _hint(text: str, line: int, column: int) -> str:
    """Return a hint on a syntax error, if the text at its place is valid in other formats."""
    lines = text.split("\n")
    before, after = lines[line - 1][: column - 1], lines[line - 1][column - 1 :]
    if after.startswith(("//", "/*", "#")):
        return f'; JSON has no comments, notes go under a key that begins with "{NOTE_PREFIX}"'
    if after.startswith("'"):
        return '; JSON has strings in "double quotes" only'
    if after.startswith(("}", "]")) and "\n".join([*lines[: line - 1], before]).rstrip().endswith(","):
        return "; JSON has no comma after the last item"
    return ""
