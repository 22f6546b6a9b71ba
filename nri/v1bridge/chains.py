"""The chains of the bridge, each run once: for an event, or late for what started while no bridge was connected.

A chain runs with the configuration and the options as they are when it begins. Events ask residents; late creates
start a process for each request, so that the residents are free for events.

An event's ``create`` is put on record when it has ended without an error, its ``delete`` takes it off. A
synchronization shows the containers that live without being on record: they get a late create
(:mod:`nri.v1bridge.late`).
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from nri.client import ChainError, Client, Invoker
from nri.client.chain import STOPPED
from nri.client.resident import Residents
from nri.config.entries import ConfigList
from nri.errors import bounded, escape
from nri.places import CONTAINERD_CONF_FILE
from nri.process import children
from nri.process.conversation import Stop
from nri.types.v1 import State
from nri.v1bridge.configuration import Configuration
from nri.v1bridge.late import LateCreates, Missed, find_missed
from nri.v1bridge.log import EventLog
from nri.v1bridge.record import Record
from nri.v2.ttrpc import Code, StatusError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nri.adjust import Changes
    from nri.client import Invoker, Step
    from nri.config.entries import PluginEntry
    from nri.process.subreaper import Subreaper
    from nri.types.v1 import Request
    from nri.v1bridge.late import Found
    from nri.v1bridge.ledger import Ledger
    from nri.v1bridge.log import EventLines
    from nri.v1bridge.options import BridgeOptions
    from nri.v2 import api
    from nri.v2.ttrpc import Call

MARGIN = 0.1
"""Seconds between the chain's deadline and the request's: to kill a plugin, and to send the response."""

MAX_ERROR = 4096
"""Bytes of an error, in one line, that the runtime shows to the pod's owner; a plugin may write a megabyte."""

MAX_WAITING = 64
"""Chains that wait to be logged and counted; a runtime has fewer events at a time."""

AGAIN_AFTER = 1.0
"""Seconds between two looks for a first valid configuration."""

ALONE_WITHIN = 8.0
"""Seconds that a bridge which was launched before this one has to end: it finishes its late creates."""

REFUSABLE = (State.SETUP, State.CREATE, State.RESIZE)
"""States whose events an error refuses: if the runtime abandons one, nothing comes of it, and its chain ends.

A container's ``update`` comes when its new limits are in force, and its ``delete`` gives back what ``create`` has
taken: both go on.
"""

MISSED_SETUP = "its setup was missed: the container was created without it"

log = logging.getLogger("nri.v1bridge")


class Chains:
    """Runs the chains of events, and those that were missed. All methods may be called from any thread.

    The parameters are those of :class:`nri.v1bridge.bridge.Bridge`.

    :param ledger: counts what has run.
    """

    def __init__(
        self,
        options: BridgeOptions,
        ledger: Ledger,
        subreaper: Subreaper | None,
        invoker: Invoker | None,
        is_alone: Callable[[float], bool],
    ) -> None:
        self.options = options
        self.configuration = Configuration(options.conf_dir, options.conf_file)
        self._given, self._ledger, self._subreaper, self._is_alone = invoker, ledger, subreaper, is_alone
        self.residents = Residents(options.bin_dirs, check_owner=options.check_owner)
        self._made: tuple[ConfigList, BridgeOptions, list[PluginEntry]] | None = None
        self._log = EventLog()
        self._ran: deque[tuple[EventLines, str, float, str]] = deque()  # that are to be logged and counted
        self._busy = 0  # chains that run
        self._lock = threading.Lock()  # protects _busy
        self._idle = threading.Condition(self._lock)
        self._tidying = threading.Lock()
        self._record = Record()
        self._late = LateCreates(self._run_late, self._record)
        self._comparison: Found | None = None  # by the synchronization, before the late creates begin
        self._unproven: dict[str, list[Missed]] = {}
        self._is_ending = self._is_awaiting = False  # a valid configuration, for what has started without one
        self._runtime_runs_pods, self._refuses_starts = False, True
        self._in_progress: tuple[str, Call] | None = None  # the name of the pod or container, and the event

    def use(self, options: BridgeOptions) -> None:
        """Replace the options."""
        before = self.options
        # With the same paths the last valid configuration stays: a runtime configures the bridge after each restart.
        if (options.conf_dir, options.conf_file) != (before.conf_dir, before.conf_file):
            self.configuration = Configuration(options.conf_dir, options.conf_file)
        if (options.bin_dirs, options.check_owner) != (before.bin_dirs, before.check_owner):
            self.residents.close()
            self.residents = Residents(options.bin_dirs, check_owner=options.check_owner)
        self.options = options

    def configure(self, *, runtime_runs_pods: bool, refuses_starts: bool, within: float) -> None:
        """Prepare for a connection with the options.

        :param runtime_runs_pods: the runtime is a containerd 2.x, which runs some plugins for sandboxes itself.
        :param refuses_starts: an error keeps the runtime from starting a container; CRI-O only logs it.
        :param within: seconds that the residents have to be ready.
        """
        self._runtime_runs_pods, self._refuses_starts = runtime_runs_pods, refuses_starts
        self._record.load(self.options.record_dir)
        self.client()
        self.residents.prepare(within)

    def client(self, *, without_containerds: bool = False, is_late: bool = False) -> Client:
        """Return a client for the configuration that the files hold now.

        :param without_containerds: leave out the plugins that containerd 2.x runs itself for pod sandboxes.
        :param is_late: for a late create.
        """
        started = time.monotonic()
        options, made = self.options, self._made
        configuration = self.configuration.current(check_owner=options.check_owner)
        is_same = made is not None and made[0] is configuration
        if log.isEnabledFor(logging.DEBUG):
            change = "unchanged" if is_same else "read"
            log.debug("configuration %s (%.1f ms)", change, (time.monotonic() - started) * 1000)
        if made is None or not is_same or made[1] is not options:
            made = self._made = configuration, options, self._keep_residents(configuration, options)
        invoker = self._given or self.residents
        if self._given is None and (is_late or not options.resident):
            invoker = Invoker(options.bin_dirs, check_owner=options.check_owner)
        if without_containerds:
            configuration = ConfigList(version=configuration.version, plugins=made[2])
        return Client(configuration, invoker, timeout=options.plugin_timeout, failure_policy=options.failure_policy)

    def _keep_residents(self, configuration: ConfigList, options: BridgeOptions) -> list[PluginEntry]:
        """Have residents for the plugins of a new configuration; return those that containerd does not run itself."""
        has_residents = options.resident and self._given is None
        self.residents.keep(
            [(plugin.type, plugin.resident is not False) for plugin in configuration.plugins if has_residents]
        )
        return [plugin for plugin in configuration.plugins if plugin.source != CONTAINERD_CONF_FILE]

    def synchronize(self, pods: Sequence[api.PodSandbox], containers: Sequence[api.Container]) -> None:
        """Forget what does not exist any more, and queue what was missed; :meth:`start` begins with that."""
        existing = {subject.id for subject in pods} | {subject.id for subject in containers}
        self._record.keep(existing)
        self._late.drop()
        comparison = find_missed(pods, containers, self._record)
        if not self._is_ending:
            self._comparison, self._unproven = comparison, comparison.unproven
            self._late.put(comparison.missed)

    def start(self) -> None:
        """Begin with the queued late creates, once no file is being edited and no other bridge is at work."""
        if self._comparison is not None:
            self._late.start(functools.partial(self._begin, self._comparison))

    def _begin(self, comparison: Found) -> None:
        time.sleep(self.configuration.settles_in())
        self._is_alone(ALONE_WITHIN)
        if self._comparison is comparison:  # the connection has not ended
            self._comparison = None
            missed = sum(map(len, comparison.missed))
            self._begin_waiting(f"{missed} pods and containers" if missed else "")

    def _begin_waiting(self, who: str) -> None:
        """Begin with the late creates that wait, if the plugins are to run for them.

        :param who: those that wait, for the log; "" for none.
        """
        means, level, is_known = "running create for them", logging.WARNING, True
        client = self.client()
        has_plugins = client.config.plugins
        if not self.options.late_create:
            means = 'no plugin runs for them ("lateCreate": false)'
            self._unproven = {}
            note = functools.partial(self._runs_without, why='it started without the bridge ("lateCreate": false)')
            self._late.take(note if has_plugins or not self.configuration.is_known else lambda _: None)
        elif not self.configuration.is_known:
            means, level = "no plugin runs for them before there is a valid configuration", logging.ERROR
            is_known = False
        elif not has_plugins:
            means, level = "no plugin is configured for them", logging.INFO
            self._unproven = {}
            self._late.take(lambda missed: self._record.add(missed.request.id))
        else:

            def note_setup(missed: Missed) -> None:
                self._note_missed_setup(missed.request, missed.name, self._missed_setup(missed.request, client))

            self._late.note(note_setup)
        if who:
            log.log(level, "late: %s have had no create; %s", who, means)
        if is_known:
            self._late.work()
        else:
            self._await_configuration()

    def _await_configuration(self) -> None:
        """List what runs without a valid configuration, and run its late creates as soon as there is one."""
        why = "there was no valid configuration when it started"
        self._late.note(functools.partial(self._runs_without, why=why))
        with self._lock:
            is_begun, self._is_awaiting = self._is_awaiting, True
        if is_begun:
            return
        while not self.configuration.is_known and not self._is_ending:
            time.sleep(AGAIN_AFTER)
            self.client()
        self._is_awaiting = False
        if not self._is_ending:
            is_waited_for = self._late.counts()["waiting"]
            self._begin_waiting("those that started without a valid configuration" if is_waited_for else "")

    def _runs_without(self, missed: Missed, why: str) -> None:
        self._record.runs_without(missed.name, missed.request, why)

    def _note_missed_setup(self, request: Request, name: str, plugins: Sequence[PluginEntry]) -> None:
        for plugin in plugins:
            self._record.runs_without(name, request.replace(state=State.SETUP), MISSED_SETUP, plugin.type)

    def _missed_setup(self, request: Request, client: Client) -> Sequence[PluginEntry]:
        """Return the plugins of ``setup`` that a container was created without; it can't be done late."""
        if request.is_sandbox or not client.chain(State.SETUP):
            return []
        done = self._record.setups(request.id)
        return [plugin for plugin in client.chain(State.SETUP, request) if plugin.type not in done]

    def _refuse_without_setup(self, request: Request, name: str, client: Client) -> None:
        """Refuse to start a container that a plugin's ``setup`` has missed, unless its failures are ignored.

        :raises StatusError: with the plugins.
        """
        plugins = self._missed_setup(request, client)
        policy = self.options.failure_policy
        if needed := [plugin.type for plugin in plugins if (plugin.failure_policy or policy) == "fail"]:
            text = f"nri v0.1: create: plugin {', '.join(needed)}: {MISSED_SETUP}; create the container again"
            log.error("%s: %s", escape(name), text)
            if self._refuses_starts:
                raise StatusError(Code.ABORTED, text)
        self._note_missed_setup(request, name, plugins)

    def stop(self, *, for_good: bool = False) -> None:
        """Drop the late creates that have not begun.

        :param for_good: the bridge ends.
        """
        self._is_ending = self._is_ending or for_good
        self._comparison, self._unproven = None, {}
        self._late.drop()

    def prove(self, sandbox: str, call: Call) -> None:
        """Note that a sandbox is ready; if it was missed, its ``create`` comes after the call."""
        if self._unproven and (pod := self._unproven.pop(sandbox, None)):
            self._late.put([pod])
            if self._comparison is None and self.configuration.is_known:  # else they begin with the others
                call.afterwards.append(self._late.start)

    def wait_until_idle(self, timeout: float) -> bool:
        """Wait until no chain is running and the log has all faults of the configuration, at most *timeout* seconds.

        Return whether no chain is running, nor what follows a late create.
        """
        until = time.monotonic() + timeout
        is_idle = self._late.wait_until_idle(timeout)
        with self._lock:
            is_idle = self._idle.wait_for(lambda: self._busy == 0, max(0.0, until - time.monotonic())) and is_idle
        self.note_runs()
        self._log.report(is_last=True)
        self.configuration.explain()
        return is_idle

    def describe(self) -> dict[str, Any]:
        """Return what the status says of the late creates, the record and the event in progress: docs/status.md."""
        return {"lateCreates": self._late.counts(), **self._record.describe(), "inProgress": self._event_now()}

    def retry_record(self) -> None:
        """Write the record again if it could not be written."""
        self._record.retry()

    def close(self) -> None:
        """End the residents."""
        self.residents.close()

    def run(self, request: Request, name: str, call: Call, changes: Changes | None = None) -> None:
        """Run the chain for an event, within the time of its call.

        :param changes: takes what the results ask for.
        :raises StatusError: a plugin has failed.
        """
        call.afterwards.append(self._tidy)
        self._in_progress, was_late = (name, call), call.is_late
        try:
            self._run(request, name, call, changes)
        except Exception as error:
            if request.state == State.CREATE and not request.is_sandbox and not self._refuses_starts:
                self._note_not_run(request, name, "the runtime starts it all the same", error)
                if was_late and self.options.late_create:
                    self._late.put([[Missed(request.replace(late=True), name)]])
                    call.afterwards.append(self._late.start)
            raise
        finally:
            self._in_progress = None

    def _event_now(self) -> dict[str, Any] | None:
        if (now := self._in_progress) is None:
            return None
        name, call = now
        seconds = time.monotonic() - call.received
        allowed = None if call.deadline is None else round(call.deadline - call.received, 3)
        return {"event": call.event, "name": escape(name), "seconds": round(seconds, 3), "allowed": allowed}

    def _run(self, request: Request, name: str, call: Call, changes: Changes | None) -> None:
        if (call.is_abandoned or call.is_late) and request.state in REFUSABLE:
            log.warning("%s: nri v0.1: %s: not started: %s", escape(name), request.state, STOPPED)
            raise StatusError(Code.ABORTED, f"nri v0.1: {request.state}: not started: {STOPPED}")
        deadline = None if call.deadline is None else call.deadline - MARGIN
        if deadline is not None and call.is_late:  # as much time as it would have had: other events wait
            deadline += time.monotonic() - call.received
        if request.state == State.CREATE:
            self._create(request, name, deadline, call)
        elif request.state == State.DELETE:
            self._wait_for_late(request, name, call, lambda: self._delete_after_create(request, name))
            try:
                self._chain(request, name, deadline, changes, call=call)
            finally:
                self._record.discard(request.id)
        elif request.state in REFUSABLE:
            # What they do now may change whether a condition holds at the start: who was judged has not missed it.
            judged = [plugin.type for plugin in self.client().chain(State.SETUP)]
            steps = self._until_abandoned(request, name, deadline, call, changes)
            if request.state == State.SETUP and judged:
                self._record.add_setup(request.id, [*{*judged, *[step.plugin.type for step in steps]}])
        else:
            self._chain(request, name, deadline, changes, call=call)

    def _create(self, request: Request, name: str, deadline: float | None, call: Call) -> None:
        self._late.begin(request.id)
        if not self.configuration.is_known:
            self.client()  # looks for it
        is_known = self.configuration.is_known
        try:
            steps = self._until_abandoned(request, name, deadline, call)
            if is_known or steps:
                self._record.add(request.id)
            else:
                self._late.put([[Missed(request.replace(late=True), name)]])
                self._late.start(self._await_configuration)
        finally:
            self._late.end(request.id)

    def _until_abandoned(
        self, request: Request, name: str, deadline: float | None, call: Call, changes: Changes | None = None
    ) -> Sequence[Step]:
        """Run a chain that ends at once when the runtime does not wait for it any more; return its steps."""
        stop = Stop()
        call.on_abandoned = stop.set
        if call.is_abandoned:
            stop.set()
        return self._chain(request, name, deadline, changes, call=call, stop=stop)

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

    def _run_late(self, missed: Missed) -> None:
        try:
            self._chain(missed.request, missed.name, None)
            self._record.has_run(missed.request, ())
        except Exception as error:
            self._note_not_run(missed.request, missed.name, "the late create has failed", error)
            raise
        finally:
            self._tidy()

    def _note_not_run(self, request: Request, name: str, how: str, error: Exception) -> None:
        """Note that something runs without its plugins, unless those that have failed are noted."""
        reason = error.message if isinstance(error, StatusError) else f"{type(error).__name__}: {error}"
        self._record.runs_without(name, request, f"{how}: {reason}")

    def _chain(
        self,
        request: Request,
        name: str,
        deadline: float | None,
        changes: Changes | None = None,
        *,
        call: Call | None = None,
        stop: Stop | None = None,
    ) -> Sequence[Step]:
        """Run the chain for a request, and log it; return its steps.

        :param name: ``NAMESPACE/POD[/CONTAINER]``, for the log.
        :param deadline: a time of :func:`time.monotonic`; None if only the timeouts of the plugins apply.
        :param call: the runtime's event; None for a late create, and for what runs after one.
        :raises StatusError: a plugin has failed; its text is fit for the runtime.
        """
        # containerd 2.x sends its own plugins these two states alone.
        is_containerds = request.state in (State.CREATE, State.DELETE)
        without = self._runtime_runs_pods and request.is_sandbox and is_containerds
        client = self.client(without_containerds=without, is_late=request.late)
        if request.state == State.CREATE and not request.late:
            self._refuse_without_setup(request, name, client)
        started = time.monotonic()
        lines = self._log.begin(request, name, client, deadline and deadline - started)
        message = ""
        with self._lock:
            self._busy += 1
        try:
            client.invoke(
                request,
                request.state,
                deadline=deadline,
                log=lines.says,
                on_step=lines.step,
                changes=changes,
                stop=stop,
            )
        except ChainError as error:
            message = bounded(escape(f"nri v0.1: {error}"), MAX_ERROR)
            raise StatusError(Code.ABORTED, message) from None
        except BaseException as error:
            message = escape(f"{type(error).__name__}: {error}")
            raise
        finally:
            seconds = time.monotonic() - started
            self._note_without(lines, message)
            self._ran.append((lines, call.event if call else "", seconds, message))
            has_failed = message or any(step.error is not None for step in lines.steps)
            if has_failed or len(self._ran) > MAX_WAITING:
                self.note_runs()
            with self._lock:
                self._busy -= 1
                self._idle.notify_all()
        return lines.steps

    def note_runs(self) -> None:
        """Log and count the chains that have ended: when no event has arrived for a moment, or a status is asked for.

        One in which a plugin has failed is noted before its answer, after those that have ended earlier.
        """
        while self._ran:
            with contextlib.suppress(IndexError):  # another thread has taken it
                lines, event, seconds, error = self._ran.popleft()
                lines.end(seconds, error)
                self._ledger.ran(lines, event, seconds, error)

    def _note_without(self, lines: EventLines, error: str) -> None:
        """Note that a pod or container runs without a plugin that has failed, or that it has run by now."""
        request = lines.request
        if not lines.steps or request.state not in REFUSABLE:
            return
        self._record.has_run(request, [step.plugin.type for step in lines.steps if step.error is None])
        is_start = request.state == State.CREATE and not request.is_sandbox
        if error and not request.late and (self._refuses_starts or not is_start):
            return  # it is refused
        for step in lines.steps:
            if step.error is not None:
                how = "the late create has failed" if request.late else "the runtime starts it all the same"
                how = "its failure is ignored" if step.is_ignored else how
                self._record.runs_without(lines.name, request, f"{how}: {step.error.reason}", step.plugin.type)

    def _tidy(self) -> None:
        """Do what no event waits for."""
        with self._tidying:
            children.reap_late()
            if self._subreaper is not None:  # before children are started
                self._subreaper.end_orphans(self._lock, lambda: self._busy > 0)
            self.residents.tidy()
            self.configuration.explain()
            self.note_runs()
            self._log.report()
            self._late.start_due()
