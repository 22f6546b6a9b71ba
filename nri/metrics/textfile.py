"""The file for node_exporter's textfile collector: replaced as a whole, so a reader never finds half of it."""

from __future__ import annotations

import os

from nri.errors import NRIError

NAME = "nri.prom"
"""The file's name; node_exporter reads ``*.prom``."""

_PART = f".{NAME}.part"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class TextfileError(NRIError):
    """The file cannot be written. The one before it is as it was."""


def replace(directory: str, text: bytes) -> None:
    """Write the file in ``directory``, for everybody to read: node_exporter has a user of its own.

    :raises TextfileError: it cannot be written.
    """
    part = os.path.join(directory, _PART)
    try:
        _remove(part)  # of a process that was killed
        fd = os.open(part, _NEW, 0o644)
        try:
            os.fchmod(fd, 0o644)
            _write(fd, text)
        finally:
            os.close(fd)
        os.rename(part, os.path.join(directory, NAME))
    except OSError as error:
        try:
            _remove(part)
        except OSError:
            pass  # the first error has the reason
        raise TextfileError(
            f"{os.path.join(directory, NAME)} cannot be written: {error.strerror}; expected an existing directory"
            " with room, which node_exporter reads"
        ) from error


def _write(fd: int, text: bytes) -> None:
    while text:
        text = text[os.write(fd, text) :]


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
