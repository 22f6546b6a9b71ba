"""The faults of a configuration file that is not valid, each with its place.

The search ends at a limit.
"""

from __future__ import annotations

import codecs
import itertools

from nri.config.faults import MAX_FAULTS, Fault
from nri.config.source_positions import SourcePositions, refused
from nri.config.validate import HOST_CONFIG
from nri.types import DecodeError, gojson
from nri.types.table import NOTE_PREFIX
from nri.types.table_explained import faults as faults_of
from nri.types.table_explained import path_text


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
    findings = itertools.islice(faults_of(HOST_CONFIG, value), limit)
    faults += [positions.fault(file, path, message, at_key) for path, message, at_key in findings]
    return tuple(sorted(faults, key=lambda fault: (fault.line, fault.column))[:limit])


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
