"""The node that is examined: what was found, and how its files, processes and programs are looked at."""

from __future__ import annotations

import errno
import os
import stat
import time
from typing import Any, NamedTuple

from nri import files, trust
from nri.errors import escape, reason_of
from nri.process.conversation import launch
from nri.types.gojson import shorten

OK = "ok"
NOTE = "note"
FAULT = "fault"
UNSEEN = "unseen"
"""The levels of a finding: as it should be; worth knowing; wrong; it could not be looked at."""

MAX_TEXT = 2000
"""Characters of a finding."""

MAX_FILE = 32 * 1024 * 1024
"""Bytes of a file."""

WITHIN = 10.0
"""Seconds that a program has."""

PROGRAMS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Directories in which a program is looked up; ``PATH`` of the caller may be another one than the runtime's."""


class Finding(NamedTuple):
    """One sentence about the node.

    :ivar subject: the heading that it stands under, such as ``containerd``.
    :ivar level: one of the constants above.
    :ivar code: names the kind of finding, for programs; it stays when the text changes.
    :ivar fix: what a person does about it; "" if nothing needs to be done.
    """

    subject: str
    level: str
    code: str
    text: str
    fix: str = ""


class Findings(list[Finding]):
    """The findings, in the order of the page; texts are fit for a terminal.

    :ivar subject: the heading of what is added next.
    :ivar root: the directory that stands for ``/``; no text has it.
    """

    subject = ""
    root = ""

    def add(self, level: str, code: str, text: str, fix: str = "") -> None:
        """Add a finding; the same text is not added twice."""
        finding = Finding(self.subject, level, code, self._shown(text), self._shown(fix))
        if finding not in self:
            self.append(finding)

    def _shown(self, text: str) -> str:
        return escape(shorten(text.replace(self.root, ""), MAX_TEXT))

    @property
    def is_well(self) -> bool:
        """True if nothing is wrong."""
        return not any(finding.level == FAULT for finding in self)


class Process(NamedTuple):
    """A process.

    :ivar program: the path of its executable, "" if it can't be seen; `` (deleted)`` follows if it was replaced.
    :ivar name: its name for the kernel, which it may have chosen itself.
    :ivar is_here: whether it sees the files that we see, as far as we know.
    """

    pid: int
    arguments: list[str]
    program: str
    name: str
    is_here: bool

    def option(self, *names: str) -> str:
        """Return the value of an option, as ``--config FILE`` or ``--config=FILE``; "" without it."""
        for number, argument in enumerate(self.arguments):
            name, equals, value = argument.partition("=")
            if name in names:
                if equals:
                    return value
                return "".join(self.arguments[number + 1 : number + 2])
        return ""


class Node:
    """A node.

    :param root: a directory whose files stand for those of ``/``, for tests.
    """

    def __init__(self, root: str = "") -> None:
        self.root = root

    def read(self, path: str) -> str:
        """Return the text of a regular file.

        :raises OSError: it can't be read, or has more than ``MAX_FILE``, half of which would be judged wrongly.
        """
        return files.read_regular(self.root + path, MAX_FILE)[0].decode("utf-8", "replace")

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a directory, [] if it does not exist.

        :raises OSError: it can't be listed.
        """
        try:
            return sorted(os.listdir(self.root + path), key=os.fsencode)
        # ValueError: a NUL in a path of an engine's configuration.
        except (FileNotFoundError, ValueError):
            return []

    def mode(self, path: str) -> int:
        """Return the mode of what a path leads to; 0 if it leads to nothing that we can see."""
        try:
            return os.stat(self.root + path).st_mode
        except (OSError, ValueError):
            return 0

    def is_link(self, path: str) -> bool:
        """Return whether a path is a link."""
        return os.path.islink(self.root + path)

    def is_noexec(self, path: str) -> bool:
        """Return whether nothing can be executed in a directory, because of its mount."""
        try:
            return os.statvfs(self.root + path).f_flag & os.ST_NOEXEC != 0
        except (OSError, ValueError):
            return False

    def processes(self) -> list[Process]:
        """Return all processes that have a command line, and that we can see."""
        ours = self._link("/proc/self/ns/mnt")
        processes = []
        for pid in filter(str.isdigit, self.names("/proc")):
            try:
                arguments = self.read(f"/proc/{pid}/cmdline").rstrip("\0").split("\0")
                name = self.read(f"/proc/{pid}/comm").strip()
            except OSError:
                continue  # it has ended
            if arguments != [""]:
                theirs = self._link(f"/proc/{pid}/ns/mnt")
                program = self._link(f"/proc/{pid}/exe")
                is_here = theirs in ("", ours)
                processes.append(Process(int(pid), arguments, program, name, is_here))
        return processes

    def find(self, program: str) -> str:
        """Return the path of a program, "" if there is none."""
        for directory in PROGRAMS:
            path = f"{directory}/{program}"
            if is_executable(self.mode(path)):
                return path
        return ""

    def run(self, name: str, program: str, *arguments: str) -> str:
        """Run a program to its end; return what it has written to stdout.

        :param name: by which it is called: k3s and others are several programs in one file.
        :param program: its path, or its name.
        :raises FileNotFoundError: it is missing.
        :raises ChildProcessError: its exit status is not 0.
        :raises OSError: it can't be started, takes too long, or others can write to it.
        """
        path = program if program.startswith("/") else self.find(program)
        if not path:
            raise FileNotFoundError(errno.ENOENT, "it is not installed", program)
        real = os.path.realpath(self.root + path.removeprefix(self.root))
        if wrong := trust.judge_path(real, os.stat(real)):
            raise PermissionError(errno.EPERM, f"not run: {wrong.removeprefix(real).strip()}", path)
        output = launch(
            real, [name, *arguments], b"", time.monotonic() + WITHIN, log=lambda _: None
        )
        if output.stopped:
            raise TimeoutError(errno.ETIMEDOUT, f"not done within {WITHIN:g} s", path)
        if output.status < 0:
            raise InterruptedError(errno.EINTR, output.ending, path)
        if output.status:
            raise ChildProcessError(errno.ECHILD, output.ending, path)
        return output.stdout.decode("utf-8", "replace")

    def _link(self, path: str) -> str:
        try:
            return os.readlink(self.root + path)
        except OSError:
            return ""


def is_executable(mode: int) -> bool:
    """Return whether a mode is that of a regular file that can be executed."""
    return stat.S_ISREG(mode) and mode & 0o111 != 0


def reason(error: OSError) -> str:
    """Return what could not be looked at, and why."""
    text = reason_of(error).lower()
    return f"{error.filename}: {text}" if error.filename else text


def same_path(path: str) -> str:
    """Return the path below /run: /var/run is a link to that on every node."""
    return os.path.normpath(path).replace("/var/run/", "/run/", 1)


def table(value: Any, *keys: str) -> dict[str, Any]:
    """Return the table at a path of keys in a document of another program, {} if there is none."""
    for key in keys:
        value = table(value).get(key)
    if isinstance(value, dict):
        return value
    return {}


def texts(value: object) -> list[str]:
    """Return the strings in a list; [] for anything else."""
    if isinstance(value, list):
        return [item for item in value if isinstance(item, str)]
    return []
