"""The chains of the bridge, each run once: for an event, or late, by the worker.

A chain runs with the configuration and the options as they are when it begins. Events ask residents; the worker
starts a process for each request, so that the residents are free for events. What has run is noted in the memory
(``nri.v1bridge.memory``), and ``fate`` says what a failure means.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from nri.client import ChainError, Client, Invoker, PluginError
from nri.client.chain import STOPPED
from nri.client.resident import Residents, about
from nri.config.entries import ConfigList
from nri.errors import bounded, escape
from nri.files import identity
from nri.places import CONTAINERD_CONF_FILE
from nri.process import children, watchdog
from nri.types.v1 import RELEASE, State
from nri.v1bridge.configuration import Configuration
from nri.v1bridge.counts import split_name
from nri.v1bridge.late import NO_CONFIGURATION, Worker, living, own_pod
from nri.v1bridge.memory import DONE, MISSED_SETUP, REAPPLY, Holding, Memory, Ran, Verdict, compare
from nri.v1bridge.memory import RELEASE as RELEASES
from nri.v1bridge.runs import REFUSABLE, Run, late_line
from nri.v2.ttrpc import Code, StatusError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from nri.adjust import Changes
    from nri.client import Step
    from nri.config.entries import PluginEntry
    from nri.process.subreaper import Subreaper
    from nri.types.v1 import Request
    from nri.v1bridge.counts import Counts
    from nri.v1bridge.memory import Due, Row
    from nri.v1bridge.options import BridgeOptions
    from nri.v1bridge.requests import Subject
    from nri.v1bridge.runs import EventLog
    from nri.v2 import api
    from nri.v2.ttrpc import Call

MAX_ERROR = 4096
"""Bytes of an error, in one line, that the runtime shows to the pod's owner; a plugin may write a megabyte."""

MAX_WAITING = 64
"""Chains that wait to be logged and counted; a runtime has fewer events at a time."""

STARTED = "the runtime starts it all the same"

log = logging.getLogger("nri.v1bridge")


def fate(request: Request, *, has_failed: bool, refuses_starts: bool) -> tuple[str, str]:
    """Return what becomes of a container whose ``create`` has ended, and how to say why it runs without a plugin.

    | the ``create`` of | has failed | then |
    | --- | --- | --- |
    | anything | no | it is done; a plugin whose failure is ignored is listed |
    | the worker | yes | it is tried again, or listed |
    | a container, by an event of a runtime that starts it all the same (CRI-O) | yes | it is tried late, and listed |
    | anything else, by an event | yes | it is refused: nothing has come of it |
    """
    if request.late:
        return "fails" if has_failed else "succeeds", "the late create has failed"
    if has_failed and (refuses_starts or request.is_sandbox):
        return "is refused", ""
    return "fails" if has_failed else "succeeds", STARTED


class Made:
    """What is made once of a configuration and the options.

    :ivar sandboxes: the entries that containerd 2.x does not run itself for sandboxes.
    """

    def __init__(self, configuration: ConfigList, options: BridgeOptions) -> None:
        self.configuration, self.options = configuration, options
        entries = [entry for entry in configuration.plugins if entry.source != CONTAINERD_CONF_FILE]
        self.sandboxes = ConfigList(version=configuration.version, plugins=entries)
        self._keyed = {id(entry): (entry.key, entry.document) for entry in configuration.plugins}

    def keyed(self, entry: PluginEntry) -> tuple[str, str]:
        """Return the key and the document of an entry."""
        return self._keyed.get(id(entry)) or (entry.key, entry.document)


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
        self.configuration = Configuration(options.conf_dir, options.conf_file, options.record_dir)
        self._given, self._counts, self._subreaper = invoker, counts, subreaper
        self.residents = Residents(options.bin_dirs, check_owner=options.check_owner)
        self._made = Made(ConfigList(), options)
        self._stamp, self._stamped = 0, object()
        self._seen: dict[str, tuple[int, ...]] = {}  # the executables as they were last looked at, by type
        self._about: dict[tuple[object, ...], frozenset[str] | None] = {}  # states, by type and executable
        self._log = event_log
        self._ran: deque[Run] = deque()  # that are to be logged and counted
        self._busy = 0  # chains that run
        self._lock = threading.Lock()  # protects _busy
        self._idle = threading.Condition(self._lock)
        self._tidying = threading.Lock()
        self._has_late = False  # an event has left work for the worker
        self.memory = Memory()
        self.late = Worker(self.memory, self._look, self._due, self._run_due, lambda: self.options, is_alone)
        self._runtime_runs_pods, self._refuses_starts = False, True
        self._own_pod = "", ""  # its id and name, if this bridge runs in a pod
        self._in_progress: tuple[str, Call] | None = None  # the name of the pod or container, and the event

    def use(self, options: BridgeOptions) -> None:
        """Replace the options."""
        before, self.options = self.options, options
        # With the same paths the configuration stays: a runtime configures the bridge after each restart.
        paths = options.conf_dir, options.conf_file, options.record_dir
        if (*paths, options.doubts) != (before.conf_dir, before.conf_file, before.record_dir, before.doubts):
            self.configuration = Configuration(*paths, options.doubts)
        if (options.bin_dirs, options.check_owner) != (before.bin_dirs, before.check_owner):
            self.residents.close()
            self.residents = Residents(options.bin_dirs, check_owner=options.check_owner)

    def configure(self, *, runtime_runs_pods: bool, refuses_starts: bool, within: float) -> None:
        """Prepare for a connection with the options.

        :param runtime_runs_pods: the runtime is a containerd 2.x, which runs some plugins for sandboxes itself.
        :param refuses_starts: an error keeps the runtime from starting a container; CRI-O only logs it.
        :param within: seconds that the residents have to be ready.
        """
        self._runtime_runs_pods, self._refuses_starts = runtime_runs_pods, refuses_starts
        self.memory.load(self.options.record_dir)
        self._seen = self._binaries(self.client())
        self.residents.prepare(within)

    def client(self, subject: Subject | None = None, state: str = "", *, is_late: bool = False) -> Client:
        """Return a client for the configuration in use.

        :param subject: it is for a request about it, with a *state*, without the plugins that the runtime runs.
        :param is_late: for the worker.
        """
        started = time.monotonic()
        options, made = self.options, self._made
        configuration = self.configuration.current(check_owner=options.check_owner)
        is_same = made.configuration is configuration and made.options is options
        if log.isEnabledFor(logging.DEBUG):
            change = "unchanged" if is_same else "read"
            log.debug("configuration %s (%.1f ms)", change, (time.monotonic() - started) * 1000)
        if not is_same:
            made = self._made = Made(configuration, options)
            has_residents = options.resident and self._given is None
            self.residents.keep(
                [(entry.type, entry.resident is not False) for entry in configuration.plugins if has_residents]
            )
        invoker = self._given or self.residents
        if self._given is None and (is_late or not options.resident):
            invoker = Invoker(options.bin_dirs, check_owner=options.check_owner)
        is_sandbox = subject is not None and subject.container is None
        # containerd 2.x sends its own plugins these two states, of sandboxes alone.
        is_sent = self._runtime_runs_pods and is_sandbox and state in (State.CREATE, State.DELETE)
        return Client(
            made.sandboxes if is_sent else configuration,
            invoker,
            timeout=options.plugin_timeout,
            failure_policy=options.failure_policy,
            facts=None if subject is None else subject.facts,
        )

    def synchronize(self, pods: Sequence[api.PodSandbox], containers: Sequence[api.Container]) -> None:
        """Take what exists; ``start`` begins with what is due."""
        id_ = own_pod(containers)
        self._own_pod = next(((pod.id, f"{pod.namespace}/{pod.name}") for pod in pods if pod.id == id_), ("", ""))
        existing = {subject.id for subject in pods} | {subject.id for subject in containers}
        self.memory.synchronize(living(pods, containers), existing)

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

    def idle(self) -> None:
        """Do what no event waits for."""
        self._tidy()
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
            is_idle = self._idle.wait_for(lambda: self._busy == 0, max(0.0, until - time.monotonic())) and is_idle
        self.note_runs()
        self._log.report(is_last=True)
        return is_idle

    def describe(self) -> dict[str, Any]:
        """Return what the status says of the memory and the event in progress: docs/status.md."""
        record = self.memory.record
        last, without = self.memory.lacking()
        counts: dict[str, dict[str, int]] = {}
        for _, due in self.memory.outdated():
            counts.setdefault(due.entry.type, {REAPPLY: 0, RELEASES: 0})[due.what] += 1
        return {
            "lateCreates": self.late.counts(),
            "record": {
                "directory": record.directory or None,
                "fault": record.fault or self.configuration.fault or None,
            },
            "withoutPlugins": last,
            "without": without,
            "outdated": [{"plugin": plugin, **counts[plugin]} for plugin in sorted(counts)],
            "ownPod": escape(self._own_pod[1]) or None,
            "inProgress": self._event_now(),
        }

    def reapply(self, plugin: str, namespace: str, pod: str, *, is_dry: bool) -> list[dict[str, str]]:
        """Have what is outdated reapplied or released; return what that is.

        :param plugin: a type, "" for all; likewise a *namespace*, and a *pod*, ``NAMESPACE/NAME``.
        :param is_dry: return it alone.
        """
        self.late.judge()
        wanted = [
            (row, due)
            for row, due in self.memory.outdated()
            if plugin in ("", due.entry.type)
            and namespace in ("", row.name.partition("/")[0])
            and pod in ("", split_name(row.name)[0])
        ]
        if not is_dry:
            self.memory.ask(wanted)
            self.late.start()
        return [{"id": row.id, "name": row.name, "plugin": due.entry.type, "what": due.what} for row, due in wanted]

    def close(self) -> None:
        """End the residents."""
        self.residents.close()

    # Events

    def run(self, subject: Subject, state: State, call: Call, changes: Changes | None = None) -> None:
        """Run the chain for an event, within the time of its call.

        :param changes: takes what the results ask for.
        :raises StatusError: a plugin has failed.
        """
        self._in_progress = subject.name, call
        try:
            if state == State.CREATE:
                self._create(subject, call)
            elif state == State.DELETE:
                self._delete(subject, call, changes)
            else:
                self._other(subject, state, call, changes)
        finally:
            self._in_progress = None

    def _create(self, subject: Subject, call: Call) -> None:
        request = subject.request(State.CREATE)
        row = self.memory.begin(subject, _half(call))
        if row is None:
            raise self._still_running(subject.name, State.CREATE)
        stamp = self._stamp  # before the configuration is read: what the worker sees later is compared again
        steps: Sequence[Step] = ()
        unreached: list[str] = []
        column, how, why = *fate(request, has_failed=True, refuses_starts=self._refuses_starts), ""
        cause = "failed"
        try:
            self._refuse_abandoned(subject.name, State.CREATE, call)
            client = self.client(subject, State.CREATE)
            self._refuse_without_setup(row, request, client)
            run = self._chain(client, subject, request, call)
            steps = run.steps
            if run.error:
                unreached += self._unreached(run) if column == "fails" else ()
                raise StatusError(Code.ABORTED, run.error)
            if self.configuration.is_known:
                column, how = fate(request, has_failed=False, refuses_starts=self._refuses_starts)
            else:
                column, why, cause = "fails", NO_CONFIGURATION, "unconfigured"
        except Exception as error:
            reason = error.message if isinstance(error, StatusError) else f"{type(error).__name__}: {error}"
            why = "" if any(step.error for step in steps) else f"{how}: {reason}"
            raise
        finally:
            ran = Ran(State.CREATE, steps, self._made.keyed, how, unreached=unreached, binaries=self._seen)
            self.memory.ended(row, column, [ran], why, cause, stamp=stamp if column == "succeeds" else -1)
            self._has_late |= column == "fails"

    def _delete(self, subject: Subject, call: Call, changes: Changes | None) -> None:
        request = subject.request(State.DELETE)

        def run(call: Call | None = None) -> str:
            client = self.client(subject, State.DELETE)
            try:
                return self._chain(client, subject, request, call, None if call is None else changes).error
            finally:
                self.memory.remove(subject.id)

        def run_later() -> None:
            run()
            self._tidy()

        if not self.memory.withdraw(subject.id, _half(call), run_later):
            raise self._still_running(subject.name, State.DELETE)
        if error := run(call):
            raise StatusError(Code.ABORTED, error)

    def _other(self, subject: Subject, state: State, call: Call, changes: Changes | None) -> None:
        if state in REFUSABLE:
            self._refuse_abandoned(subject.name, state, call)
        request, client = subject.request(state), self.client(subject, state)
        # What they do now may change whether a condition holds at the start: what was judged has not missed it.
        judged = [entry.type for entry in client.chain(State.SETUP)] if state == State.SETUP else []
        run = self._chain(client, subject, request, call, changes)
        if not run.error or state not in REFUSABLE:
            how = "" if state == State.UPDATE else STARTED
            ran = Ran(state, run.steps, self._made.keyed, how)
            self.memory.note(subject, ran, {*judged, *[step.plugin.type for step in run.steps]} if judged else ())
        if run.error:
            raise StatusError(Code.ABORTED, run.error)

    def _unreached(self, run: Run, only: Container[str] | None = None) -> list[str]:
        """Return the types of the plugins behind the one that has failed.

        :param only: the keys of the entries that were to run; by default all that act on the state.
        """
        asked, client = {step.plugin.type for step in run.steps}, run.client
        left = [entry for entry in client.holding(run.request) if entry.type not in asked]
        if only is not None:
            return [entry.type for entry in left if self._made.keyed(entry)[0] in only]
        return [entry.type for entry in left if client.invoker.acts_on(entry.type, run.request.state)]

    def _refuse_abandoned(self, name: str, state: State, call: Call) -> None:
        if call.is_abandoned or call.is_late:
            text = f"nri v0.1: {state}: not started: {STOPPED}"
            log.warning("%s: %s", escape(name), text)
            raise StatusError(Code.ABORTED, text)

    def _still_running(self, name: str, state: State) -> StatusError:
        then = "delete runs after it" if state == State.DELETE else "try again"
        message = f"nri v0.1: the late create is still running; {then}"
        log.warning("%s: %s", escape(name), message)
        return StatusError(Code.ABORTED, message)

    def _refuse_without_setup(self, row: Row, request: Request, client: Client) -> None:
        """Refuse to start a container that a plugin's ``setup`` has missed, unless its failures are ignored.

        :raises StatusError: with the plugins.
        """
        missed = self._missed_setup(row, request, client)
        policy = self.options.failure_policy
        if needed := [entry.type for entry in missed if (entry.failure_policy or policy) == "fail"]:
            text = f"nri v0.1: create: plugin {', '.join(needed)}: {MISSED_SETUP}; create the container again"
            log.error("%s: %s", escape(row.name), text)
            if self._refuses_starts:
                raise StatusError(Code.ABORTED, text)
        for entry in missed:
            self.memory.lack(row, State.SETUP, entry.type, MISSED_SETUP, "missed")

    def _missed_setup(self, row: Row, request: Request, client: Client) -> Sequence[PluginEntry]:
        """Return the plugins of ``setup`` that a container was created without; it can't be done late.

        Those of this bridge's own pod are created before it by design.
        """
        if (
            request.is_sandbox
            or (request.sandbox_id and request.sandbox_id == self._own_pod[0])
            or not (entries := client.chain(State.SETUP))
        ):
            return []
        holds = client.holding(request)  # a contradiction in a condition is refused by the chain itself
        return [
            entry
            for entry in entries
            if entry in holds and entry.type not in row.setup and not client.invoker.create_suffices(entry.type)
        ]

    # For the worker

    def _look(self) -> int | None:
        """Look at the configuration and the executables; return a number that changes with them."""
        client = self.client()
        watchdog.look()
        if not self.configuration.is_known:
            return None
        self.memory.retry()
        self.configuration.keep()
        self._seen = self._binaries(client)
        stamped = self._made, self._runtime_runs_pods, tuple(self._seen.items())
        if stamped != self._stamped:
            self._stamped = stamped
            self._stamp += 1
        return self._stamp

    def _binaries(self, client: Client) -> dict[str, tuple[int, ...]]:
        binaries = {}
        for type_ in {entry.type for entry in client.config.plugins}:
            try:
                binaries[type_] = identity(client.invoker.find(type_))
            except PluginError:
                binaries[type_] = ()
        return binaries

    def _due(self, row: Row) -> Verdict:
        """Return the verdict on a row."""
        if row.subject is None:
            return Verdict()
        had, again = row.had, row.state != DONE
        request, client = row.subject.request(State.CREATE), self.client(row.subject, State.CREATE)
        if row.is_resized and not client.chain(State.UPDATE):
            row.is_resized = False
        holds = [
            Holding(
                self._made.keyed(entry)[0],
                entry,
                client.invoker.acts_on(entry.type, State.CREATE),
                self._seen.get(entry.type, ()),
            )
            for entry in client.holding(request)
        ]
        missed = [entry.type for entry in self._missed_setup(row, request, client)]
        return Verdict(compare(holds, had, again=again), missed, {holding.entry.type for holding in holds}, had)

    def _run_due(self, row: Row, due: Sequence[Due]) -> tuple[Sequence[Ran], str]:
        """Run what is due for a row; return the chains that have run, and the error."""
        subject, ran, errors = row.subject, list[Ran](), list[str]()
        if subject is None:
            return ran, ""
        reapplies = self.options.reapply

        def chain(client: Client, asked: Request, only: Container[str] | None, ran_as: Ran) -> None:
            run = self._chain(client, subject, asked, only=only)
            unreached = self._unreached(run, only) if run.error and asked.state == State.CREATE else ()
            ran.append(ran_as._replace(steps=run.steps, unreached=unreached, binaries=self._seen))
            # An ignored failure leaves an older entry in force: then nothing is reapplied or released.
            failed = [step for step in run.steps if step.error is not None and ran_as.is_in_place(step.plugin)]
            errors.extend([run.error] if run.error else [f"nri v0.1: plugin {step.error}" for step in failed])

        try:
            late = subject.request(State.CREATE).replace(late=True)
            how = fate(late, has_failed=True, refuses_starts=True)[1]
            client = self.client(subject, State.CREATE, is_late=True)
            keyed = self._made.keyed
            wanted = [
                task
                for task in due
                if task.what not in (REAPPLY, RELEASES) or reapplies or task.entry.type in row.asked
            ]
            for task in [task for task in wanted if task.what == RELEASES]:
                old = Client(ConfigList(plugins=[task.entry]), client.invoker, timeout=client.timeout)
                if not self._releases(client, task.entry.type):
                    self.memory.drop(row, task.had)
                    continue
                as_ran = Ran(RELEASE, (), lambda _entry, key=task.key: (key, ""), "the release has failed")  # type: ignore[misc]
                chain(old, subject.request(State.DELETE).replace(release=True), None, as_ran)
            replaces = {task.key: task.had for task in wanted if task.what == REAPPLY and task.had is not None}
            if only := {task.key for task in wanted if task.what != RELEASES}:
                late_line(row.name, late, "")
                chain(client, late, only, Ran(State.CREATE, (), keyed, how, replaces))
            if row.is_resized:
                has_had = {past.key for past in row.had if past.failed_with is None} - only
                ran_as = Ran(State.UPDATE, (), keyed, "the late update has failed")
                chain(client, subject.request(State.UPDATE), has_had, ran_as)
        finally:
            self._tidy()
        return ran, errors[0] if errors else ""

    def _releases(self, client: Client, type_: str) -> bool:
        """Return False if a plugin says what it acts on, and that a release is not among it."""
        try:
            path = client.invoker.find(type_)
            key = type_, identity(path)
            if key not in self._about:
                self._about[key] = about(path, type_).states
        except (PluginError, OSError):
            return True  # its run reports it
        states = self._about[key]
        return states is None or RELEASE in states

    # All chains

    def _chain(
        self,
        client: Client,
        subject: Subject,
        request: Request,
        call: Call | None = None,
        changes: Changes | None = None,
        only: Container[str] | None = None,
    ) -> Run:
        """Run a chain, and have it noted; return it.

        :param request: about the *subject*.
        :param call: the event that it answers; None for the worker.
        :param only: the keys of the entries that are to run; by default all that act on the state.
        """
        started, run = time.monotonic(), Run(client, request, subject.name, call)
        is_first = call is not None and request.state in (State.SETUP, State.CREATE)
        row = None if is_first else self.memory.rows.get(subject.id)
        self._log.begin(run)
        with self._lock:
            self._busy += 1
        try:
            client.invoke(
                request,
                request.state,
                deadline=run.deadline,
                log=lambda plugin, line: run.said.append((plugin, line)),
                on_step=lambda step: self._log.step(run, step),
                changes=changes,
                stop=run.stop,
                previous=None if row is None else lambda entry: row.previous(self._made.keyed(entry)[0]),
                only=only,
            )
        except ChainError as error:
            run.error = bounded(escape(f"nri v0.1: {error}"), MAX_ERROR)
        except BaseException as error:
            run.error = escape(f"{type(error).__name__}: {error}")
            raise
        finally:
            run.seconds = time.monotonic() - started
            self._ran.append(run)
            if run.error or any(step.error is not None for step in run.steps) or len(self._ran) > MAX_WAITING:
                self.note_runs()
            with self._lock:
                self._busy -= 1
                self._idle.notify_all()
        return run

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
        allowed = None if call.deadline is None else round(call.deadline - call.received, 3)
        return {"event": call.event, "name": escape(name), "seconds": round(seconds, 3), "allowed": allowed}

    def _tidy(self) -> None:
        """Do what no event waits for."""
        with self._tidying:
            children.reap_late()
            if self._subreaper is not None:  # before children are started
                self._subreaper.end_orphans(self._lock, lambda: self._busy > 0)
            self.residents.tidy()
            self.note_runs()
            self._log.report()


def _half(call: Call) -> float | None:
    """Return until when an event may wait for the worker: its chain needs the rest."""
    remaining = call.remaining()
    return None if remaining is None else time.monotonic() + remaining / 2
