"""A host that runs one chain and ends, while a container's start waits: ``nri hook`` and ``nri-runc``.

One deadline bounds the chain, and a host that is killed leaves no plugin running (``nri.process.watchdog``).
"""

from __future__ import annotations

from nri.client.chain import ChainError, Client
from nri.client.forking import ForkingInvoker
from nri.client.invoker import Invoker
from nri.config import in_use
from nri.errors import NRIError
from nri.process import watchdog
from nri.process.spawn import prepare_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from nri.adjust import Changes
    from nri.process.deadline import Deadline
    from nri.types.v1 import Request

    class Options(Protocol):
        """The options of a short-lived host."""

        conf_dir: str
        conf_file: str
        record_dir: str
        failure_policy: str
        timeout: float

        @property
        def bin_dirs(self) -> Sequence[str]:
            """The plugin directories, absolute."""


class Host:
    """The plugins of the configuration that the options name.

    :param deadline: by then the configuration must have been read.
    :param note: writes a line about what does not make the chain fail.
    :param has_own_process: whether this process ends with the chain: it may be forked, and is watched.
    :raises ConfigError: if the configuration is not valid.
    """

    def __init__(
        self,
        options: Options,
        deadline: Deadline,
        note: Callable[[str], None],
        *,
        check_owner: bool = True,
        has_own_process: bool = True,
    ) -> None:
        deadline.doing = f"it was reading the configuration, {options.conf_dir} or {options.conf_file}"
        self._note, self._has_own_process = note, has_own_process
        used = in_use.InUse(options.conf_dir, options.conf_file, options.record_dir)
        invoker = ForkingInvoker if has_own_process else Invoker
        self.client = Client(
            in_use.wait(used, deadline.at, note, check_owner=check_owner),
            invoker(options.bin_dirs, check_owner=check_owner),
            timeout=options.timeout,
            failure_policy=options.failure_policy,
        )

    def invoke(
        self,
        request: Request,
        deadline: Deadline,
        *,
        changes: Changes | None = None,
        if_killed: Callable[[], object] | None = None,
    ) -> None:
        """Run the chain for the request's state. This changes the working directory and umask of the process.

        :param changes: as for ``nri.client.Client.invoke``.
        :param if_killed: called in another process if this one is killed before the chain ends, or because something
            blocks; no plugin runs any more then.
        :raises NRIError: if the chain fails, or cannot be run.
        """
        plugins = self.client.chain(request.state, request)
        if not plugins:
            return
        deadline.doing = f"it was running {', '.join([plugin.type for plugin in plugins])}"
        try:
            watcher = watchdog.start(then=if_killed) if self._has_own_process else None  # in the caller's directory
        except OSError as error:
            raise NRIError(f"the plugins' watchdog cannot be started: {error.strerror}") from error
        may_leave_processes = True
        try:
            prepare_process()
            steps = self.client.invoke(
                request,
                request.state,
                deadline=deadline.at,
                log=lambda plugin, line: self._note(f"{plugin}: {line}"),
                changes=changes,
            )
            may_leave_processes = any(step.error for step in steps)
        except ChainError as error:
            if deadline.left() == 0:
                raise NRIError(deadline.passed(str(error))) from error
            raise
        finally:
            if watcher is not None:
                (watcher.sweep if may_leave_processes else watcher.dismiss)()
