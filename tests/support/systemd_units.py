"""The units of systemd that the project installs."""

from __future__ import annotations

import configparser
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def read_unit(path: Path, *, strict: bool = True) -> configparser.ConfigParser:
    """Return the sections of a unit.

    :param strict: whether a key may be in a section only once; without it the last one counts.
    """
    parser = configparser.ConfigParser(interpolation=None, delimiters="=", comment_prefixes="#", strict=strict)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text(), str(path))
    return parser
