"""The log of a launched bridge on a node without journal and syslog: a file that keeps its own size.

Nothing else rotates or empties it. The file and its directory can be read by root only.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections import deque
from typing import TYPE_CHECKING

from nri import places, trust
from nri.v1bridge.handlers import LossyHandler

if TYPE_CHECKING:
    from collections.abc import Callable

DIRECTORY = "/var/log/nri"
"""The directory of the log; one that cannot be made or trusted is replaced by that of the record."""

MAX_BYTES, MAX_BYTES_IN_MEMORY = 4 * 1024 * 1024, 1024 * 1024
"""Size at which a file is replaced; the second one beside the record, since /run is in memory."""

_OLD_FILES = 2  # NAME.1 and NAME.2
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def candidates(record_file: str) -> list[tuple[str, int]]:
    """Return the paths for the log of a bridge with this record, the best one first, each with its maximum size."""
    file = places.beside(record_file, ".log")
    found = [(file, MAX_BYTES_IN_MEMORY)]
    if (
        record_file == places.DEFAULT_RECORD_FILE
    ):  # another record is another bridge's, which keeps its files together
        found.insert(0, (f"{DIRECTORY}/{os.path.basename(file)}", MAX_BYTES))
    return found


class RotatingFile(LossyHandler):
    """Append lines to the file ``path``; when it has ``max_bytes``, it becomes ``path.1``, and that ``path.2``.

    :param report: called with one line whenever the file begins to lose lines.
    :raises OSError: the file cannot be opened, or its directory is not trusted.
    """

    def __init__(self, path: str, max_bytes: int, report: Callable[[str], None]) -> None:
        super().__init__(
            path,
            lambda why: report(f"the log file {path} cannot be written, lines are lost: {why}"),
            (errno.ENOSPC, os.strerror(errno.ENOSPC)),
        )
        self._path, self._name = os.path.split(path)
        self._max, self._fault = max_bytes, ""
        self._fd = -1
        self._folder = _open_folder(self._path)
        try:
            self._open()
        except BaseException:
            self._close()
            raise

    def _follow(self) -> None:
        """Replace a file that is full or gone. Without a new one, lines are lost: no file grows without end."""
        try:
            found = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
        except OSError:
            found = None
        try:
            if found is not None and found.st_size >= self._max:
                self._rotate()
            elif found is not None and self._fd >= 0 and os.path.samestat(found, os.fstat(self._fd)):
                return
            self._open()
        except OSError as error:
            self._drop()
            self._fault = error.strerror or str(error)

    def _rotate(self) -> None:
        for number in range(_OLD_FILES, 0, -1):
            old = f"{self._name}.{number - 1}" if number > 1 else self._name
            try:
                os.rename(old, f"{self._name}.{number}", src_dir_fd=self._folder, dst_dir_fd=self._folder)
            except FileNotFoundError:
                pass

    def _open(self) -> None:
        try:
            fd = os.open(self._name, _FILE, 0o600, dir_fd=self._folder)
        except FileNotFoundError:  # the directory was removed
            folder = _open_folder(self._path)
            os.close(self._folder)
            self._folder = folder
            fd = os.open(self._name, _FILE, 0o600, dir_fd=self._folder)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "it is not a regular file")
        self._drop()
        self._fd, self._torn = fd, False

    def _drop(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _send(self, data: bytes) -> int:
        if self._fd < 0:
            raise OSError(errno.EIO, self._fault)
        return os.write(self._fd, data)

    def _close(self) -> None:
        self._drop()
        os.close(self._folder)


class HeldLines(logging.Handler):
    """Keep the last lines of a bridge that is about to learn where its log goes.

    :param target: makes the handler that gets them if the process ends before that.
    """

    MAX = 100
    """Lines that are kept."""

    def __init__(self, target: Callable[[], logging.Handler]) -> None:
        super().__init__()
        self._target: Callable[[], logging.Handler] | None = target
        self._records: deque[logging.LogRecord] = deque(maxlen=self.MAX)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self._records.append(record)

    def hand_over(self, handler: logging.Handler) -> None:
        """Give the lines to another handler: all to a file like the target, else only warnings and errors."""
        self._target = None
        least = logging.NOTSET if isinstance(handler, RotatingFile) else logging.WARNING
        for record in self._records:
            if record.levelno >= least:
                handler.handle(record)
        self._records.clear()

    def close(self) -> None:
        """Write the lines to the target, unless they were handed over."""
        target, self._target = self._target, None
        if target is not None and self._records:
            handler = target()
            for record in self._records:
                handler.handle(record)
            handler.close()
        super().close()


def _open_folder(path: str) -> int:
    """Return a descriptor of the directory, which is made if it is missing.

    :raises OSError: it cannot be made, or others can write to it.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    fd = os.open(path, _DIRECTORY)
    if wrong := trust.judge(os.fstat(fd)):
        os.close(fd)
        raise PermissionError(errno.EPERM, f"its directory {wrong}")
    return fd
