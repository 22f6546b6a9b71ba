"""Reports errors as the real runtime does, so that engines find them and show them to people.

runc and crun write an error to stderr and, with ``--log FILE``, to that file. conmon (podman, CRI-O) and containerd's
shim look there for the last JSON object of level ``error``. Lines that are no errors must not come on stderr, which
is the container's own where it has no terminal: they go to the files, and to stderr only where there is none.
"""

from __future__ import annotations

import os
import time

from nri.errors import escape
from nri.process.reporter import Reporter, append

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from nri.runc.commandline import CommandLine


class Report:
    """The outlets of one command.

    :param program: the name that messages begin with.
    :param line: its ``--log`` and ``--log-format`` count.
    :param is_crun: whether the real runtime is crun, whose text is the message alone.
    :param log_file: a file of our own that gets all lines; "" for none.
    """

    def __init__(
        self,
        program: str,
        line: CommandLine,
        stderr: TextIO | None,
        *,
        is_crun: bool = False,
        log_file: str = "",
    ) -> None:
        self._lines = Reporter(stderr, program=program)
        self._lines.log_file = self._log_file = log_file
        self._program = program
        self._is_crun = is_crun
        self._has_json = line.value("log-format") == "json"
        self._log = _log_file(line.value("log"))
        self.about = f"{program} {line.command}"
        """The beginning of a message."""

    def error(self, *reasons: str) -> None:
        """Report why the command fails; the reasons are lines of one message."""
        message = f"{self.about}: " + "; ".join(map(escape, reasons))
        wrong = self._append("error", message)
        shown = message
        if not self._log and not self._is_crun:
            shown = self._format("error", message)
        if wrong:
            shown = f"{shown}\n{wrong}"
        self._lines.put(message, shown)

    def note(self, line: str) -> None:
        """Report what does not make the command fail."""
        line = escape(f"{self._program}: {line}")
        wrong = self._append("warning", line)
        shown = wrong
        if not self._log and not self._log_file:
            shown = self._format("warning", line)
        self._lines.put(line, shown)

    def _append(self, level: str, message: str) -> str:
        """Write to the file of ``--log``; return the line about an error, "" for none."""
        if not self._log:
            return ""
        wrong = append(
            self._log, f"{self._format(level, message)}\n".encode("utf-8", "backslashreplace")
        )
        if wrong:
            return escape(f"{self._program}: --log {self._log}: cannot be written: {wrong}")
        return ""

    def _format(self, level: str, message: str) -> str:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if self._has_json:
            from nri.types import gojson

            return gojson.dumps({"level": level, "msg": message, "time": now}).decode()
        if self._is_crun:
            return message
        quoted = message.replace("\\", "\\\\").replace('"', '\\"')
        return f'time="{now}" level={level} msg="{quoted}"'


def _log_file(given: str) -> str:
    """Return the absolute path of the file in ``--log``, "" if it is stderr or no file."""
    if given.startswith(("journald:", "syslog:")):  # crun's; the caller sees stderr in any case
        return ""
    path = given.removeprefix("file:")
    if path in ("", "/dev/stderr", "/proc/self/fd/2"):
        return ""
    try:
        return os.path.abspath(path)
    except OSError:  # the current directory is gone
        return path
