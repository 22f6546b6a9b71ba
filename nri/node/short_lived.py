"""A host that brings one container to one wish and ends, while a runtime waits: ``nri hook`` and ``nri-runc``.

One deadline bounds the plugins, and a host that is killed leaves no plugin running (``nri.process.watchdog``).
"""

from __future__ import annotations

import os

from nri.client.chain import Client, reporting_ignored
from nri.client.forking import ForkingInvoker
from nri.config.entries import types_of
from nri.errors import NRIError, reason_of
from nri.node import in_use
from nri.node.acceptance import Acceptance
from nri.node.reconcile import reconcile
from nri.node.record import Facts, read_facts, write_facts
from nri.process import watchdog
from nri.process.spawn import prepare_process
from nri.types.v1 import Spec, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.adjust import Changes
    from nri.client import Client, Step
    from nri.config.entries import PluginEntry
    from nri.config.site import Site
    from nri.node.reconcile import Chain
    from nri.process.deadline import Deadline
    from nri.types.v1 import Request


class NoLock:
    """The lock of a process with one thread."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def facts_in(path: str, note: Callable[[str], object]) -> Facts:
    """Return the facts in a file; none if there is none, or all of it is wrong. What is wrong is noted."""
    facts, faults = read_facts(path)
    for fault in faults:
        note(f"{path}: {fault}; ignored")
    return facts or Facts()


class Known:
    """A container of a short-lived host, with the file of its facts.

    :param path: of the file.
    :param about: a request about the container; its state is replaced.
    :param facts: those in the file, as ``facts_in`` reads them.
    """

    digest = 0  # such a host does not look for a resize of which it was not told

    def __init__(self, path: str, about: Request, facts: Facts) -> None:
        self.path = path
        self._about = about
        self.spec = about.shown
        self.facts = facts

    @property
    def name(self) -> str:
        """The container's id: such a host knows no pod."""
        return self._about.id

    def request(self, state: str) -> Request:
        """Return a request about it."""
        return self._about.replace(state=State(state))

    def show(self, spec: Spec) -> None:
        """Have its requests show another spec from now on."""
        self.spec = spec
        self._about = self._about.replace(spec=spec)

    def show_pid(self, pid: int) -> None:
        """Have its requests show another pid from now on."""
        self._about = self._about.replace(pid=pid)


class Occasion:
    """One wish of a short-lived host: a host of ``nri.node.reconcile``.

    :param changes: as for ``nri.client.Client.invoke``.
    :param if_killed: called in another process if this one is killed before the chain ends, or because something
        blocks; no plugin runs any more then.
    """

    lock = NoLock()
    refuses_starts = is_configured = True

    def __init__(
        self,
        host: ShortHost,
        deadline: Deadline,
        changes: Changes | None = None,
        if_killed: Callable[[], object] | None = None,
    ) -> None:
        self._host = host
        self._deadline = deadline
        self._changes = changes
        self._if_killed = if_killed

    def client(self, _container: Known, _state: str) -> Client:
        """Return the client of the configuration in use."""
        return self._host.client

    def expects_setup(self, _request: Request) -> bool:
        """Return whether a container without a ``setup`` has missed it."""
        return self._host.sends_setup

    def dropped(self, _container: Known, _client: Client) -> list[tuple[PluginEntry, str]]:
        """Return nothing: nri-runc writes what it is asked for itself, and nri hook has no ``setup``."""
        return []

    def save(self, container: Known) -> None:
        """Write a container's facts."""
        try:
            write_facts(container.path, container.facts)
            return
        except (OSError, NRIError) as error:
            fault = error
        # The record is root's: rootless hosts remember nothing, as of the configuration in use.
        is_rootless = isinstance(fault, PermissionError) and os.geteuid() != 0
        if is_rootless or self._host.is_fault_noted:
            return
        self._host.is_fault_noted = True
        self.note(
            f"{container.path}: {reason_of(fault)}; what its plugins have done is not remembered"
        )

    def note(self, line: str) -> None:
        """Report what does not make the wish fail."""
        self._host.note(line)

    def run(self, chain: Chain, on_step: Callable[[Step], None]) -> None:
        """Run a chain. This changes the working directory and umask of the process.

        :raises ChainError: it has failed.
        :raises NRIError: it cannot be run.
        """
        deadline = self._deadline
        state = chain.request.state
        plugins = chain.client.chain(state, chain.request)
        if not plugins:
            return
        deadline.doing = f"it was running {', '.join(types_of(plugins))}"
        try:
            watcher = watchdog.start(then=self._if_killed)  # in the caller's directory
        except OSError as error:
            raise NRIError(f"the plugins' watchdog cannot be started: {error.strerror}") from error
        may_leave_processes = True
        try:
            steps = self._invoke(chain, on_step)
            may_leave_processes = any(step.error for step in steps)
        finally:
            watcher.end(sweeps=may_leave_processes)

    def _invoke(self, chain: Chain, on_step: Callable[[Step], None]) -> list[Step]:
        report = reporting_ignored(chain.request, self._say)

        def take(step: Step) -> None:
            report(step)
            on_step(step)

        prepare_process()
        return chain.client.invoke(
            chain.request,
            chain.request.state,
            deadline=self._deadline.at,
            log=self._say,
            on_step=take,
            changes=self._changes,
            previous=chain.previous,
            only=chain.only,
        )

    def _say(self, plugin: str, line: str) -> None:
        """Report a line of a plugin."""
        self._host.note(f"{plugin}: {line}")


class ShortHost:
    """The plugins of a site's configuration.

    :param site: its plugin directories are absolute.
    :param deadline: by then the configuration must have been read.
    :param note: writes a line about what does not make the wish fail.
    :param sends_setup: whether the host sends ``setup``, so that a container without one has missed it.
    :raises ConfigError: if the configuration is not valid.
    """

    def __init__(
        self,
        site: Site,
        deadline: Deadline,
        note: Callable[[str], None],
        *,
        sends_setup: bool = False,
    ) -> None:
        deadline.doing = f"it was reading the configuration, {site.conf_dir} or {site.conf_file}"
        self.note = note
        self.sends_setup = sends_setup
        self.is_fault_noted = False
        invoker = ForkingInvoker(site.bin_dirs, check_owner=site.check_owner)
        used = in_use.InUse(site, acceptance=Acceptance(invoker))
        self.client = Client(
            in_use.wait(used, deadline.at, note),
            invoker,
            timeout=site.timeout,
            failure_policy=site.failure_policy,
        )

    def reconcile(
        self,
        container: Known,
        wish: str,
        deadline: Deadline,
        *,
        changes: Changes | None = None,
        if_killed: Callable[[], object] | None = None,
    ) -> None:
        """Bring a container to a wish; parameters as for ``Occasion``.

        :raises NRIError: it is not fulfilled.
        """
        verdict = reconcile(container, wish, Occasion(self, deadline, changes, if_killed))
        error = verdict.error
        if error:
            if deadline.left() == 0:
                error = deadline.passed(error)
            raise NRIError(error)
