"""Explains from its content why an existing file cannot be started."""

from __future__ import annotations

import errno

WINDOWS = "it has Windows line ends (CRLF), expected Unix ones (LF)"

# Exit statuses of shells and env(1): a command was found but not executed, or not found.
NOT_RUN = (126, 127)
_FIRST_LINE = 256  # bytes that the kernel reads


def explain(path: str, error: OSError) -> str:
    """Return the error of starting ``path`` as a sentence that names the interpreter or loader at fault."""
    fault = f"cannot be started: {path}: {error.strerror}"
    if error.errno == errno.ENOEXEC:
        return (
            f"{fault}; expected a program for this machine, or a script with an interpreter in "
            "its first line"
        )
    if error.errno != errno.ENOENT:
        return fault
    # The file existed a moment ago, so an interpreter or loader is missing.
    line = _first_line(path)
    if not line.startswith(b"#!"):
        return f"{fault}: where the file exists, the loader that it names does not"
    # The kernel splits at blanks and takes a CR as part of the name.
    interpreter = line[2:].replace(b"\t", b" ").lstrip(b" ").partition(b" ")[0]
    name = repr(interpreter.decode(errors="backslashreplace"))
    also = f"; {WINDOWS}" if line.endswith(b"\r") else ""
    return f"cannot be started: {path}: its interpreter {name} does not exist{also}"


def has_windows_ends(path: str) -> bool:
    """Return whether ``path`` is a script whose first line ends with CR LF."""
    line = _first_line(path)
    return line.startswith(b"#!") and line.endswith(b"\r")


def _first_line(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_FIRST_LINE).split(b"\n", 1)[0]
    except OSError:
        return b""
