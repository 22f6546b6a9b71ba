"""Runs the chains of the host configuration for one command.

The process becomes the real runtime afterwards, or starts it, so everything that plugins need otherwise (directory,
umask, limits) is put back. One deadline bounds a chain, and one that is killed leaves no plugin running.
"""

from __future__ import annotations

import os

from nri import config
from nri.client import ChainError, Client
from nri.client.forking import ForkingInvoker
from nri.errors import NRIError
from nri.process import watchdog
from nri.process.deadline import Deadline
from nri.process.spawn import prepare_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.adjust import Changes
    from nri.runtime.options import WrapperOptions
    from nri.runtime.report import Report
    from nri.types.v1 import Request

ENDING = (1, 2, 15)  # SIGHUP, SIGINT, SIGTERM


class HostChains:
    """The chains of the host configuration that the options name.

    :param on_late: called with the reason before the process ends because it takes too long to read it; by default
        the reason is reported.
    :raises ConfigError: if it is not valid.
    """

    def __init__(self, options: WrapperOptions, report: Report, on_late: Callable[[str], None] | None = None) -> None:
        self._options, self._report = options, report
        deadline = Deadline(options.deadline)
        deadline.doing = f"it was reading the configuration, {options.conf_dir} or {options.conf_file}"
        deadline.enforce(on_late or report.error)
        self._client = Client(
            config.load(options.conf_dir, options.conf_file),
            ForkingInvoker(options.bin_dirs),
            timeout=options.timeout,
            failure_policy=options.failure_policy,
        )
        deadline.release()

    def wants(self, *states: str, asked: Request | None = None) -> bool:
        """Return whether a plugin runs for one of these states.

        :param asked: a request about the container, for the conditions of the plugins; without it, whether one may.
        """
        return any(self._client.chain(state, asked) for state in states)

    def run(
        self,
        request: Request,
        *,
        changes: Changes | None = None,
        on_late: Callable[[str], None] | None = None,
        if_killed: Callable[[], object] | None = None,
    ) -> None:
        """Run the chain for the request's state.

        :param changes: as for :meth:`nri.client.Client.invoke`.
        :param on_late: called with the reason before the process ends because the time is over; by default the reason
            is reported.
        :param if_killed: called in another process if this one ends before the chain does, by a signal or because
            something blocks; no plugin runs any more then.
        :raises NRIError: if the chain fails, or cannot be run.
        """
        plugins = self._client.chain(request.state, request)
        if not plugins:
            return
        deadline = Deadline(self._options.deadline)
        deadline.doing = f"it was running {', '.join([plugin.type for plugin in plugins])}"
        handlers = _handle_ending(self._report.error)
        deadline.enforce(on_late or self._report.error)
        try:
            with Surroundings():
                self._run(request, changes, deadline, if_killed)
        except ChainError as error:
            if deadline.left() == 0:
                raise NRIError(deadline.passed(str(error))) from error
            raise
        except OSError as error:
            raise NRIError(f"the plugins cannot be run: {error.strerror}") from error
        finally:
            deadline.release()
            _restore(handlers)

    def _run(
        self,
        request: Request,
        changes: Changes | None,
        deadline: Deadline,
        if_killed: Callable[[], object] | None,
    ) -> None:
        watcher = watchdog.start(then=if_killed)  # in the caller's directory
        prepare_process()
        may_leave_processes = True
        try:
            steps = self._client.invoke(
                request,
                request.state,
                deadline=deadline.at,
                log=lambda plugin, line: self._report.note(f"{plugin}: {line}"),
                changes=changes,
            )
            may_leave_processes = any(step.error for step in steps)
        finally:
            (watcher.sweep if may_leave_processes else watcher.dismiss)()


class Surroundings:
    """Puts back what :func:`prepare_process` changes, and the real runtime inherits."""

    def __enter__(self) -> None:
        import resource

        self._directory = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._umask = os.umask(0o022)
        self._core = resource.getrlimit(resource.RLIMIT_CORE)

    def __exit__(self, *_: object) -> None:
        import resource

        os.fchdir(self._directory)
        os.close(self._directory)
        os.umask(self._umask)
        resource.setrlimit(resource.RLIMIT_CORE, self._core)


def _handle_ending(end: Callable[[str], None]) -> dict[int, object]:
    """Have the signals that end this process report it first; the watchdog then kills the plugins."""
    import _signal  # type: ignore[import-not-found] # the signal module would import enum

    def handle(number: int, _frame: object) -> None:
        _signal.signal(number, _signal.SIG_DFL)
        end(f"ended by signal {number}")
        os.kill(os.getpid(), number)

    before = {number: _signal.getsignal(number) for number in ENDING}
    for number, handler in before.items():
        if handler != _signal.SIG_IGN:
            _signal.signal(number, handle)
    return before


def _restore(handlers: dict[int, object]) -> None:
    import _signal

    for number, handler in handlers.items():
        _signal.signal(number, handler)
