"""The file for node_exporter's textfile collector."""

from __future__ import annotations

import os

from nri.errors import NRIError
from nri.small_file import replace_file

NAME = "nri.prom"
"""The file's name; node_exporter reads ``*.prom``."""

_PART = f".{NAME}.part"


class TextfileError(NRIError):
    """The file cannot be written. The one before it is as it was."""


def replace(directory: str, text: bytes) -> None:
    """Write the file in ``directory``, for everybody to read: node_exporter has a user of its own.

    :raises TextfileError: it cannot be written.
    """
    path = os.path.join(directory, NAME)
    try:
        replace_file(path, text, part=os.path.join(directory, _PART), mode=0o644)
    except OSError as error:
        raise TextfileError(
            f"{path} cannot be written: {error.strerror}; expected an existing directory with room, which"
            " node_exporter reads"
        ) from error
