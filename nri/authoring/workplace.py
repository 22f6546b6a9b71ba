"""The place where a result is built, beside the place where it will be: it appears there whole, or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from typing import TYPE_CHECKING

from nri.authoring.build_errors import BuildError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

PREFIX = ".nri-build-"
"""Names of the temporary folders; one that a killed build left behind is removed by the next."""

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # linux/fs.h


class Workplace:
    """A temporary folder in the folder of results, on the same file system. It is removed at the end.

    :param output: the folder of results, which is made if it does not exist.
    :raises BuildError: on entering, when nothing can be written there.
    """

    def __init__(self, output: str) -> None:
        self._output = os.path.abspath(output)
        self._made: list[str] = []  # folders that did not exist, the innermost first
        self.folder = ""
        self._lock = -1

    def __enter__(self) -> Self:
        """Make the folders."""
        above = self._output
        while not os.path.lexists(above):
            self._made.append(above)
            above = os.path.dirname(above)
        try:
            os.makedirs(self._output, exist_ok=True)
            self._remove_stale()
            self.folder = tempfile.mkdtemp(prefix=PREFIX, dir=self._output)
            self._lock = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.__exit__(BuildError, None, None)
            where = error.filename or self._output
            advice = "expected a folder in which this user may write: --output DIR"
            raise BuildError(f"{where}: can't be written: {error.strerror}; {advice}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the temporary folder; after an error also the folders that were made for it."""
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
        for folder in self._made if kind is not None else []:
            try:
                os.rmdir(folder)
            except OSError:
                break  # it was not made, or something else is in it

    def path(self, *names: str) -> str:
        """Return a path in the temporary folder."""
        return os.path.join(self.folder, *names)

    def make(self, name: str) -> str:
        """Make a folder in the temporary folder, and return its path."""
        os.mkdir(self.path(name))
        return self.path(name)

    def target(self, name: str) -> str:
        """Return the path of the result ``name``.

        :raises BuildError: when something is there that no build has made.
        """
        target = os.path.join(self._output, name)
        if os.path.lexists(target) and not _is_result(target):
            raise BuildError(
                f"{target} exists and is no result of nri build; move it away, or choose another --output"
            )
        return target

    def install(self, built: str, target: str) -> None:
        """Move a result to its place. One that is there is replaced in one step where the file system can do it.

        :raises BuildError: when it can't be moved.
        """
        try:
            if not os.path.lexists(target):
                os.rename(built, target)
            elif not _exchange(built, target):
                before = self.path("before")
                os.rename(target, before)
                try:
                    os.rename(built, target)
                except BaseException:
                    os.rename(before, target)
                    raise
        except OSError as error:
            raise BuildError(f"{target}: can't be written: {error.strerror}") from error

    def _remove_stale(self) -> None:
        for name in os.listdir(self._output):
            path = os.path.join(self._output, name)
            if not name.startswith(PREFIX) or os.path.islink(path) or not os.path.isdir(path):
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            except BlockingIOError:
                pass  # another build is at work there
            finally:
                os.close(descriptor)


def _is_result(path: str) -> bool:
    """Return whether a folder has only what a build makes: executables and their libraries."""
    if os.path.islink(path) or not os.path.isdir(path):
        return False
    with os.scandir(path) as entries:
        found = {entry.name: entry for entry in entries}
    libraries = found.pop("_internal", None)
    if libraries is None:
        return not found
    are_executable = all(entry.is_file() and os.access(entry.path, os.X_OK) for entry in found.values())
    return are_executable and os.path.exists(os.path.join(libraries.path, "base_library.zip"))


def _exchange(one: str, other: str) -> bool:
    """Exchange two folders in one step; return False where kernel, libc or file system can't."""
    import ctypes

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), other)
