"""Documents in TOML and JSON that other programs own: read as a whole, and never quoted in a message."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from nri.doctor.node import LookError, Node

_PLACE = re.compile(r"line \d+,? column \d+|end of document")

Table = dict[str, Any]


def toml(text: bytes, path: str) -> Table:
    """Return the table of a TOML text.

    :raises LookError: it is not TOML. The message has the place alone, as the text may hold credentials.
    """
    try:
        return tomllib.loads(text.decode())
    except UnicodeDecodeError:
        raise LookError(path, "it is not TOML: it is not UTF-8") from None
    except (tomllib.TOMLDecodeError, ValueError) as error:
        place = _PLACE.search(str(error))
        raise LookError(path, f"it is not TOML{f': see {place[0]}' if place else ''}") from None
    except RecursionError:
        raise LookError(path, "it is not TOML: it is nested too deep") from None


def read_toml(node: Node, path: str) -> Table:
    """Return the table of a TOML file, and raise as :func:`toml` and :meth:`Node.read` do."""
    return toml(node.read(path), path)


def read_json(node: Node, path: str) -> Table:
    """Return the object in a JSON file, and raise as :func:`read_toml` does."""
    try:
        value = json.loads(node.read(path))
    except (ValueError, RecursionError):
        raise LookError(path, "it is not JSON") from None
    if not isinstance(value, dict):
        raise LookError(path, "it is not a JSON object")
    return value


def table(value: object, *keys: str) -> Table:
    """Return the table at a path of keys, {} if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def text_of(value: object, default: str = "") -> str:
    """Return ``value`` if it is a string that is not empty, else the default."""
    return value if isinstance(value, str) and value else default


def strings(value: object) -> tuple[str, ...]:
    """Return the strings in a list; () for anything else."""
    return tuple([each for each in value if isinstance(each, str)]) if isinstance(value, list) else ()
