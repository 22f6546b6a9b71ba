"""Judges a plugin that does not answer ``TYPE version``: is it broken, or was it not built to answer?

A plugin that was built with :mod:`nri.skel` answers ``version``, so it is broken. Another plugin need not; it is
broken if the way it ends shows that it can't run at all.
"""

from __future__ import annotations

from nri.process.unstartable import NOT_RUN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.process.launch import Output

TRACEBACK = "Traceback (most recent call last):"
"""The first line that Python writes for an exception."""

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

# A program that fails because there is no request runs as it should.
_NO_REQUEST_IN_PYTHON = "json.decoder.JSONDecodeError: "  # in the last line; elsewhere it may cause another error
_NO_REQUEST = (
    "SyntaxError: Unexpected end of JSON input",  # of Node.js
    "panic: EOF",  # of Go
    "panic: unexpected end of JSON input",
)


def is_broken(output: Output, stderr: list[str]) -> bool:
    """Return whether a plugin that gave no answer can't run: a signal ended it, or its interpreter reports a fault.

    :param stderr: the lines of its stderr.
    """
    if output.status < 0 or output.status in NOT_RUN:
        return True
    lines = [line for line in stderr if line.strip()]
    if lines and (lines[-1].startswith(_NO_REQUEST_IN_PYTHON) or any(line.startswith(_NO_REQUEST) for line in lines)):
        return False
    return any(sign in line for line in lines for sign in BROKEN)
