"""Late creates: ``create`` for what started while no bridge was connected, in the background.

The bridge guarantees, for each sandbox and container:

- it is noted on record when its late ``create`` has ended without an error; so one that a killed bridge has cut off
  is found again, and gets another (docs/spec.md allows that);
- one that fails is tried three times;
- ``create`` and ``delete`` never run at the same time, and ``delete`` is last: if it comes first, there is no late
  ``create``; if it comes meanwhile, it waits, and if that takes too long for the runtime, it runs afterwards;
- what has not begun when the connection ends is dropped without a note; the next synchronization finds it again.

A sandbox comes before its containers. :data:`THREADS` pods are handled at a time.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from nri.background import in_background
from nri.errors import escape
from nri.types.v1 import State
from nri.v1bridge import requests
from nri.v1bridge.log import late_line
from nri.v2 import api
from nri.v2.ttrpc import StatusError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from nri.types.v1 import Request
    from nri.v1bridge.record import Record

THREADS = 4
"""Pods that are handled at a time: events that come meanwhile need the plugins, too."""

PAUSES = (0.0, 1.0, 5.0)
"""Seconds before each attempt; those that fail are tried again when all others were tried."""

log = logging.getLogger("nri.v1bridge")


class LateCreates:
    """The late creates of a bridge. All methods may be called from any thread.

    :param run: runs the chain for one of them; it raises StatusError when a plugin fails.
    """

    def __init__(self, run: Callable[[Missed], object], record: Record) -> None:
        self._run, self._record = run, record
        self._lock = threading.Lock()  # taken directly: through the condition it would take four calls
        self._changed = threading.Condition(self._lock)
        self._queue: list[Sequence[Missed]] = []
        self._pending: dict[str, Missed] = {}  # until they have ended for good, are withdrawn or dropped
        self._running: dict[str, list[Callable[[], object]]] = {}  # what is to run after each
        self._events: set[str] = set()  # whose create runs for an event
        self._succeeded, self._failed = 0, 0
        self._due: list[Callable[[], object]] = []  # for which no thread could be started

    def put(self, pods: Iterable[Sequence[Missed]]) -> None:
        """Queue sandboxes and containers, by pod; :meth:`start` begins with them."""
        with self._lock:
            self._queue = self._left(self._queue)
            for pod in pods:
                self._queue.append(pod)
                self._pending.update([(missed.request.id, missed) for missed in pod])

    def start(self, work: Callable[[], object] | None = None) -> None:
        """Begin with what is queued, in a thread of its own; without a thread, :meth:`start_due` tries again.

        :param work: what the thread does instead of :meth:`work`.
        """
        work = work or self.work
        if reason := in_background(work, "late"):
            if not self._due:
                log.error("late: %s; trying again after each event", reason)
            self._due.append(work)

    def start_due(self) -> None:
        """Begin with what could not begin without a thread."""
        if self._due and not in_background(self._due[0], "late"):
            del self._due[0]

    def drop(self) -> None:
        """Drop what has not begun, and say so; what has begun is not tried again."""
        if dropped := self.take(lambda _: None):
            log.warning("late: dropped %d that have not begun; the next synchronization finds them again", dropped)

    def note(self, note: Callable[[Missed], object]) -> None:
        """Call a function with each that has not begun. None is withdrawn meanwhile: what is noted is there."""
        with self._lock:
            for missed in self._waiting():
                note(missed)

    def take(self, note: Callable[[Missed], object]) -> int:
        """Drop what has not begun, after a call as in :meth:`note`; return how many these were.

        A late create that runs now ends, and is not tried again if it fails.
        """
        with self._lock:
            taken = self._waiting()
            for missed in taken:
                note(missed)
            self._queue.clear()
            self._pending.clear()
            self._due.clear()
            self._changed.notify_all()
        return len(taken)

    def begin(self, id_: str) -> None:
        """Note that ``create`` runs for an event: there is no late one of this id before :meth:`end`."""
        with self._lock:
            self._events.add(id_)
            self._withdraw(id_)

    def end(self, id_: str) -> None:
        """Note that the ``create`` of an event has ended."""
        with self._lock:
            self._events.discard(id_)
            if self._pending:
                self._changed.notify_all()

    def withdraw(self, id_: str, until: float | None, delete: Callable[[], object]) -> bool:
        """Cancel the late ``create`` of this id, or wait for its end; return whether ``delete`` can run now.

        :param until: a time of :func:`time.monotonic`; after that, *delete* is called when the ``create`` has ended.
        """
        with self._lock:
            self._withdraw(id_)
            while id_ in self._running:
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    self._running[id_].append(delete)
                    return False
                self._changed.wait(left)
        return True

    def counts(self) -> dict[str, int]:
        """Return what the status says of the late creates: docs/status.md."""
        return {
            "waiting": len(self._pending.keys() - self._running),
            "running": len(self._running),
            "succeeded": self._succeeded,
            "failed": self._failed,
        }

    def wait_until_idle(self, timeout: float) -> bool:
        """Wait until none is running, nor its ``delete``, at most *timeout* seconds; return whether none is."""
        with self._lock:
            return self._changed.wait_for(lambda: not self._running, timeout)

    def work(self) -> None:
        """Run what is queued, in this thread and others."""
        with self._lock:
            pods, self._queue = self._queue, []
        begun, succeeded, failed = time.monotonic(), self._succeeded, self._failed
        for attempt, pause in enumerate(PAUSES, 1):
            with self._lock:
                self._changed.wait_for(lambda: not self._left(pods), pause)
                queue = deque(self._left(pods))
            drain = functools.partial(self._drain, queue, is_last=attempt == len(PAUSES))
            threads = [threading.Thread(target=drain, name="late", daemon=True) for _ in [*queue][1:THREADS]]
            with contextlib.suppress(RuntimeError):  # none is left: fewer do it
                for thread in threads:
                    thread.start()
            drain()
            for thread in [thread for thread in threads if thread.ident]:
                thread.join()
        succeeded, failed = self._succeeded - succeeded, self._failed - failed
        if succeeded or failed:
            level, took = logging.WARNING if failed else logging.INFO, time.monotonic() - begun
            log.log(level, "late: create succeeded for %d, failed for %d, in %.1f s", succeeded, failed, took)

    def _waiting(self) -> list[Missed]:
        return [missed for id_, missed in self._pending.items() if id_ not in self._running]

    def _withdraw(self, id_: str) -> None:
        if self._pending.pop(id_, None):
            self._changed.notify_all()

    def _left(self, pods: Iterable[Sequence[Missed]]) -> list[Sequence[Missed]]:
        return [pod for pod in pods if any(self._pending.get(missed.request.id) is missed for missed in pod)]

    def _drain(self, queue: deque[Sequence[Missed]], *, is_last: bool) -> None:
        while True:
            try:
                pod = queue.popleft()
            except IndexError:  # the others have taken the rest
                return
            for missed in pod:
                self._run_one(missed, is_last=is_last)

    def _run_one(self, missed: Missed, *, is_last: bool) -> None:
        id_ = missed.request.id
        with self._lock:
            # It may be running for the previous connection.
            self._changed.wait_for(lambda: id_ not in self._events and id_ not in self._running)
            if self._pending.get(id_) is not missed:
                return  # it was withdrawn or dropped
            if id_ in self._record:
                del self._pending[id_]
                return  # it has had its create, for an event of the previous connection or late
            self._running[id_] = []
        error = ""
        try:
            late_line(missed.name, missed.request, "")
            self._run(missed)
            self._record.add(id_)
        except StatusError as failure:
            error = failure.message
        except Exception as failure:  # the others must go on
            log.exception("unexpected error")
            error = escape(f"{type(failure).__name__}: {failure}")
        with self._lock:
            is_final = not error or is_last or self._pending.get(id_) is not missed
            if is_final and self._pending.get(id_) is missed:
                del self._pending[id_]
            self._failed += bool(error) and is_final
            self._succeeded += not error
        if error:
            late_line(missed.name, missed.request, error, is_final=is_final)
        self._finish(id_)

    def _finish(self, id_: str) -> None:
        """Run what is to run after the late ``create`` of an id."""
        while True:
            with self._lock:
                if not self._running[id_]:
                    del self._running[id_]
                    self._changed.notify_all()
                    return
                then = self._running[id_].pop(0)
            try:
                then()
            except Exception:
                log.exception("unexpected error")


_LIVES = (api.ContainerState.CONTAINER_RUNNING, api.ContainerState.CONTAINER_PAUSED)


class Missed(NamedTuple):
    """A sandbox or container that lives and has not had its ``create``."""

    request: Request
    """Its ``create``, marked as late."""
    name: str
    """``NAMESPACE/POD[/CONTAINER]``."""


class Found(NamedTuple):
    """The result of a synchronization."""

    missed: list[list[Missed]]
    """For each pod the sandbox, if it was missed, and then its containers; no item is empty."""
    unproven: dict[str, list[Missed]]
    """By id, the sandboxes without a ``create`` that may be ready or stopped."""


def find_missed(pods: Sequence[api.PodSandbox], containers: Sequence[api.Container], done: Container[str]) -> Found:
    """Return the sandboxes and containers that live and are not among the ids of those that are *done*.

    Runtimes synchronize with what they know, which is more than what lives. containerd sends all sandboxes
    but unknown ones, where stopped ones have no pid, and created and running containers. CRI-O sends all sandboxes,
    where those that are stopped or without infra container have no pid, and created, running and paused containers.

    So a container lives if it runs or is paused. A created one gets its StartContainer later. A sandbox lives if it
    has a pid, or a container that lives: runtimes stop the containers first. A sandbox without both may be ready or
    stopped; it is proven ready by the start of a container in it.
    """
    by_pod: dict[str, list[api.Container]] = {}
    for container in containers:
        if container.id and container.state in _LIVES:
            by_pod.setdefault(container.pod_sandbox_id, []).append(container)
    by_id = {pod.id: pod for pod in pods if pod.id}
    result = Found([], {})
    for id_ in [*by_id, *[id_ for id_ in by_pod if id_ not in by_id]]:
        pod = by_id.get(id_)
        group: list[Missed] = []
        if pod is not None and id_ not in done:
            sandbox = Missed(requests.of_pod(pod, State.CREATE).replace(late=True), requests.name_of(pod))
            if pod.pid or id_ in by_pod:
                group.append(sandbox)
            else:
                result.unproven[id_] = [sandbox]
        about = pod or api.PodSandbox(id=id_)
        group += [_of_container(about, container) for container in by_pod.get(id_, ()) if container.id not in done]
        if group:
            result.missed.append(group)
    return result


def _of_container(pod: api.PodSandbox, container: api.Container) -> Missed:
    request = requests.of_container(pod, container, State.CREATE).replace(late=True)
    return Missed(request, requests.name_of(pod, container))
