"""The bridge's memory of each pod and container: a row with its facts and the state of its next step.

A row is in one of six states. Each cell is the next state; a dash cannot happen:

| state | found | unproven | begins | succeeds | fails | gives up | is refused | is due | disconnects |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| new | due | held | running | - | - | - | - | new | new |
| held | due | held | running | - | - | - | - | held | new |
| due | due | due | running | done | - | - | - | due | new |
| running | running | running | - | done | due | failed | new | running | running |
| done | done | done | running | done | - | - | - | due | done |
| failed | due | held | running | done | - | - | - | due | failed |

``found``: a synchronization shows that it lives; ``unproven``: it shows a sandbox that may be ready or stopped, since
it has neither a process nor a container that lives. ``begins``: an event's ``create`` or the worker takes it, one at
a time, and a ``delete`` waits for its end. ``succeeds``: also if nothing is due any more. ``fails``: it is tried
again; ``gives up``: it is not, and listed. ``is refused``: the runtime does not start it. ``is due``: ``compare``
says so. A ``delete`` removes the row.

The facts are on record (``nri.node.record``), so the next bridge goes on where this one ended.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from nri.config.entries import PluginEntry, types_of
from nri.node.compare import CREATE, Due, forget, has_create, lacking
from nri.node.reconcile import note_missed
from nri.node.record import CAUSES, OFF, Facts, Outcome, over
from nri.types.v1 import Request, State
from nri.v1bridge.counts import split_name
from nri.v1bridge.dropped import Part
from nri.v1bridge.record import Record
from nri.v1bridge.requests import Subject

MAX_ROWS = 20_000
"""Pods and containers that are remembered; beyond that the oldest is forgotten. A node has some hundreds."""

NEW = "new"
HELD = "held"
DUE = "due"
RUNNING = "running"
DONE = "done"
FAILED = "failed"
"""The states of a row."""

COLUMNS = (
    "found",
    "unproven",
    "begins",
    "succeeds",
    "fails",
    "gives up",
    "is refused",
    "is due",
    "disconnects",
)
MOVES = {
    NEW: (DUE, HELD, RUNNING, None, None, None, None, NEW, NEW),
    HELD: (DUE, HELD, RUNNING, None, None, None, None, HELD, NEW),
    DUE: (DUE, DUE, RUNNING, DONE, None, None, None, DUE, NEW),
    RUNNING: (RUNNING, RUNNING, None, DONE, DUE, FAILED, NEW, RUNNING, RUNNING),
    DONE: (DONE, DONE, RUNNING, DONE, None, None, None, DUE, DONE),
    FAILED: (DUE, HELD, RUNNING, DONE, None, None, None, DUE, FAILED),
}

PAUSES = (0.0, 1.0, 5.0)
"""Seconds before each attempt of the worker."""

MAX_LISTED = 1000
"""Entries of ``withoutPlugins`` in a status; all are counted."""

OFF_REASON = 'it started without the bridge ("lateCreate": false)'


class Attempts:
    """The worker's attempts at a row.

    :ivar count: those since it has become due.
    :ivar retry_at: when the next one may be, a time of ``time.monotonic``.
    :ivar stamp: the number of the configuration with which the row was compared last; -1 if it is to be compared.
    """

    __slots__ = ("count", "retry_at", "stamp")

    def __init__(self) -> None:
        self.count = 0
        self.retry_at = 0.0
        self.stamp = -1

    def begin(self) -> None:
        """Begin anew."""
        self.count = 0
        self.retry_at = 0.0


class Row:
    """A pod or container.

    :ivar subject: what the runtime says of it; None for one that is only on record.
    :ivar asked: the types whose reapply or release was asked for.
    :ivar due: what ``compare`` said last.
    :ivar version: changes with the facts.
    :ivar created: its parts when its creation was asked about; None if that is not known.
    :ivar then: what runs when the worker has done with it: a ``delete`` that could not wait.
    """

    def __init__(self, id_: str, facts: Facts) -> None:
        self.id = id_
        self.facts = facts
        self.subject: Subject | None = None
        self.state = NEW
        self.attempts = Attempts()
        self.asked: frozenset[str] = frozenset()
        self.due: Sequence[Due] = ()
        self.version = 0
        self.created: set[Part] | None = None
        self.then: Callable[[], object] | None = None

    @property
    def name(self) -> str:
        """``NAMESPACE/POD[/CONTAINER]``."""
        return self.facts.name

    @property
    def known(self) -> Subject:
        """What the runtime says of it; a chain for one that is only on record is a bug."""
        if self.subject is None:
            raise AssertionError(f"{self.id}: there is no subject")
        return self.subject

    @property
    def digest(self) -> int:
        """A digest of its resources, 0 if there are none."""
        return self.known.resources

    def request(self, state: str) -> Request:
        """Return a request about it."""
        return self.known.request(state)

    def move(self, column: str) -> None:
        """Go to the next state of the table; a move that the table does not have is a bug."""
        state = MOVES[self.state][COLUMNS.index(column)]
        if state is None:
            raise AssertionError(f"{self.id}: {self.state}: {column}")
        self.state = state

    @property
    def outdated(self) -> list[Due]:
        """The entries that would be reapplied or released."""
        return _outdated(self.due)

    def to_do(self, *, reapplies: bool) -> list[Due]:
        """Return what the worker does of what is due.

        :param reapplies: what is outdated is to be done, too, and not only where that was asked for.
        """
        if reapplies:
            return [*self.due]
        return [task for task in self.due if task.what == CREATE or task.entry.type in self.asked]

    @property
    def row(self) -> Row:
        """Itself: see ``Told``."""
        return self

    def state_on_record(self) -> str:
        """Return the state of a row that was read from the record."""
        if _lacks_create(self.facts):
            return FAILED
        return DONE if self.facts.is_created else NEW


class Told:
    """A pod or container as an event tells of it, which may differ from what was known: see ``Row``."""

    __slots__ = ("row", "subject")

    def __init__(self, row: Row, subject: Subject) -> None:
        self.row = row
        self.subject = subject

    @property
    def name(self) -> str:
        """``NAMESPACE/POD[/CONTAINER]``."""
        return self.subject.name

    @property
    def facts(self) -> Facts:
        """Those of its row."""
        return self.row.facts

    @property
    def digest(self) -> int:
        """A digest of its resources, 0 if they are not known."""
        return self.subject.resources

    def request(self, state: str) -> Request:
        """Return a request about it."""
        return self.subject.request(state)


class Memory:
    """The rows. Any thread may call all methods; one that changes a row has the lock of these two.

    :ivar changed: notified when a row has been run.
    :ivar wake: what the worker waits for: that there is something to do.
    """

    def __init__(self) -> None:
        lock = threading.Lock()
        self.changed = threading.Condition(lock)
        self.wake = threading.Condition(lock)
        self.rows: dict[str, Row] = {}
        self.record = Record()

    def load(self, directory: str) -> None:
        """Use the record in this directory from now on, and add what is in it to what is known."""
        with self.changed:
            is_new = directory != self.record.directory or self.record.fault != ""
            known = [*self.rows.values()] if is_new else []
            loaded: dict[str, Row] = {}
            for id_, facts in self.record.load(directory).items():
                loaded[id_] = Row(id_, facts)
                loaded[id_].state = loaded[id_].state_on_record()
            self.rows = loaded | self.rows
            for row in known:
                self.save(row)

    def retry(self) -> None:
        """Write again what could not be written, or was removed."""
        with self.changed:
            self.record.look()
            unwritten = [*self.record.unwritten]
        for id_ in unwritten:  # an event can have the lock meanwhile
            with self.changed:
                self.record.put(id_, self._get(id_).facts)

    def reload(self, row: Row) -> None:
        """Add what another bridge, which has ended by now, has done for a row that has not had its ``create``."""
        with self.changed:
            if row.facts.is_created:
                return
            other = self.record.read(row.id)
            if other is not None and other.is_created and _same_life(other.life, row.facts.life):
                row.facts = other
                row.version += 1

    # Synchronization, and the end of a connection

    def synchronize(self, found: Iterable[tuple[Subject, str]], existing: Collection[str]) -> None:
        """Note what exists.

        :param found: each pod and container that lives, with ``found`` or ``unproven``; a sandbox first.
        :param existing: the ids of all that exists.
        """
        with self.changed:
            for id_, row in [*self.rows.items()]:
                if id_ not in existing and row.state != RUNNING:
                    self._remove(id_)
            for subject, column in found:
                row = self._row(subject)
                self.rows[row.id] = self.rows.pop(row.id)  # a sandbox comes before its containers
                self._compare_resources(row, subject)
                row.move(column)
                row.attempts = Attempts()

    def _compare_resources(self, row: Row, subject: Subject) -> None:
        """Find a resize of which no bridge was told. What a runtime says when it connects is its memory."""
        facts = row.facts
        digest = subject.resources
        if not facts.is_created or not facts.seen or digest == 0:
            return
        # An old answer is no change: CRI-O sends the resources of the creation after it was restarted.
        if _correct(subject, facts):
            return
        facts.is_rewritten = True
        facts.see(digest, subject.oci_resources)
        self.save(row)

    def note_created(self, id_: str, parts: set[Part]) -> None:
        """Note the parts of a container as its creation was asked about."""
        with self.changed:
            self._get(id_).created = parts

    def rewritten(self, updates: Mapping[str, Mapping[str, Any]]) -> set[Row]:
        """Note updates that the runtime is about to write, by the container's id; return the rows of known ones.

        No ``update`` follows before ``make_due``: what plugins wrote until then would be overwritten.
        """
        noted = set()
        with self.changed:
            for id_, update in updates.items():
                row = self._get(id_)
                if row.subject is None:
                    continue
                noted.add(row)
                row.facts.is_rewritten = row.facts.is_unwritten = True
                resources = over(row.subject.oci_resources, update["resources"])
                row.facts.resources = row.subject.in_force = resources
                self.save(row)
        return noted

    def make_due(self, rows: Iterable[Row]) -> bool:
        """Have the worker run ``update`` where the runtime has written now; return whether there is such a row."""
        is_due = False
        with self.changed:
            for row in rows:
                row.facts.is_unwritten = False
                if row.facts.is_rewritten:
                    self._make_due(row)
                    is_due = True
        return is_due

    def prove(self, id_: str) -> bool:
        """Note that a sandbox is ready; return whether that was not known."""
        with self.changed:
            row = self._get(id_)
            if row.state != HELD:
                return False
            row.move("found")
            return True

    def disconnect(self) -> int:
        """Leave what is due to the next connection; return how many these are. What runs is not tried again."""
        with self.changed:
            due = self.due_rows()
            for row in self.rows.values():
                if row.state == RUNNING:
                    row.attempts.count = len(PAUSES)
                row.move("disconnects")
            self.changed.notify_all()
        return len(due)

    # Events

    def begin(self, subject: Subject, within: float) -> Row | None:
        """Return the row of a ``create`` that an event runs; None if the worker is still at it.

        :param within: seconds that the worker is waited for.
        """
        with self.changed:
            row = self._row(subject)
            if not self._await(row, within):
                return None
            row.move("begins")
            return row

    def ended(self, row: Row, column: str, *, stamp: int = -1, done: Sequence[Due] = ()) -> None:
        """Note the end of what an event's ``create``, or the worker, has run.

        :param column: ``succeeds``, ``fails``, ``gives up`` or ``is refused``.
        :param stamp: of the configuration that has run.
        :param done: what the worker has run.
        """
        with self.changed:
            row.attempts.stamp = stamp
            if column == "succeeds":
                row.due = ()
                row.asked = row.asked.difference(_types(done))
            row.move(column)
            self.changed.notify_all()

    def told(self, subject: Subject, state: str) -> Told:
        """Return a subject, about which an event is, with its row."""
        with self.changed:
            row = self.rows.get(subject.id)
            if state == State.SETUP:  # it is another container than one that had this id
                self._remove(subject.id)
                row = self._row(subject)
            elif row is None:
                row = self._row(subject)
            elif state == State.UPDATE:  # the new resources are in force
                row.subject = subject
            elif state == State.DELETE:
                _correct(subject, row.facts)
            return Told(row, subject)

    def withdraw(self, id_: str, within: float, then: Callable[[], object]) -> bool:
        """Have the worker leave a row alone, for a ``delete``; return whether that can run now.

        :param within: as for ``begin``; after that, *then* is called when the worker has done with the row.
        """
        with self.changed:
            row = self._get(id_)
            if not self._await(row, within):
                row.then = then
                return False
            row.move("disconnects")
            return True

    def remove(self, id_: str) -> None:
        """Forget a pod or container: it has ended."""
        with self.changed:
            self._remove(id_)

    def lack(self, row: Row, why: str, cause: str) -> None:
        """Note that a pod or container runs without all plugins; the first reason counts."""
        with self.changed:
            _lack(row.facts, why, cause)
            self.save(row)

    # For the worker

    def due_rows(self) -> list[Row]:
        """Return the rows that are due, a sandbox before its containers."""
        return [row for row in [*self.rows.values()] if row.state == DUE]

    def take(self, row: Row) -> bool:
        """Return whether the worker may run a row: it still is due. The caller has the lock."""
        if row.state != DUE or self.rows.get(row.id) is not row:
            return False
        row.move("begins")
        return True

    def judge(
        self, row: Row, comparison: Comparison, stamp: int, *, reapplies: bool, creates: bool
    ) -> None:
        """Note what ``compare`` says of a row.

        :param reapplies: what is outdated is to be done, too.
        :param creates: what has been missed is to be done; if not, it is listed.
        """
        with self.changed:
            if row.version != comparison.version:
                return  # something has happened meanwhile
            if row.state not in (DUE, DONE, FAILED):
                return
            facts = row.facts
            due = comparison.due
            is_off = not creates and has_create(due)
            row.attempts.stamp = stamp
            forget(facts, comparison.applying, types_of(comparison.missed), due)
            note_missed(facts, comparison.missed)
            if is_off:
                due = _outdated(due)
                _lack(facts, OFF_REASON, OFF)
            elif not has_create(due):
                facts.without = None
            row.due = due
            row.asked = row.asked.intersection(_types(row.outdated))
            self._move_as_due(row, self._is_due(row, reapplies=reapplies))
            self.save(row)

    def _is_due(self, row: Row, *, reapplies: bool) -> bool:
        """Return whether the worker has something to do for a row."""
        return row.facts.needs_update or bool(row.to_do(reapplies=reapplies))

    def _move_as_due(self, row: Row, is_due: bool) -> None:
        if not is_due:
            row.facts.is_created = True
            row.move("succeeds")
            self.changed.notify_all()
        elif row.state != DUE:
            self._make_due(row)

    def ask(self, wanted: Iterable[tuple[Row, Due]]) -> None:
        """Have some of what is ``outdated`` reapplied or released."""
        with self.changed:
            for row, task in wanted:
                row.asked |= {task.entry.type}
                self._make_due(row)

    def _make_due(self, row: Row) -> None:
        row.move("is due")
        row.attempts.begin()

    # For the status

    def lacking(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return what runs without plugins, the last ones in full and all counted, as docs/status.md has it."""
        entries: list[dict[str, Any]] = []
        containers = 0
        causes = Counter(dict.fromkeys(CAUSES, 0))
        counts: Counter[tuple[str | None, str, str]] = Counter()
        with self.changed:
            for row in self.rows.values():
                pod, container = split_name(row.name)
                about = {"id": row.id, "pod": pod, "container": container}
                lacks = lacking(row.facts)
                containers += bool(lacks)
                causes.update({lack.cause for lack in lacks})
                for lack in lacks:
                    of_lack = {"plugin": lack.plugin, "state": lack.state}
                    of_lack |= {"why": lack.why, "cause": lack.cause}
                    entries.append({"since": lack.since, **about, **of_lack})
                    counts[lack.plugin, lack.state, lack.cause] += 1
        entries.sort(key=lambda entry: entry["since"])
        by = []
        for (plugin, state, cause), count in counts.items():
            by.append({"plugin": plugin, "state": state, "cause": cause, "count": count})
        return entries[-MAX_LISTED:], {"containers": containers, "causes": causes, "by": by}

    def of_pod(self, pod: str) -> list[dict[str, Any]]:
        """Return what a pod, ``NAMESPACE/POD``, and its containers have had, as docs/status.md has it."""
        with self.changed:
            rows = []
            for row in self.rows.values():
                of_pod, container = split_name(row.name)
                if of_pod == pod:
                    rows.append(_shown(row, container))
            return rows

    def outdated(self) -> list[tuple[Row, Due]]:
        """Return what would be reapplied or released."""
        outdated: list[tuple[Row, Due]] = []
        for row in [*self.rows.values()]:
            for task in row.outdated:
                outdated.append((row, task))
        return outdated

    def counts(self) -> Counter[str]:
        """Return the number of rows in each state; one that was asked for is due."""
        counts: Counter[str] = Counter()
        for row in [*self.rows.values()]:
            is_asked = row.state == DONE and bool(row.asked)
            counts[DUE if is_asked else row.state] += 1
        return counts

    # With the lock

    def _get(self, id_: str) -> Row:
        """Return the row of an id; for one that is not known a new one, which is in no list."""
        return self.rows.get(id_, Row(id_, Facts()))

    def _row(self, subject: Subject) -> Row:
        """Return the row of a subject; a new one for another life of its id."""
        row = self.rows.get(subject.id)
        if row is not None and row.then is None and not _same_life(row.facts.life, subject.life):
            self._remove(subject.id)
            row = None
        if row is None:
            row = self.rows[subject.id] = Row(subject.id, Facts(subject.name))
            if len(self.rows) > MAX_ROWS:
                self._remove(next(iter(self.rows)))
        row.subject = subject
        row.facts.name = row.facts.name or subject.name
        row.facts.life = subject.life or row.facts.life
        return row

    def _await(self, row: Row, within: float) -> bool:
        return self.changed.wait_for(lambda: row.state != RUNNING, within)

    def _remove(self, id_: str) -> None:
        if self.rows.pop(id_, None) is not None:
            self.record.put(id_, Facts())

    def save(self, row: Row) -> None:
        """Write what is to be remembered of a row. The caller has the lock."""
        row.version += 1
        if self.rows.get(row.id) is row:
            self.record.put(row.id, row.facts)


class Comparison:
    """The comparison of a row with the configuration in use.

    :ivar version: ``Row.version`` when it was compared.
    :ivar due: what ``compare`` says.
    :ivar applying: the types that apply to it.
    :ivar missed: the entries whose ``setup`` it has missed, and which its ``create`` does not make up for.
    """

    __slots__ = ("applying", "due", "missed", "version")

    def __init__(
        self,
        version: int,
        due: Sequence[Due] = (),
        applying: Collection[str] = (),
        missed: Sequence[PluginEntry] = (),
    ) -> None:
        self.version = version
        self.due = due
        self.applying = applying
        self.missed = missed


def _same_life(one: str, other: str) -> bool:
    """Return whether these can be lives of one container: the same, or told in different ways; "" is not known."""
    return one == other or one.partition(":")[0] != other.partition(":")[0]


def _correct(subject: Subject, facts: Facts) -> bool:
    """Have a subject show the resources in force, if it has known ones; return whether it has."""
    is_known = subject.resources in facts.seen
    if is_known:
        subject.in_force = facts.resources
    return is_known


def _lack(facts: Facts, why: str, cause: str) -> None:
    if not _lacks_create(facts):
        facts.without = Outcome(cause, why)


def _lacks_create(facts: Facts) -> bool:
    """Return whether a container is listed as one that runs without a ``create``."""
    return any(lack.state == CREATE for lack in lacking(facts))


def _types(due: Sequence[Due]) -> list[str]:
    """Return the type of each entry that is due."""
    return [task.entry.type for task in due]


def _outdated(due: Sequence[Due]) -> list[Due]:
    """Return what is due without ``create``."""
    return [task for task in due if task.what != CREATE]


def _shown(row: Row, container: str | None) -> dict[str, Any]:
    """Return what a row has had, as docs/status.md has it."""
    plugins = []
    for entry in row.facts.entries.values():
        states = entry.done_states
        is_failed = entry.create.is_lack
        if is_failed:
            states.append(CREATE)
        if states:
            about = {"plugin": entry.type, "states": states, "failed": is_failed}
            plugins.append({**about, "result": entry.result})
    without = []
    for lack in lacking(row.facts):
        about = {"plugin": lack.plugin, "state": lack.state, "since": lack.since}
        without.append(about | {"why": lack.why, "cause": lack.cause})

    return {
        "id": row.id,
        "container": container,
        "state": row.state,
        "plugins": plugins,
        "due": [{"plugin": task.entry.type, "what": task.what} for task in row.due],
        "without": without,
    }
