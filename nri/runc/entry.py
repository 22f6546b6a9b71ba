"""Where a call of the runtime begins: it is handed over at once, or goes to the module of its command.

Every command of an engine passes here, most of them for nothing, so this imports next to nothing, and neither do the
modules that it imports. The options are read only if their file exists.
"""

from __future__ import annotations

import os
import sys

from nri.errors import NRIError
from nri.places import DEFAULT_RECORD_DIR, RUNTIME_OPTIONS_FILE
from nri.runc.commandline import REFUSED_IF_BROKEN, RUNS_CHAIN, CommandLine
from nri.runc.made import Made
from nri.runc.real import Real, find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from nri.runc.options import WrapperOptions

PREFIX = "nri-"
"""The beginning of the names that this program may be called by; the rest is the real runtime's name."""


class Unread:
    """The options of a command that runs no plugin, where there is no file of options: reading them takes time."""

    runtime = ""
    record_dir = DEFAULT_RECORD_DIR
    fault = ""


def main(argv: Sequence[str], options_file: str = RUNTIME_OPTIONS_FILE) -> int:
    """Do what a command line says; return the exit status, negative for a signal. It may not return (exec).

    :param argv: the words with the program's name; ``nri-runc`` is for runc, and so on.
    """
    name = os.path.basename(argv[0])
    wanted = name.removeprefix(PREFIX)
    line = CommandLine(argv[1:])
    runs_chain = line.command in RUNS_CHAIN and not line.asks_for_help
    try:
        options: WrapperOptions | Unread = Unread()
        if runs_chain or os.path.lexists(options_file):
            options = _load(options_file)
        real = Real(find(options.runtime or wanted, argv[0]))
        if _is_start(line):
            made = Made(options.record_dir, real.root(line), line.arguments[0])
            runs_chain = not made.is_finished
        if not runs_chain and not options.fault:
            real.execute(line.words)
        if isinstance(options, Unread):
            options = _load(options_file)
    except NRIError as error:
        from nri.runc.report import Report

        Report(name, line, sys.stderr, is_crun="crun" in name).error(str(error))
        return 1
    return _run(name, line, real, options, runs_chain=runs_chain)


def _is_start(line: CommandLine) -> bool:
    """Return whether a command line starts a container: its plugins may not have run, or not all."""
    return line.command == "start" and bool(line.arguments) and not line.asks_for_help


def _load(options_file: str) -> WrapperOptions:
    from nri.runc.options import load  # a command without plugins needs none

    return load(options_file)


def _run(
    name: str, line: CommandLine, real: Real, options: WrapperOptions, *, runs_chain: bool
) -> int:
    from nri.runc.report import Report

    report = Report(name, line, sys.stderr, is_crun=real.is_crun, log_file=options.log_file)
    try:
        if options.fault:
            if runs_chain and line.command in REFUSED_IF_BROKEN:
                report.error(options.fault)
                return 1
            report.note(options.fault)
            real.execute(line.words)
        if options.note:
            report.note(options.note)
        from nri.process.deadline import end_by_sigint
        from nri.runc import commands
        from nri.runc.invocation import EndedError, Invocation

        end_by_sigint()
        # freeze: pause and resume
        run: Callable[[Invocation], int] = getattr(commands, line.command, commands.freeze)
        try:
            return run(Invocation(line, real, options, report))
        except EndedError as ended:
            return -ended.number
    except (NRIError, OSError) as error:
        report.error(*str(error).split("\n"))
        return 1


def end(status: int) -> NoReturn:
    """End this process as ``main`` says: with an exit status, or by the signal that ended the real runtime."""
    if status < 0:
        import _signal  # type: ignore[import-not-found] # the signal module would import enum
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if -status not in (9, 19):  # SIGKILL and SIGSTOP have no handlers
            _signal.signal(-status, _signal.SIG_DFL)
            _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [-status])
        os.kill(os.getpid(), -status)
    # All output is written; the interpreter's shutdown would take some more milliseconds.
    os._exit(status)
