"""Replacement of a small file as a whole: a reader finds the old content or the new one, never a part."""

from __future__ import annotations

import os

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


def replace_file(path: str, data: bytes, *, part: str, mode: int) -> None:
    """Write ``data`` to a new file and rename it to ``path``. One thread of one process at a time may do so.

    :param part: the path of the new file until then, in the same directory. What a killed process has left there is
        removed, and a link there is never written through.
    :param mode: the new file's, whatever the umask is.
    :raises OSError: it cannot be written; ``path`` is as it was, and ``part`` is removed.
    """
    try:
        _remove(part)
        fd = os.open(part, _NEW, mode)
        try:
            os.fchmod(fd, mode)
            while data:
                data = data[os.write(fd, data) :]
        finally:
            os.close(fd)
        os.rename(part, path)
    except OSError:
        try:
            _remove(part)
        except OSError:
            pass  # the first error has the reason
        raise


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
