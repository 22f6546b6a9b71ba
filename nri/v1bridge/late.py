"""The worker: what is due for pods and containers that run, in a thread of its own, one after the other.

It looks each second, and when something has happened, whether the configuration, the options or an executable has
changed, compares each row of the memory with that, and runs what is due:

- a sandbox comes before its containers;
- what fails is tried three times, after all others; then it is listed, until a change, or the next connection;
- ``create`` and ``delete`` never run at the same time, and ``delete`` is last;
- before the first valid configuration nothing runs, and what has started without one is listed;
- when the connection ends, what has not begun is left to the next one, whose synchronization finds it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING

from nri.process.background import in_background
from nri.process.children import stat_fields
from nri.types.v1 import State
from nri.v1bridge.memory import CREATE, DONE, DUE, FAILED, PAUSES, RELEASE, RUNNING
from nri.v1bridge.requests import Subject
from nri.v1bridge.runs import late_line
from nri.v2 import api

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nri.v1bridge.memory import Due, Memory, Ran, Row, Verdict
    from nri.v1bridge.options import BridgeOptions

LOOK_EVERY = 1.0
"""Seconds between two looks of the worker."""

ALONE_WITHIN = 8.0
"""Seconds that a bridge which was launched before this one has to end: it finishes what it has begun."""

NO_CONFIGURATION = "there was no valid configuration when it started"
OFF = 'it started without the bridge ("lateCreate": false)'

log = logging.getLogger("nri.v1bridge")


class Worker:
    """Works off what is due. All methods may be called from any thread.

    :param look: looks at the configuration and the executables; returns a number that changes with them, None while
        there is no valid configuration.
    :param due: returns the verdict on a row.
    :param run: runs that for a row; returns what has run, and the error, "" without one.
    :param options: returns the options.
    :param is_alone: see ``nri.v1bridge.bridge.Bridge``.
    """

    def __init__(
        self,
        memory: Memory,
        look: Callable[[], int | None],
        due: Callable[[Row], Verdict],
        run: Callable[[Row, Sequence[Due]], tuple[Sequence[Ran], str]],
        options: Callable[[], BridgeOptions],
        is_alone: Callable[[float], bool],
    ) -> None:
        self._memory, self._look, self._due, self._run = memory, look, due, run
        self._options, self._is_alone = options, is_alone
        self._is_active = self._is_ending = self._is_started = self._is_new = self._has_reported = False
        self._is_at_work = self._is_stopped = False
        self._judging = threading.Lock()
        self._begun = (0.0, 0, 0)  # when the work began that goes on, and what had succeeded and failed until then
        self._succeeded = self._failed = self._refused = 0  # the refused ones count as failed, too

    def start(self, *, is_new: bool = False) -> None:
        """Work, from now on, in the background; without a thread, the next call tries again.

        :param is_new: a connection has begun: another bridge of the node may be about to end.
        """
        with self._memory.changed:
            self._is_stopped = self._is_ending or (self._is_stopped and not is_new)
            self._is_active, self._is_new = not self._is_stopped, self._is_new or is_new
            is_started, self._is_started = self._is_started, True
            self._memory.wake.notify_all()
        if not is_started and (reason := in_background(self._loop, "late")):
            self._is_started = False
            if not self._has_reported:
                log.error("late: %s; trying again after each event", reason)
            self._has_reported = True

    def stop(self, *, for_good: bool = False) -> None:
        """Begin nothing more, and say what has not begun.

        :param for_good: the bridge ends.
        """
        with self._memory.changed:
            self._is_active, self._is_stopped, self._is_ending = False, True, self._is_ending or for_good
            self._memory.wake.notify_all()
        if left := self._memory.disconnect():
            log.warning("late: dropped %d that have not begun; the next synchronization finds them again", left)

    def counts(self) -> dict[str, int]:
        """Return what the status says of late work: docs/status.md."""
        failed = self._failed - self._refused
        ended = {"succeeded": self._succeeded, "failed": failed, "refused": self._refused}
        return {"waiting": self._memory.count(DUE), "running": self._memory.count(RUNNING), **ended}

    def wait_until_idle(self, timeout: float) -> bool:
        """Wait until nothing runs, nor a ``delete`` after it, for so many seconds; return whether nothing does."""
        with self._memory.changed:
            is_idle = lambda: not self._is_at_work and not self._memory.count(RUNNING)  # noqa: E731
            return self._memory.changed.wait_for(is_idle, timeout)

    def judge(self) -> int | None:
        """Compare all rows with the configuration as it is now; return its number, None if there is none."""
        with self._judging:
            return self._judge()

    def _judge(self) -> int | None:
        stamp = self._look()
        new = 0
        rows = [*self._memory.rows.values()]
        for row in rows:
            is_new = row.stamp != stamp and row.state in (DUE, DONE, FAILED) and row.subject is not None
            if stamp is not None and is_new:
                is_first = row.state == DUE and not row.tries and not row.is_created
                new += self._judge_one(row, stamp) and is_first
        if stamp is None:
            waiting = [row for row in rows if row.state == DUE]
            new = sum((None, State.CREATE) not in row.lacks for row in waiting)
            for row in waiting:
                self._memory.lack(row, State.CREATE, None, NO_CONFIGURATION, "unconfigured")
        if new:
            level, means = logging.WARNING, "running create for them"
            if not self._options().late_create:
                means = 'no plugin runs for them ("lateCreate": false)'
            if stamp is None:
                level, means = logging.ERROR, "no plugin runs for them before there is a valid configuration"
            log.log(level, "late: %d pods and containers have had no create; %s", new, means)
        return stamp

    def _judge_one(self, row: Row, stamp: int) -> bool:
        """Compare a row; return whether it has missed a ``create``."""
        verdict, options, without = self._due(row), self._options(), ""
        creates = any(task.what == CREATE for task in verdict.due)
        if creates and not options.late_create:
            without = OFF
            verdict = verdict._replace(due=[task for task in verdict.due if task.what != CREATE])
        self._memory.judge(row, verdict, stamp, reapplies=options.reapply, without=without)
        return creates

    def _loop(self) -> None:
        while not self._is_ending:
            with self._memory.changed:
                self._memory.wake.wait_for(lambda: self._is_active or self._is_ending)
            try:
                self._work()
            except Exception:  # such as no memory
                log.exception("unexpected error")
            with self._memory.changed:
                if not self._is_ending:
                    self._memory.wake.wait(self._pause())

    def _work(self) -> None:
        if self._is_new:
            self._is_alone(ALONE_WITHIN)
            self._is_new = False
            for row in [row for row in [*self._memory.rows.values()] if row.state == DUE]:
                self._memory.reload(row)
        while self._is_active and (stamp := self.judge()) is not None and (ready := self._ready()):
            for row in ready:
                if self._look() != stamp:
                    break
                self._run_one(row)
        time_, succeeded, failed = self._begun
        succeeded, failed = self._succeeded - succeeded, self._failed - failed
        if (succeeded or failed) and not self._memory.count(DUE, RUNNING):
            level, took = logging.WARNING if failed else logging.INFO, time.monotonic() - time_
            log.log(level, "late: create succeeded for %d, failed for %d, in %.1f s", succeeded, failed, took)
            self._begun = (0.0, self._succeeded, self._failed)

    def _ready(self) -> list[Row]:
        """Return the rows to run now, those with the fewest attempts first."""
        now = time.monotonic()
        rows = [row for row in [*self._memory.rows.values()] if row.state == DUE and row.retry_at <= now]
        return sorted(rows, key=lambda row: row.tries)

    def _pause(self) -> float:
        """Return the seconds until the next look; the caller has the lock."""
        now = time.monotonic()
        retries = [
            row.retry_at - now for row in self._memory.rows.values() if row.state == DUE and row.retry_at > now
        ]
        return min([LOOK_EVERY, *retries])

    def _run_one(self, row: Row) -> None:
        with self._memory.changed:
            self._is_at_work = self._is_active and self._memory.take(row)
        if not self._is_at_work:
            return
        begun, succeeded, failed = self._begun
        self._begun = (begun or time.monotonic(), succeeded, failed)
        ran: Sequence[Ran] = ()
        try:
            ran, error = self._run(row, row.due)
        except Exception as failure:  # the others must go on
            log.exception("unexpected error")
            error = f"{type(failure).__name__}: {failure}"
        row.tries += 1
        is_final = not error or row.tries >= len(PAUSES) or not self._is_active or row.then is not None
        if error and row.subject is not None:
            state = State.CREATE if any(task.what != RELEASE for task in row.due) else State.DELETE
            late_line(row.name, row.subject.request(state).replace(late=True), error, is_final=is_final)
            row.retry_at = time.monotonic() + PAUSES[min(row.tries, len(PAUSES) - 1)]
        failed_ = [chain for chain in ran if any(step.error for step in chain.steps)]
        self._failed += bool(error) and is_final
        self._refused += bool(failed_) and is_final and all(chain.is_refused for chain in failed_)
        self._succeeded += not error
        column = "succeeds" if not error else "gives up" if is_final else "fails"
        why = f"the late create has failed: {error}" if error and not any(chain.steps for chain in ran) else ""
        try:
            self._memory.ended(row, column, ran, why, stamp=row.stamp if column == "gives up" else -1)
            if then := row.then:  # a delete that has waited
                row.then = None
                then()
        finally:
            with self._memory.changed:
                self._is_at_work = False
                self._memory.changed.notify_all()


def own_pod(containers: Sequence[api.Container]) -> str:
    """Return the id of the pod that this process runs in, "" if it does not run in one.

    It is the one whose container was started with this process, or with one that has started it. Its containers that
    start before the bridge does, such as init containers, never have a ``setup``.
    """
    by_pid = {container.pid: container.pod_sandbox_id for container in containers if container.pid > 1}
    pid = os.getpid()
    while pid > 1:
        if pid in by_pid:
            return by_pid[pid]
        try:
            pid = int(stat_fields(pid)[1])
        except (OSError, ValueError, IndexError):
            break
    return ""


_LIVES = (api.ContainerState.CONTAINER_RUNNING, api.ContainerState.CONTAINER_PAUSED)


def living(pods: Sequence[api.PodSandbox], containers: Sequence[api.Container]) -> list[tuple[Subject, str]]:
    """Return the pods and containers that live, each sandbox first, with ``found``; ``unproven`` if it may not live.

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
    subjects = []
    for id_ in [*by_id, *[id_ for id_ in by_pod if id_ not in by_id]]:
        pod = by_id.get(id_)
        if pod is not None:
            subjects.append((Subject(pod), "found" if pod.pid or id_ in by_pod else "unproven"))
        about = pod or api.PodSandbox(id=id_)
        subjects += [(Subject(about, container), "found") for container in by_pod.get(id_, ())]
    return subjects
