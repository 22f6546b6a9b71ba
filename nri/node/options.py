"""The options in use of a host: the last valid ones, beyond a file that is away.

Absence is no answer: a runtime passes "" for a file that is not there, and ``nri-runc`` finds none while its
directory is exchanged. So valid options are recorded, in the default directory of the record, which does not depend
on what is lost. A host that goes on with them says so.
"""

from __future__ import annotations

import os

from nri import places
from nri.errors import NRIError, reason_of
from nri.node.record import read_file, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from nri.types.conf import Conf

    Options = TypeVar("Options", bound=Conf)

MAX_OPTIONS = 1024 * 1024
"""Bytes of recorded options."""

BRIDGE = "options"
RUNC = "options.runc"
"""The hosts whose options are recorded."""


def is_nodes(record_dir: str) -> bool:
    """Return whether options with this directory of the record are a node's, and not those of a trial."""
    return record_dir == places.DEFAULT_RECORD_DIR or os.path.realpath(record_dir).startswith(
        "/run/"
    )


def last(host: str, kind: type[Options]) -> Options | None:
    """Return the options that a host has recorded last; None if there are none.

    They were valid for the build that recorded them: keys that this one does not know are ignored.
    """
    try:
        text = str(read_file(_path(host), MAX_OPTIONS), "utf-8")
    except (OSError, NRIError, ValueError):
        return None
    options, _ = kind.of_text(text)
    return options


def record(host: str, text: bytes) -> str:
    """Record options, which are valid; return why that cannot be done, "" if it is done."""
    path = _path(host)
    try:
        if read_file(path, MAX_OPTIONS) == text:
            return ""
    except (OSError, NRIError):
        pass  # there are none, or they are replaced
    try:
        write_file(path, text)
    except (OSError, NRIError) as error:
        return f"cannot be recorded: {path}: {reason_of(error)}"
    return ""


def _path(host: str) -> str:
    return f"{places.DEFAULT_RECORD_DIR}/.{host}"
