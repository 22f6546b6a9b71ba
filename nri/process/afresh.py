"""Makes a forked process look like a newly started interpreter, runs a program in it, and ends it.

The program finds what it would find as an executable of its own: arguments, environment, standard streams, signal
handlers, name. It does not find a memory of its own: the modules and objects of its parent are still there.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # the signal module would import enum
import gc
import os
import sys
import time
from io import TextIOWrapper

from nri.interpreter_end import flush_files, run_exit_functions
from nri.process.inherit import SIGNALS
from nri.process_name import set_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType
    from typing import NoReturn

_UNFLUSHED = 120  # the interpreter's exit status when stdout or stderr cannot be flushed
_IGNORED = (_signal.SIGPIPE, _signal.SIGXFSZ)  # by the interpreter, at its start

_parent_streams: list[object] = []  # a file that is freed writes its buffer


class LoadedProgram:
    """A program that is loaded.

    :param main: runs it; may end with SystemExit.
    :param module: its ``__main__``.
    :param path: the file that would be started: its name becomes the process's, as exec(2) does.
    :param executable: the same file without links, for ``sys.executable``.
    :param argv: the arguments; the first one is the program's name.
    :param environment: the whole environment.
    """

    __slots__ = ("argv", "environment", "executable", "main", "module", "path")

    def __init__(
        self,
        main: Callable[[], object],
        module: ModuleType,
        *,
        path: str,
        executable: str,
        argv: list[str],
        environment: Mapping[str, str],
    ) -> None:
        self.main, self.module = main, module
        self.path, self.executable, self.argv, self.environment = path, executable, argv, environment

    def run(self) -> NoReturn:
        """Run the program as this process, which was forked for it, and exit as the interpreter does."""
        status = 1
        try:
            status = _ended(self._run())
        finally:
            os._exit(status & 0xFF)

    def _run(self) -> int:
        try:
            self._renew()
            gc.enable()
            gc.freeze()  # the files that the parent has open are not flushed at the end
            self.main()
        except SystemExit as exit_:
            return _status_of(exit_)
        except BaseException as error:
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next  # without this function
            sys.excepthook(*sys.exc_info())
            if isinstance(error, KeyboardInterrupt):
                _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
                os.kill(os.getpid(), _signal.SIGINT)
            return 1
        return 0

    def _renew(self) -> None:
        _renew_environment(self.environment)
        sys.argv[:] = self.argv
        sys.orig_argv[:] = self.argv
        sys.executable = self.executable
        sys.modules["__main__"] = self.module
        self.module.__name__ = "__main__"
        _parent_streams.extend([sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__])
        sys.stdin = sys.__stdin__ = _stream(0, "stdin", "r")  # type: ignore[misc]
        sys.stdout = sys.__stdout__ = _stream(1, "stdout", "w")  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = _stream(2, "stderr", "w")  # type: ignore[misc]
        sys.excepthook, sys.unraisablehook = sys.__excepthook__, sys.__unraisablehook__
        set_name(os.path.basename(self.path))
        _renew_signals()


def _renew_environment(environment: Mapping[str, str]) -> None:
    has_zone = "TZ" in os.environ
    os.environ.clear()  # with unsetenv(3), for C libraries
    os.environ.update(environment)
    if has_zone or "TZ" in environment:
        time.tzset()


def _stream(fd: int, name: str, mode: str) -> TextIOWrapper:
    """Return a standard stream as the interpreter makes it: ``create_stdio`` in Python/pylifecycle.c.

    The locale of a plugin is C.UTF-8. Python has the error handler ``surrogateescape`` there for stdin and stdout.
    """
    buffer = open(fd, mode + "b", closefd=False)  # noqa: SIM115
    buffer.raw.name = f"<{name}>"  # type: ignore[attr-defined]
    errors = "backslashreplace" if fd == 2 else "surrogateescape"
    stream = TextIOWrapper(buffer, "utf-8", errors, "\n", line_buffering=fd == 2 or buffer.isatty())
    stream.mode = mode  # type: ignore[misc]
    return stream


def _renew_signals() -> None:
    for number in SIGNALS:
        if _signal.getsignal(number) != _signal.SIG_DFL:
            _signal.signal(number, _signal.SIG_DFL)
    for number in _IGNORED:
        _signal.signal(number, _signal.SIG_IGN)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def _status_of(exit_: SystemExit) -> int:
    """Return the exit status of a SystemExit, and write a text in it to stderr, as the interpreter does."""
    if exit_.code is None:
        return 0
    if isinstance(exit_.code, int):
        return exit_.code
    try:
        sys.stderr.write(f"{exit_.code}\n")
    except (OSError, ValueError, AttributeError):
        pass
    return 1


def _ended(status: int) -> int:
    """Do what is visible of the interpreter's end; return the exit status."""
    run_exit_functions()
    for file in (sys.stdout, sys.stderr):
        try:
            if file is not None and not file.closed:
                file.flush()
        except (OSError, ValueError):
            status = _UNFLUSHED
    flush_files()
    return status
