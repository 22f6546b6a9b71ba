"""The chains of the bridge, each run once: for an event, or late for what started while no bridge was connected.

An event's ``create`` is put on record when it has ended without an error, its ``delete`` takes it off. A
synchronization shows what lives without being on record (:mod:`nri.v1bridge.missed`); late creates serve it
(:mod:`nri.v1bridge.late`).
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from nri.client.chain import STOPPED
from nri.errors import escape
from nri.process.conversation import Stop
from nri.types.v1 import State
from nri.v1bridge import missed
from nri.v1bridge.chains import Chains
from nri.v1bridge.late import LateCreates
from nri.v1bridge.record import Record
from nri.v2.ttrpc import Code, StatusError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nri.adjust import Changes
    from nri.process.subreaper import Subreaper
    from nri.types.v1 import Request
    from nri.v1bridge.clients import Clients
    from nri.v1bridge.ledger import Ledger
    from nri.v1bridge.missed import Missed
    from nri.v2 import api
    from nri.v2.ttrpc import Call

MARGIN = 0.1
"""Seconds between the chain's deadline and the request's: to kill a plugin, and to send the response."""

REFUSABLE = (State.SETUP, State.CREATE, State.RESIZE)
"""States whose events an error refuses: if the runtime abandons one, nothing comes of it, and its chain ends.

A container's ``update`` comes when its new limits are in force, and its ``delete`` gives back what ``create`` has
taken: both go on.
"""

log = logging.getLogger("nri.v1bridge")


class Served:
    """Runs the chains of events, and those that were missed. All methods may be called from any thread."""

    def __init__(self, clients: Clients, ledger: Ledger, subreaper: Subreaper | None) -> None:
        self._clients = clients
        self._chains = Chains(clients, ledger, subreaper)
        self._record = Record()
        self._late = LateCreates(self._run_late, self._record, clients.end_late)
        self._unproven: dict[str, list[Missed]] = {}
        self._is_ending = False
        self._runtime_runs_pods = False

    def configure(self, *, runtime_runs_pods: bool) -> None:
        """Prepare for a connection with the options of ``clients``.

        :param runtime_runs_pods: the runtime is a containerd 2.x, which runs some plugins for sandboxes itself.
        """
        self._runtime_runs_pods = runtime_runs_pods
        self._record.load(self._clients.options.record_file)

    def synchronize(self, pods: Sequence[api.PodSandbox], containers: Sequence[api.Container]) -> None:
        """Forget what does not exist any more, and queue what was missed; :meth:`start` begins with that."""
        self._record.keep({each.id for each in pods} | {each.id for each in containers})
        self._late.drop()
        self._unproven = {}
        found = missed.find(pods, containers, self._record)
        if self._is_ending:
            return
        what = f"late: {found.counted()} started while no bridge was connected"
        means = "running create for them"
        level = logging.WARNING
        if not self._clients.options.late_create:
            means = 'no plugin runs for them ("lateCreate": false)'
        elif not self._clients.configuration.is_known:
            means = "no plugin runs for them without a valid configuration; the next synchronization finds them again"
            level = logging.ERROR
        elif not self._clients.current().config.plugins:
            means = "no plugin is configured for them"
            level = logging.INFO
            for each in [each for pod in found.missed for each in pod]:
                self._record.add(each.request.id)
        else:
            self._unproven = found.unproven
            self._late.put(found.missed)
        if found.missed:
            log.log(level, "%s; %s", what, means)

    def start(self) -> None:
        """Begin with the late creates that are queued."""
        self._late.start()

    def stop(self, *, for_good: bool = False) -> None:
        """Drop the late creates that have not begun.

        :param for_good: the bridge ends.
        """
        self._is_ending = self._is_ending or for_good
        self._unproven = {}
        self._late.drop()

    def prove(self, sandbox: str, call: Call) -> None:
        """Note that a sandbox is ready; if it was missed, it is served after the call."""
        if self._unproven and (found := self._unproven.pop(sandbox, None)):
            self._late.put([found])
            call.afterwards.append(self._late.start)

    def wait_until_idle(self, timeout: float) -> bool:
        """Wait as :meth:`nri.v1bridge.chains.Chains.wait_until_idle`, and for what follows a late create."""
        until = time.monotonic() + timeout
        is_idle = self._late.wait_until_idle(timeout)
        return self._chains.wait_until_idle(max(0.0, until - time.monotonic())) and is_idle

    def late_counts(self) -> dict[str, int]:
        """Return what the status says of the late creates."""
        return self._late.counts()

    def close(self) -> None:
        """Close the file of the record."""
        self._record.close()

    def run(self, request: Request, name: str, call: Call, changes: Changes | None = None) -> None:
        """Run the chain for an event, within the time of its call.

        :param changes: takes what the results ask for.
        :raises StatusError: a plugin has failed.
        """
        call.afterwards.append(self._tidy)
        if call.is_abandoned and request.state in REFUSABLE:
            log.warning("%s: nri v0.1: %s: not started: %s", escape(name), request.state, STOPPED)
            raise StatusError(Code.ABORTED, f"nri v0.1: {request.state}: not started: {STOPPED}")
        deadline = None if call.deadline is None else call.deadline - MARGIN
        if request.state == State.CREATE:
            self._create(request, name, deadline, call)
        elif request.state == State.DELETE:
            self._wait_for_late(request, name, call, lambda: self._delete_after_create(request, name))
            try:
                self._chain(request, name, deadline, changes, event=call.event)
            finally:
                self._record.discard(request.id)
        elif request.state in REFUSABLE:
            self._until_abandoned(request, name, deadline, call, changes)
        else:
            self._chain(request, name, deadline, changes, event=call.event)

    def _create(self, request: Request, name: str, deadline: float | None, call: Call) -> None:
        self._late.begin(request.id)
        try:
            self._until_abandoned(request, name, deadline, call)
            if self._clients.configuration.is_known:
                self._record.add(request.id)
        finally:
            self._late.end(request.id)

    def _until_abandoned(
        self, request: Request, name: str, deadline: float | None, call: Call, changes: Changes | None = None
    ) -> None:
        """Run a chain that ends at once when the runtime does not wait for it any more."""
        stop = Stop()
        call.on_abandoned = stop.set
        if call.is_abandoned:
            stop.set()
        try:
            self._chain(request, name, deadline, changes, event=call.event, stop=stop)
        finally:
            stop.close()

    def _wait_for_late(self, request: Request, name: str, call: Call, delete: Callable[[], object]) -> None:
        """Withdraw the late ``create``, or wait for it for half of the call's time: the chain needs the rest.

        :raises StatusError: it is still running, and *delete* will be called after it.
        """
        remaining = call.remaining()
        until = None if remaining is None else time.monotonic() + remaining / 2
        self._unproven.pop(request.id, None)
        if not self._late.withdraw(request.id, until, delete):
            message = "nri v0.1: the late create is still running; delete runs after it"
            log.warning("%s: %s", escape(name), message)
            raise StatusError(Code.ABORTED, message)

    def _delete_after_create(self, request: Request, name: str) -> None:
        """Run a ``delete`` whose event has been answered."""
        try:
            self._chain(request, name, None)
        except StatusError:
            pass  # the log has it
        finally:
            self._record.discard(request.id)
            self._tidy()

    def _run_late(self, each: Missed) -> None:
        try:
            self._chain(each.request, each.name, None, is_late=True)
        finally:
            self._tidy()

    def _chain(
        self,
        request: Request,
        name: str,
        deadline: float | None,
        changes: Changes | None = None,
        *,
        event: str = "",
        stop: Stop | None = None,
        is_late: bool = False,
    ) -> None:
        without = self._runtime_runs_pods and request.is_sandbox
        client = self._clients.current(without_containerds=without, is_late=is_late)
        self._chains.run(client, request, name, deadline, event=event, changes=changes, stop=stop)

    def _tidy(self) -> None:
        """Do what no event waits for."""
        self._chains.tidy()
        self._record.tidy()
