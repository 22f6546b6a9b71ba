"""Explains why an executable that exists can't be started, as far as its file tells."""

from __future__ import annotations

import errno

WINDOWS = "it has Windows line ends (CRLF), expected Unix ones (LF)"

NOT_RUN = (126, 127)
"""Exit statuses of shells and env(1): a command was found and not executed, or not found."""

_FIRST_LINE = 256  # bytes that the kernel looks at


def explain(path: str, error: OSError) -> str:
    """Return the error of starting ``path`` as a sentence that names the interpreter or loader at fault."""
    what = f"cannot be started: {path}: {error.strerror}"
    if error.errno == errno.ENOEXEC:
        return f"{what}; expected a program for this machine, or a script with an interpreter in its first line"
    if error.errno != errno.ENOENT:
        return what
    # The file was there a moment ago: what is missing is what the kernel needs to start it.
    line = _first_line(path)
    if not line.startswith(b"#!"):
        return f"{what}: where the file exists, the loader that it names does not"
    # As the kernel reads it: blanks separate, a CR belongs to the name.
    interpreter = line[2:].replace(b"\t", b" ").lstrip(b" ").partition(b" ")[0]
    name = repr(interpreter.decode(errors="backslashreplace"))
    also = f"; {WINDOWS}" if line.endswith(b"\r") else ""
    return f"cannot be started: {path}: its interpreter {name} does not exist{also}"


def has_windows_ends(path: str) -> bool:
    """Return whether ``path`` is a script whose first line ends in CR and LF."""
    line = _first_line(path)
    return line.startswith(b"#!") and line.endswith(b"\r")


def _first_line(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_FIRST_LINE).split(b"\n", 1)[0]
    except OSError:
        return b""
