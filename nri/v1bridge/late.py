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
from collections.abc import Callable, Sequence

from nri.node.compare import Due, has_create
from nri.node.reconcile import NO_CONFIGURATION, Verdict
from nri.node.record import RELEASE, UNCONFIGURED
from nri.process.background import in_background
from nri.process.children import stat_fields
from nri.types.v1 import State
from nri.v1bridge.memory import DONE, DUE, FAILED, PAUSES, RUNNING, Comparison, Memory, Row
from nri.v1bridge.options import BridgeOptions
from nri.v1bridge.requests import Subject
from nri.v1bridge.runs import late_failed
from nri.v2 import api

LOOK_EVERY = 1.0
"""Seconds between two looks of the worker."""

ALONE_WITHIN = 8.0
"""Seconds that a bridge which was launched before this one has to end: it finishes what it has begun."""

log = logging.getLogger("nri.v1bridge")


class Counted:
    """Numbers of rows that the worker has run, by outcome."""

    __slots__ = ("failed", "refused", "succeeded")

    def __init__(self, succeeded: int = 0, failed: int = 0, refused: int = 0) -> None:
        self.succeeded = succeeded
        self.failed = failed
        self.refused = refused

    def copy(self) -> Counted:
        """Return the numbers as they are now."""
        return Counted(self.succeeded, self.failed, self.refused)


class Worker:
    """Works off what is due. All methods may be called from any thread.

    :param look: looks at the configuration and the executables; returns a number that changes with them, None while
        there is no valid configuration.
    :param compare: compares a row with them.
    :param run: does for a row what is due of that; returns what that was, and what has come of it.
    :param options: returns the options.
    :param is_alone: see ``nri.v1bridge.bridge.Bridge``.
    """

    def __init__(
        self,
        memory: Memory,
        look: Callable[[], int | None],
        compare: Callable[[Row], Comparison],
        run: Callable[[Row], tuple[Sequence[Due], Verdict]],
        options: Callable[[], BridgeOptions],
        is_alone: Callable[[float], bool],
    ) -> None:
        self._memory = memory
        self._look = look
        self._compare = compare
        self._run = run
        self._options = options
        self._is_alone = is_alone
        self._is_active = True
        self._is_ending = self._is_started = self._is_new = self._has_reported = False
        self._is_at_work = False
        self._judging = threading.Lock()
        self._begun_at = 0.0  # when the work began that goes on; 0 if none does
        self._ended = Counted()
        self._logged = Counted()  # as it was when the last work was over

    def start(self, *, is_new: bool = False) -> None:
        """Work, from now on, in the background; without a thread, the next call tries again.

        :param is_new: a connection has begun: another bridge of the node may be about to end.
        """
        with self._memory.changed:
            if is_new:
                self._is_active = not self._is_ending
                self._is_new = True
            is_started = self._is_started
            self._is_started = True
            self._memory.wake.notify_all()
        if is_started:
            return
        reason = in_background(self._loop, "late")
        if reason:
            self._is_started = False
            if not self._has_reported:
                log.error("late: %s; trying again after each event", reason)
            self._has_reported = True

    def stop(self, *, for_good: bool = False) -> None:
        """Begin nothing more, and say what has not begun.

        :param for_good: the bridge ends.
        """
        with self._memory.changed:
            self._is_active = False
            self._is_ending |= for_good
            self._memory.wake.notify_all()
        left = self._memory.disconnect()
        if left:
            log.warning(
                "late: dropped %d that have not begun; the next synchronization finds them again",
                left,
            )

    def counts(self) -> dict[str, int]:
        """Return what the status says of late work: docs/status.md."""
        ended = self._ended
        rows = self._memory.counts()
        return {
            "waiting": rows[DUE],
            "running": rows[RUNNING],
            "succeeded": ended.succeeded,
            "failed": ended.failed,
            "refused": ended.refused,
        }

    def wait_until_idle(self, timeout: float) -> bool:
        """Wait until nothing runs, nor a ``delete`` after it, for so many seconds; return whether nothing does."""
        with self._memory.changed:
            is_idle = lambda: not self._is_at_work and not self._memory.counts()[RUNNING]  # noqa: E731
            return self._memory.changed.wait_for(is_idle, timeout)

    def judge(self) -> int | None:
        """Compare all rows with the configuration as it is now; return its number, None if there is none."""
        with self._judging:
            return self._judge()

    def _judge(self) -> int | None:
        stamp = self._look()
        rows = [*self._memory.rows.values()]
        if stamp is None:
            self._note_unconfigured()
            return None
        missed = 0
        for row in rows:
            is_compared = row.attempts.stamp == stamp or row.subject is None
            if is_compared or row.state not in (DUE, DONE, FAILED):
                continue
            is_first = row.state == DUE and row.attempts.count == 0 and not row.facts.is_created
            has_missed = self._judge_one(row, stamp)
            missed += is_first and has_missed
        if missed:
            means = "running create for them"
            if not self._options().late_create:
                means = 'no plugin runs for them ("lateCreate": false)'
            log.warning("late: %d pods and containers have had no create; %s", missed, means)
        return stamp

    def _note_unconfigured(self) -> None:
        """List what has started before the first valid configuration."""
        new = 0
        for row in self._memory.due_rows():
            new += row.facts.without is None
            self._memory.lack(row, NO_CONFIGURATION, UNCONFIGURED)
        if new:
            means = "no plugin runs for them before there is a valid configuration"
            log.error("late: %d pods and containers have had no create; %s", new, means)

    def _judge_one(self, row: Row, stamp: int) -> bool:
        """Compare a row; return whether it has missed a ``create``."""
        comparison = self._compare(row)
        options = self._options()
        self._memory.judge(
            row, comparison, stamp, reapplies=options.reapply, creates=options.late_create
        )
        return has_create(comparison.due)

    def _loop(self) -> None:
        while not self._is_ending:
            try:
                self._work()
            except Exception:  # such as no memory
                log.exception("unexpected error")
            with self._memory.changed:
                self._memory.wake.wait(LOOK_EVERY)

    def _work(self) -> None:
        if self._is_new:
            self._is_alone(ALONE_WITHIN)
            self._is_new = False
            for row in self._memory.due_rows():
                self._memory.reload(row)
        while self._is_active:
            stamp = self.judge()
            ready = [] if stamp is None else self._ready()
            if not ready:
                break
            for row in ready:
                if self._look() != stamp:
                    break
                self._run_one(row)
        self._log_end()

    def _log_end(self) -> None:
        """Log the end of the work, if it is over."""
        succeeded = self._ended.succeeded - self._logged.succeeded
        failed = (
            self._ended.failed + self._ended.refused - self._logged.failed - self._logged.refused
        )
        rows = self._memory.counts()
        if not (succeeded or failed) or rows[DUE] + rows[RUNNING]:
            return
        level = logging.WARNING if failed else logging.INFO
        took = time.monotonic() - self._begun_at
        log.log(
            level,
            "late: create succeeded for %d, failed for %d, in %.1f s",
            succeeded,
            failed,
            took,
        )
        self._begun_at = 0.0
        self._logged = self._ended.copy()

    def _ready(self) -> list[Row]:
        """Return the rows to run now, those with the fewest attempts first."""
        now = time.monotonic()
        rows = [row for row in self._memory.due_rows() if row.attempts.retry_at <= now]
        return sorted(rows, key=lambda row: row.attempts.count)

    def _run_one(self, row: Row) -> None:
        with self._memory.changed:
            self._is_at_work = self._is_active and self._memory.take(row)
        if not self._is_at_work:
            return
        self._begun_at = self._begun_at or time.monotonic()
        try:
            done, verdict = self._run(row)
        except Exception as failure:  # the host's own fault; the others must go on
            log.exception("unexpected error")
            done = ()
            verdict = Verdict(f"{type(failure).__name__}: {failure}")
            self._memory.lack(row, f"the late create has failed: {verdict.error}", "failed")
        column = self._column(row, verdict, has_created=bool(done))
        try:
            stamp = row.attempts.stamp if column == "gives up" else -1
            self._memory.ended(row, column, stamp=stamp, done=done)
            then = row.then
            if then is not None:  # a delete that has waited
                row.then = None
                then()
        finally:
            with self._memory.changed:
                self._is_at_work = False
                self._memory.changed.notify_all()

    def _column(self, row: Row, verdict: Verdict, *, has_created: bool) -> str:
        """Return what the end of a row's work means; count and log it.

        :param has_created: something that ``compare`` said was due; else an ``update`` alone has followed.
        """
        if not verdict.error:
            self._ended.succeeded += has_created
            return "succeeds"
        attempts = row.attempts
        attempts.count += 1
        attempts.retry_at = time.monotonic() + PAUSES[min(attempts.count, len(PAUSES) - 1)]
        is_last = attempts.count >= len(PAUSES)
        # It is not tried again when the connection is over, or a delete waits.
        is_final = is_last or not self._is_active or row.then is not None
        steps = {task.what for task in row.due}
        state = State.DELETE if steps == {RELEASE} else State.CREATE
        request = row.request(state).replace(late=True)
        late_failed(row.name, request, f"nri v0.1: {verdict.error}", is_final=is_final)
        if not is_final:
            return "fails"
        if verdict.is_refused:
            self._ended.refused += 1
        else:
            self._ended.failed += 1
        return "gives up"


def own_pod(containers: Sequence[api.Container]) -> str:
    """Return the id of the pod that this process runs in, "" if it does not run in one.

    It is the one whose container was started with this process, or with one that has started it. Its containers that
    start before the bridge does, such as init containers, never have a ``setup``.
    """
    by_pid = {container.pid: container.pod_sandbox_id for container in containers}
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


def living(
    pods: Sequence[api.PodSandbox], containers: Sequence[api.Container]
) -> list[tuple[Subject, str]]:
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
    subjects = []
    for pod in pods:
        if pod.id:
            of_pod = by_pod.pop(pod.id, [])
            column = "found" if pod.pid or of_pod else "unproven"
            subjects.append((Subject(pod), column))
            subjects += _found(pod, of_pod)
    for id_, of_pod in by_pod.items():  # their pods are not known
        subjects += _found(api.PodSandbox(id=id_), of_pod)
    return subjects


def _found(pod: api.PodSandbox, containers: Sequence[api.Container]) -> list[tuple[Subject, str]]:
    return [(Subject(pod, container), "found") for container in containers]
