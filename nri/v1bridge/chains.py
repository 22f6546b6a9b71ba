"""The chains of the bridge, each run once: for an event, or late, by the worker.

A chain runs with the configuration and the options as they are when it begins. Events ask residents; the worker
starts a process for each request, so that the residents are free for events. What is run for a container, and what a
failure means, is decided by ``nri.node.reconcile``.
"""

from __future__ import annotations

import contextlib
import logging
import math
import operator
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nri.adjust import Changes
from nri.client import Client, Invoker, PluginError, Step
from nri.client.chain import STOPPED
from nri.client.facts import facts_of
from nri.client.resident import Residents
from nri.config.entries import ConfigList, PluginEntry, types_of
from nri.config.site import Site
from nri.errors import NRIError, bounded, escape
from nri.files import identity
from nri.node.acceptance import Acceptance
from nri.node.compare import Due, Wanted, compare
from nri.node.in_use import ACCEPTS_ALL, AcceptsAll
from nri.node.reconcile import LATE, STARTED, Chain, Verdict, missed_setup, reconcile
from nri.node.record import FAILED, REAPPLY, RELEASE
from nri.places import CONTAINERD_CONF_FILE
from nri.process import children, watchdog
from nri.process.subreaper import Subreaper
from nri.types.v1 import Request, State
from nri.v1bridge.configuration import Configuration
from nri.v1bridge.counts import Counts, split_name
from nri.v1bridge.dropped import dropped, parts_of
from nri.v1bridge.late import Worker, living, own_pod
from nri.v1bridge.memory import DONE, Comparison, Memory, Row, Told
from nri.v1bridge.options import BridgeOptions
from nri.v1bridge.requests import Subject
from nri.v1bridge.runs import EventLog, Run, late_begins
from nri.v2 import api
from nri.v2.ttrpc import Call, Code, StatusError

MAX_ERROR = 4096
"""Bytes of an error, in one line, that the runtime shows to the pod's owner; a plugin may write a megabyte."""

WRITTEN_AFTER = 0.5
"""Seconds after an answer in which the runtime has written what it asks for, if no event follows."""

MAX_WAIT = 3600.0
"""Seconds that an event without a deadline waits for the worker."""

MAX_WAITING = 64
"""Chains that wait to be logged and counted; a runtime has fewer events at a time."""

log = logging.getLogger("nri.v1bridge")


class Occasion:
    """The bridge as a host of ``nri.node.reconcile``: for one event, or for the worker.

    :param call: the event that is answered; None for the worker.
    :param changes: takes what the results ask for.
    """

    def __init__(
        self, chains: Chains, call: Call | None = None, changes: Changes | None = None
    ) -> None:
        self._chains = chains
        self._call = call
        self._changes = changes
        self.lock = chains.memory.changed
        self.refuses_starts = chains.refuses_starts

    @property
    def is_configured(self) -> bool:
        """False if there has been no valid configuration."""
        return self._chains.configuration.is_known

    def client(self, container: Row | Told, state: str) -> Client:
        """Return a client for the configuration in use."""
        return self._chains.client(container.subject, state)

    def run(self, chain: Chain, on_step: Callable[[Step], None]) -> None:
        """Run a chain within the event's time, and have it logged and counted."""
        run = Run(chain.client, chain.request, chain.container.name, self._call)
        self._chains.run_chain(run, chain, on_step, self._changes)

    def expects_setup(self, request: Request) -> bool:
        """Return whether a container without a ``setup`` has missed it."""
        return self._chains.expects_setup(request)

    def dropped(self, container: Row, client: Client) -> list[tuple[PluginEntry, str]]:
        """Return the entries whose changes the runtime has not applied, each with what is missing."""
        subject = container.known
        if subject.container is None:
            return []
        asked = []
        for entry in client.config.plugins:
            result = container.facts.adjusted(entry.key)
            if result is not None:
                asked.append((entry, result))
        if not asked:
            return []
        return dropped(asked, container.created, subject.container)

    def save(self, container: Row | Told) -> None:
        """Write a container's facts."""
        self._chains.memory.save(container.row)

    def note(self, line: str) -> None:
        """Log a line."""
        log.error("%s", escape(line))


class Chains:
    """Runs the chains of events, and what is due. All methods may be called from any thread.

    The parameters are those of ``nri.v1bridge.bridge.Bridge``.

    :param counts: counts what has run.
    """

    def __init__(
        self,
        options: BridgeOptions,
        counts: Counts,
        subreaper: Subreaper | None,
        invoker: Invoker | None,
        is_alone: Callable[[float], bool],
        event_log: EventLog,
    ) -> None:
        self.options = options
        self._given = invoker
        self._counts = counts
        self._subreaper = subreaper
        self._find_plugins(options.site)
        self.configuration = self._configuration()
        # The entries that containerd 2.x does not run itself for sandboxes.
        self._sandboxes = ConfigList()
        self._stamp = 0
        self._stamped = object()
        # The executables as they were last looked at, by type.
        self._seen: dict[str, tuple[int, ...]] = {}
        self._log = event_log
        self._ran: deque[Run] = deque()  # that are to be logged and counted
        self._busy = 0  # chains that run
        self._lock = threading.Lock()  # protects _busy
        self._idle = threading.Condition(self._lock)
        self._tidying = threading.Lock()
        self._has_late = False  # an event has left work for the worker
        # The updates that the runtime writes, by id, not on record yet.
        self._rewriting: dict[str, Mapping[str, Any]] = {}
        self._followed: set[Row] = set()  # the rows whose update follows
        self._rewritten_at = 0.0  # when it has written them, if no event comes before
        self.memory = Memory()
        self.late = Worker(
            self.memory, self._look, self._compare, self._run_due, lambda: self.options, is_alone
        )
        self._runtime_runs_pods = False
        self.refuses_starts = True
        self.own_pod = "", ""  # its id and name, if this bridge runs in a pod
        # The name of the pod or container, and the event.
        self._in_progress: tuple[str, Call] | None = None

    def use(self, options: BridgeOptions) -> None:
        """Replace the options."""
        before = self.options
        self.options = options
        site = options.site
        if (options.bin_dirs, options.check_owner) != (before.bin_dirs, before.check_owner):
            self.residents.close()
            self._find_plugins(site)
        # With the same places the configuration stays: a runtime configures the bridge after each restart.
        if site.has_places_of(before.site) and options.doubts == before.doubts:
            self.configuration.use(site, self._acceptance)
        else:
            self.configuration = self._configuration()

    def _find_plugins(self, site: Site) -> None:
        """Find the plugins in the directories of a site from now on."""
        self.residents = Residents(site.bin_dirs, check_owner=site.check_owner)
        # With which the residents were chosen.
        self._used: object = None
        self._starter = Invoker(site.bin_dirs, check_owner=site.check_owner)
        self._acceptance: Acceptance | AcceptsAll = ACCEPTS_ALL
        if self._given is None:
            self._acceptance = Acceptance(self._starter)

    def _configuration(self) -> Configuration:
        return Configuration(self.options.site, self.options.doubts, self._acceptance)

    def configure(self, *, runtime_runs_pods: bool, refuses_starts: bool, within: float) -> None:
        """Prepare for a connection with the options.

        :param runtime_runs_pods: the runtime is a containerd 2.x, which runs some plugins for sandboxes itself.
        :param refuses_starts: an error keeps the runtime from starting a container; CRI-O only logs it.
        :param within: seconds that the residents have to be ready.
        """
        self._runtime_runs_pods = runtime_runs_pods
        self.refuses_starts = refuses_starts
        self.memory.load(self.options.record_dir)
        self._seen = self._binaries(self.client())
        self.residents.prepare(within)

    def client(self, subject: Subject | None = None, state: str = "") -> Client:
        """Return a client for the configuration in use.

        :param subject: it is for a request about it, without the plugins that the runtime runs.
        :param state: that of the request, or ``LATE`` for the worker.
        """
        options = self.options
        configuration = self.configuration.current()
        self._use(configuration, options)
        invoker = self._starter if state == LATE else self.residents
        facts = facts_of
        if subject is not None:
            facts = subject.facts
            # containerd 2.x sends its own plugins these two states, of sandboxes alone.
            is_sent = subject.container is None and state in (State.CREATE, State.DELETE, LATE)
            if self._runtime_runs_pods and is_sent:
                configuration = self._sandboxes
        return Client(
            configuration,
            self._given or invoker,
            timeout=options.timeout,
            failure_policy=options.failure_policy,
            facts=facts,
        )

    def _use(self, configuration: ConfigList, options: BridgeOptions) -> None:
        """Have residents for a configuration, if it is not the one that was used last."""
        used = configuration, options
        if used == self._used:
            return
        self._used = used
        entries = [entry for entry in configuration.plugins if entry.source != CONTAINERD_CONF_FILE]
        self._sandboxes = ConfigList(version=configuration.version, plugins=entries)
        if self._given is None:
            self.residents.keep(configuration.plugins, residents=options.resident)

    def synchronize(
        self, pods: Sequence[api.PodSandbox], containers: Sequence[api.Container]
    ) -> None:
        """Take what exists; ``start`` begins with what is due."""
        names = {pod.id: f"{pod.namespace}/{pod.name}" for pod in pods}
        id_ = own_pod(containers)
        self.own_pod = id_, names.get(id_, "")
        existing = {container.id for container in containers}
        self.memory.synchronize(living(pods, containers), existing | names.keys())

    def start(self) -> None:
        """Begin with what is due."""
        self.late.start(is_new=True)

    def stop(self, *, for_good: bool = False) -> None:
        """Leave what has not begun to the next connection.

        :param for_good: the bridge ends.
        """
        self.late.stop(for_good=for_good)

    def prove(self, sandbox: str) -> None:
        """Note that a sandbox is ready; if it was missed, its ``create`` comes when the events are answered."""
        self._has_late |= self.memory.prove(sandbox)

    def expects_setup(self, request: Request) -> bool:
        """Return False for the bridge's own pod: its containers are created before the bridge by design."""
        own, _ = self.own_pod
        return own == "" or request.sandbox_id != own

    def rewrites(self, updates: Mapping[str, Mapping[str, Any]]) -> None:
        """Note containers whose resources the runtime writes as a whole when it gets this event's answer.

        What plugins have written themselves is gone then, so an ``update`` follows. Runtimes write before they send
        the next event (containerd and CRI-O hold one lock over both), and soon.

        :param updates: what the answer asks for, by the container's id.
        """
        with self._lock:
            self._rewriting |= updates
            self._rewritten_at = time.monotonic() + WRITTEN_AFTER

    def _note_rewriting(self) -> None:
        """Have it on record that updates follow, also for a bridge that comes after this one."""
        with self._lock:
            updates = self._rewriting
            self._rewriting = {}
        noted = self.memory.rewritten(updates)
        with self._lock:
            self._followed |= noted

    def _take_rewritten(self) -> None:
        """Have the worker run ``update`` for containers whose resources the runtime has written."""
        self._note_rewriting()
        with self._lock:
            if time.monotonic() < self._rewritten_at:
                return
            rows = self._followed
            self._followed = set()
        self._has_late |= self.memory.make_due(rows)

    def idle(self) -> None:
        """Do what no event waits for."""
        self._note_rewriting()
        self._tidy()
        self.residents.renew()
        if self._has_late:
            self._has_late = False
            self.late.start()

    def wait_until_idle(self, timeout: float) -> bool:
        """Wait until no chain is running and the log has all faults of the configuration, at most *timeout* seconds.

        Return whether no chain is running, nor what follows a late create.
        """
        until = time.monotonic() + timeout
        is_idle = self.late.wait_until_idle(timeout)
        with self._lock:
            left = max(0.0, until - time.monotonic())
            is_idle &= self._idle.wait_for(lambda: self._busy == 0, left)
        self.note_runs()
        self._log.report(0.0)
        return is_idle

    def describe(self) -> dict[str, Any]:
        """Return what the status says of the memory and the event in progress: docs/status.md."""
        record = self.memory.record
        last, without = self.memory.lacking()
        outdated: dict[str, dict[str, Any]] = {}
        for _, due in self.memory.outdated():
            plugin = due.entry.type
            counts = outdated.setdefault(plugin, {"plugin": plugin, REAPPLY: 0, RELEASE: 0})
            counts[due.what] += 1
        return {
            "lateCreates": self.late.counts(),
            "record": {
                "directory": record.directory or None,
                "fault": record.fault or self.configuration.fault or None,
            },
            "withoutPlugins": last,
            "without": without,
            "outdated": sorted(outdated.values(), key=operator.itemgetter("plugin")),
            "ownPod": escape(self.own_pod[1]) or None,
            "inProgress": self._event_now(),
        }

    def reapply(
        self, plugin: str, namespace: str, pod: str, *, is_dry: bool
    ) -> list[dict[str, str]]:
        """Have what is outdated reapplied or released; return what that is.

        :param plugin: a type, "" for all; likewise a *namespace*, and a *pod*, ``NAMESPACE/NAME``.
        :param is_dry: return it alone.
        """
        self.late.judge()
        wanted = []
        answer = []
        for row, due in self.memory.outdated():
            of_pod, _ = split_name(row.name)
            type_ = due.entry.type
            is_of_pod = namespace in ("", of_pod.partition("/")[0]) and pod in ("", of_pod)
            if is_of_pod and plugin in ("", type_):
                wanted.append((row, due))
                answer.append({"id": row.id, "name": row.name, "plugin": type_, "what": due.what})
        if not is_dry:
            self.memory.ask(wanted)
            self.late.start()
        return answer

    def close(self) -> None:
        """End the residents."""
        self.residents.close()

    # Events

    def run(
        self, subject: Subject, state: State, call: Call, changes: Changes | None = None
    ) -> None:
        """Run the chain for an event, within the time of its call.

        :param changes: takes what the results ask for.
        :raises StatusError: a plugin has failed.
        """
        self._in_progress = subject.name, call
        self._rewritten_at = 0.0  # with another event, it has written them
        self._take_rewritten()
        host = Occasion(self, call, changes)
        try:
            if state == State.SETUP:
                verdict = self._set_up(subject, call, host)
            elif state == State.CREATE:
                verdict = self._create(subject, call, host)
            elif state == State.DELETE:
                verdict = self._delete(subject, call, host)
            else:
                verdict = self._tell(subject, state, call, host)
        finally:
            self._in_progress = None
        if verdict.error:
            raise StatusError(Code.ABORTED, _shown(verdict.error))

    def _set_up(self, subject: Subject, call: Call, host: Occasion) -> Verdict:
        self._refuse_abandoned(subject.name, State.SETUP, call)
        told = self.memory.told(subject, State.SETUP)
        verdict = reconcile(told, State.SETUP, host)
        if verdict.error:
            self.memory.remove(subject.id)
        return verdict

    def _tell(self, subject: Subject, state: State, call: Call, host: Occasion) -> Verdict:
        if state == State.RESIZE:
            self._refuse_abandoned(subject.name, state, call)
        return reconcile(self.memory.told(subject, state), state, host)

    def note_devices(self, container: api.Container) -> None:
        """Note a container whose setup asks for CDI devices, as its creation was asked about.

        A device's own changes are not known, so it is seen by what has been added.
        """
        self.memory.note_created(container.id, parts_of(container))

    def _create(self, subject: Subject, call: Call, host: Occasion) -> Verdict:
        row = self.memory.begin(subject, _half(call))
        if row is None:
            raise self._still_running(subject.name, "try again")
        # Before the configuration is read: what the worker sees later is compared again.
        stamp = self._stamp
        is_refused = host.refuses_starts or subject.container is None
        column = "is refused" if is_refused else "fails"
        try:
            self._refuse_abandoned(subject.name, State.CREATE, call)
            verdict = reconcile(row, State.CREATE, host)
            if not verdict.error and row.facts.without is None:
                column = "succeeds"
            elif verdict.is_noted:  # it runs without what has failed: the worker makes up for it
                column = "fails"
            return verdict
        except Exception as error:
            if column == "fails":
                if isinstance(error, StatusError):
                    reason = error.message
                else:
                    reason = f"{type(error).__name__}: {error}"
                self.memory.lack(row, f"{STARTED}: {reason}", FAILED)
            raise
        finally:
            if column != "succeeds":
                stamp = -1
            self.memory.ended(row, column, stamp=stamp)
            self._has_late |= column == "fails"

    def _delete(self, subject: Subject, call: Call, host: Occasion) -> Verdict:
        def run(host: Occasion) -> Verdict:
            try:
                return reconcile(self.memory.told(subject, State.DELETE), State.DELETE, host)
            finally:
                self.memory.remove(subject.id)

        def run_later() -> None:
            run(Occasion(self))
            self._tidy()

        if not self.memory.withdraw(subject.id, _half(call), run_later):
            raise self._still_running(subject.name, "delete runs after it")
        return run(host)

    def _refuse_abandoned(self, name: str, state: State, call: Call) -> None:
        if call.is_abandoned or call.is_late:
            text = f"nri v0.1: {state}: not started: {STOPPED}"
            log.warning("%s: %s", escape(name), text)
            raise StatusError(Code.ABORTED, text)

    def _still_running(self, name: str, then: str) -> StatusError:
        message = f"nri v0.1: the late create is still running; {then}"
        log.warning("%s: %s", escape(name), message)
        return StatusError(Code.ABORTED, message)

    # For the worker

    def _look(self) -> int | None:
        """Look at the configuration and the executables; return a number that changes with them."""
        client = self.client()
        watchdog.look()
        if not self._busy:
            self.residents.renew()
        self._take_rewritten()
        if not self.configuration.is_known:
            return None
        self.memory.retry()
        self.configuration.keep()
        self._seen = self._binaries(client)
        stamped = self._used, self._runtime_runs_pods, tuple(self._seen.items())
        if stamped != self._stamped:
            self._stamped = stamped
            self._stamp += 1
        return self._stamp

    def _binaries(self, client: Client) -> dict[str, tuple[int, ...]]:
        binaries = {}
        for type_ in {*types_of(client.config.plugins)}:
            try:
                binaries[type_] = identity(client.invoker.find(type_))
            except PluginError:
                binaries[type_] = ()
        return binaries

    def _compare(self, row: Row) -> Comparison:
        """Compare a row with the configuration in use."""
        version = row.version
        again = row.state != DONE
        request = row.request(State.CREATE)
        client = self.client(row.subject, State.CREATE)
        wanted = []
        for entry in client.holding(request):
            acts = client.invoker.acts_on(entry.type, State.CREATE)
            wanted.append(Wanted(entry, acts=acts, binary=self._seen.get(entry.type, ())))
        due = compare(wanted, row.facts.entries, again=again)
        applying = {one.entry.type for one in wanted}
        missed = missed_setup(row, request, client, Occasion(self))
        return Comparison(version, due, applying, missed)

    def _run_due(self, row: Row) -> tuple[Sequence[Due], Verdict]:
        """Do for a row what is due of what ``compare`` says; return that, and what has come of it."""
        wanted = row.to_do(reapplies=self.options.reapply)
        try:
            return wanted, reconcile(row, LATE, Occasion(self), wanted)
        finally:
            self._tidy()

    # All chains

    def run_chain(
        self, run: Run, chain: Chain, on_step: Callable[[Step], None], changes: Changes | None
    ) -> None:
        """Run a chain, and have it logged and counted.

        :raises ChainError: it has failed.
        """
        started = time.monotonic()
        if run.request.late:
            late_begins(run.name, run.request, is_again=bool(chain.replaces))
        self._log.begin(run)
        with self._lock:
            self._busy += 1

        def take(step: Step) -> None:
            self._log.step(run, step)
            on_step(step)

        try:
            chain.client.invoke(
                chain.request,
                chain.request.state,
                deadline=run.deadline,
                log=lambda plugin, line: run.said.append((plugin, line)),
                on_step=take,
                changes=changes,
                stop=run.stop,
                previous=chain.previous,
                only=chain.only,
            )
        except NRIError as error:
            run.error = _shown(str(error))
            raise
        except BaseException as error:
            run.error = escape(f"{type(error).__name__}: {error}")
            raise
        finally:
            run.seconds = time.monotonic() - started
            self._ran.append(run)
            if run.error or run.errors or len(self._ran) > MAX_WAITING:
                self.note_runs()
            with self._lock:
                self._busy -= 1
                self._idle.notify_all()

    def note_runs(self) -> None:
        """Log and count the chains that have ended: when no event has arrived for a moment, or a status is asked for.

        One in which a plugin has failed is noted before its answer, after those that have ended earlier.
        """
        while self._ran:
            with contextlib.suppress(IndexError):  # another thread has taken it
                run = self._ran.popleft()
                self._log.end(run)
                self._counts.ran(run)

    def _event_now(self) -> dict[str, Any] | None:
        if (now := self._in_progress) is None:
            return None
        name, call = now
        seconds = time.monotonic() - call.received
        allowed = None
        if call.deadline < math.inf:
            allowed = round(call.deadline - call.received, 3)
        return {
            "event": call.event,
            "name": escape(name),
            "seconds": round(seconds, 3),
            "allowed": allowed,
        }

    def _tidy(self) -> None:
        """Do what no event waits for."""
        with self._tidying:
            children.reap_late()
            if self._subreaper is not None:  # before children are started
                self._subreaper.end_orphans(self._lock, lambda: self._busy > 0)
            self.residents.tidy()
            self.note_runs()
            self._log.report()


def _shown(error: str) -> str:
    """Return an error as the runtime shows it."""
    return bounded(escape(f"nri v0.1: {error}"), MAX_ERROR)


def _half(call: Call) -> float:
    """Return the seconds that an event may wait for the worker: its chain needs the rest."""
    return min((call.deadline - time.monotonic()) / 2, MAX_WAIT)
