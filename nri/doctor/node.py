"""The node that is looked at: its files, processes and programs, below a root directory.

Links are followed as from inside of that root, so nothing outside of it is read. A file is read only if it is a
regular one, and up to a limit. Programs run only where the root is ``/``, with a time limit and an empty environment.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from typing import NamedTuple

from nri import trust
from nri.errors import NRIError
from nri.filekind import describe
from nri.process.conversation import Output
from nri.process.launch import launch

MAX_FILE = 1024 * 1024
"""Bytes of a file that is read as a whole."""

MAX_NAMES = 10_000
"""Names of one directory that are looked at."""

WITHIN = 5.0
"""Seconds that a program has by default."""

PROGRAMS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Directories in which a program is looked up. No ``PATH``: the caller's may be another one than the runtime's."""

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class LookError(NRIError):
    """Something could not be looked at; the message has the path and the reason.

    :ivar is_absent: there is no such file.
    :ivar is_denied: our user may not look at it.
    """

    def __init__(self, path: str, reason: str, *, is_absent: bool = False, is_denied: bool = False) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason, self.is_absent, self.is_denied = path, reason, is_absent, is_denied

    @classmethod
    def of(cls, path: str, error: OSError, before: str = "") -> LookError:
        """Return the error for an OSError.

        :param before: what the reason begins with.
        """
        is_absent = isinstance(error, FileNotFoundError | NotADirectoryError)
        reason = before + (error.strerror or str(error)).lower()
        return cls(path, reason, is_absent=is_absent, is_denied=isinstance(error, PermissionError))


class Process(NamedTuple):
    """A process with its command line, and the path of its executable ("" if it can't be seen)."""

    pid: int
    arguments: list[str]
    executable: str
    is_here: bool | None
    """Whether it sees the files that we see; None if that can't be seen."""
    name: str = ""
    """Its name for the kernel, which it may have chosen itself."""

    def option(self, *names: str) -> str:
        """Return the value of an option, as ``--config FILE`` or ``--config=FILE``; "" without it."""
        found = ""
        for number, argument in enumerate(self.arguments):
            name, equals, value = argument.partition("=")
            if name in names:
                found = value if equals else "".join(self.arguments[number + 1 : number + 2])
        return found


class Node:
    """A node.

    :param root: the directory that stands for ``/``.
    :param runs: whether its programs may be run; by default only those of ``/``.
    """

    def __init__(self, root: str = "/", *, runs: bool | None = None) -> None:
        self.root = os.path.abspath(root)  # not the real path: /proc/PID/root is a link to / by its text
        self.is_own = self.root == "/"
        self.runs = self.is_own if runs is None else runs

    # Files

    def real(self, path: str) -> str:
        """Return the path outside of the root to which ``path`` leads, all links followed. It need not exist.

        :raises LookError: a directory can't be looked at, or there are too many links.
        """
        left, place, links = _parts(path), "", 0
        while left:
            part = left.pop()
            if part == "..":
                place = os.path.dirname(place)
                continue
            here = f"{place}/{part}"
            try:
                target = os.readlink(self._outside(here))
            except FileNotFoundError:
                target = ""
            except ValueError as error:
                raise LookError(path, str(error)) from None
            except OSError as error:
                if error.errno != errno.EINVAL:  # it is no link
                    raise LookError.of(path, error) from None
                target = ""
            if not target:
                place = here
                continue
            links += 1
            if links > trust.MAX_LINKS:
                raise LookError(path, "too many links")
            place = "" if target.startswith("/") else place
            left += _parts(target)
        return self._outside(place or "/")

    def inside(self, real: str) -> str:
        """Return the path as it is below the root."""
        return real if self.is_own else real.removeprefix(self.root) or "/"

    def status(self, path: str) -> os.stat_result:
        """Return the status of what ``path`` leads to.

        :raises LookError: there is nothing, or it can't be looked at.
        """
        try:
            return os.lstat(self.real(path))
        except OSError as error:
            raise LookError.of(path, error) from None

    def exists(self, path: str) -> bool:
        """Return whether ``path`` leads to something that we can see."""
        try:
            self.status(path)
        except LookError:
            return False
        return True

    def is_link(self, path: str) -> bool:
        """Return whether the name itself is a link, wherever it leads."""
        try:
            parent = self.real(os.path.dirname(path))
            return stat.S_ISLNK(os.lstat(os.path.join(parent, os.path.basename(path))).st_mode)
        except (OSError, LookError):
            return False

    def read(self, path: str, limit: int = MAX_FILE) -> bytes:
        """Return the content of a regular file.

        :raises LookError: it has more than ``limit`` bytes, is no regular file, or can't be read.
        """
        data = self._read(path, limit + 1, from_end=False)
        if len(data) > limit:
            raise LookError(path, f"it has more than {limit} bytes")
        return data

    def end_of(self, path: str, limit: int) -> bytes:
        """Return the last ``limit`` bytes of a regular file, and raise as :meth:`read` does."""
        return self._read(path, limit, from_end=True)

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a directory, [] if it does not exist.

        :raises LookError: it can't be listed.
        """
        found: list[str] = []
        try:
            with os.scandir(self.real(path)) as entries:
                for entry in entries:
                    found.append(entry.name)
                    if len(found) >= MAX_NAMES:
                        break
        except FileNotFoundError:
            return []
        except OSError as error:
            raise LookError.of(path, error) from None
        return sorted(found, key=os.fsencode)

    # Processes and programs

    def processes(self) -> list[Process]:
        """Return all processes that have a command line.

        :raises LookError: there is no /proc.
        """
        pids = [int(name) for name in self.names("/proc") if name.isdigit()]
        if not pids:
            raise LookError("/proc", "no process can be seen")
        ours = self._namespace("self")
        found = []
        for pid in pids:
            try:
                line = self.read(f"/proc/{pid}/cmdline", 64 * 1024)
            except LookError:
                continue  # it has ended, or is another user's
            arguments = os.fsdecode(line.rstrip(b"\0")).split("\0")
            if arguments == [""]:
                continue  # the kernel's own
            try:
                executable = os.readlink(self._outside(f"/proc/{pid}/exe"))
            except OSError:
                executable = ""
            theirs = self._namespace(str(pid))
            is_here = None if self.is_own and not (ours and theirs) else ours == theirs
            found.append(Process(pid, arguments, executable, is_here, self._name(pid)))
        return found

    def find(self, program: str) -> str:
        """Return the path of a program, "" if there is none."""
        for directory in PROGRAMS:
            path = f"{directory}/{program}"
            try:
                mode = self.status(path).st_mode
            except LookError:
                continue
            if stat.S_ISREG(mode) and mode & 0o111:
                return path
        return ""

    def run(self, path: str, *arguments: str, within: float = WITHIN, name: str = "") -> Output:
        """Run a program to its end.

        :param name: the name that it is called by; by default its path.
        :raises LookError: it may not be run, can't be started, or takes longer than ``within`` seconds.
        """
        if not self.runs:
            raise LookError(path, "not run: programs of another root are not run")
        real = self.real(path)
        try:
            if wrong := trust.judge_path(real, os.stat(real)):
                raise LookError(path, f"not run: {wrong.removeprefix(real).strip()}")
            output = launch(real, [name or path, *arguments], b"", time.monotonic() + within, log=lambda _: None)
        except OSError as error:
            raise LookError.of(path, error, "it can't be run: ") from None
        if output.stopped:
            why = f"not done within {within:g} s" if output.stopped == "deadline" else "it wrote too much"
            raise LookError(path, f"killed: {why}")
        return output

    def _name(self, pid: int) -> str:
        try:
            return os.fsdecode(self.read(f"/proc/{pid}/comm", 64)).strip()
        except LookError:
            return ""

    def _namespace(self, pid: str) -> str:
        try:
            return os.readlink(self._outside(f"/proc/{pid}/ns/mnt"))
        except OSError:
            return ""

    def _outside(self, path: str) -> str:
        return path if self.is_own else self.root + path

    def _read(self, path: str, limit: int, *, from_end: bool) -> bytes:
        try:
            descriptor = os.open(self.real(path), _FLAGS)
        except OSError as error:
            raise LookError.of(path, error) from None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise LookError(path, f"found {describe(status.st_mode)}, expected a regular file")
            if from_end:
                os.lseek(descriptor, max(0, status.st_size - limit), os.SEEK_SET)
            data = b""
            while len(data) < limit and (more := os.read(descriptor, limit - len(data))):
                data += more
        except OSError as error:
            raise LookError.of(path, error) from None
        finally:
            os.close(descriptor)
        return data


def _parts(path: str) -> list[str]:
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]
