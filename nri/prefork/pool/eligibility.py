"""Judges a plugin that does not answer the question ``TYPE version``: is it broken, or older than the question?

A plugin that was built with :mod:`nri.skel` knows the question, so it is broken. Another one need not know it; it is
broken if its end shows that it can't run at all.
"""

from __future__ import annotations

from nri.process.unstartable import NOT_RUN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.process.launch import Output

MARKS = (b"nri.skel", b"nri import skel")
"""Text in the file of a plugin that was built with :mod:`nri.skel`."""

MAX_FILE = 64 * 1024 * 1024
"""Bytes of a file that are looked through."""

TRACEBACK = "Traceback (most recent call last):"
"""The first line of what Python says of an exception."""

BROKEN = (
    TRACEBACK,
    "SyntaxError: ",  # of Python, which shows no traceback for the program itself
    "IndentationError: ",
    "TabError: ",
    "Syntax error: ",  # of dash
    "syntax error near ",  # of bash
    "syntax error: ",
    "Failed to execute script ",  # of PyInstaller
    "error while loading shared libraries: ",  # of the dynamic loader
    "symbol lookup error: ",
    "compilation aborted at ",  # of Perl
    "aborted due to compilation errors",
    "(node:internal/",  # of Node.js, in each of its stack traces
    "goroutine 1 [running]:",  # of Go
)
"""Text that interpreters, loaders and runtimes of languages write to stderr when a program can't run."""

# A program that wants a request, where there is none, runs as it should.
_ASKS_IN_PYTHON = "json.decoder.JSONDecodeError: "  # at the end: it may also be the cause of another error
_ASKS = (
    "SyntaxError: Unexpected end of JSON input",  # of Node.js
    "panic: EOF",  # of Go
    "panic: unexpected end of JSON input",
)


def is_built_with_skel(path: str) -> bool:
    """Return whether the file says that the plugin was built with :mod:`nri.skel`.

    :raises OSError: when it can't be read.
    """
    with open(path, "rb") as file:
        content = file.read(MAX_FILE)
    return any(mark in content for mark in MARKS)


def is_broken(output: Output, stderr: list[str]) -> bool:
    """Return whether a plugin that gave no answer can't run: a signal ended it, or an interpreter gave it up.

    :param stderr: the lines of its stderr.
    """
    if output.status < 0 or output.status in NOT_RUN:
        return True
    said = [line for line in stderr if line.strip()]
    if said and (said[-1].startswith(_ASKS_IN_PYTHON) or any(line.startswith(_ASKS) for line in said)):
        return False
    return any(sign in line for line in said for sign in BROKEN)
