"""What the bridge knows of each pod and container: one row with what it has had, and what becomes of it.

A row is in one of six states. Each cell is the next state; a dash cannot happen:

| state | found | unproven | begins | succeeds | fails | gives up | is refused | is due | disconnects |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| new | due | held | running | - | - | - | - | - | new |
| held | due | held | running | - | - | - | - | - | new |
| due | due | due | running | done | - | - | - | due | new |
| running | running | running | - | done | due | failed | new | running | running |
| done | done | done | running | done | - | - | - | due | done |
| failed | due | held | running | done | - | - | - | due | failed |

``found``: a synchronization shows that it lives; ``unproven``: it shows a sandbox that may be ready or stopped, since
it has neither a process nor a container that lives. ``begins``: an event's ``create`` or the worker takes it, one at
a time, and a ``delete`` waits for its end. ``succeeds``: also if nothing is due any more. ``fails``: it is tried
again; ``gives up``: it is not, and listed. ``is refused``: the runtime does not start it. ``is due``: ``compare``
says so. A ``delete`` removes the row.

``compare`` is the one answer to what is due. What has been done is on record (``nri.v1bridge.record``), so the
next bridge goes on where this one ended.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from nri.config.entries import PluginEntry
from nri.errors import bounded, escape
from nri.files import identity
from nri.types import DecodeError
from nri.types.v1 import Result, State
from nri.v1bridge.counts import MAX_ERROR, split_name
from nri.v1bridge.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from nri.client import Step
    from nri.v1bridge.requests import Subject

MAX_ROWS = 20_000
"""Pods and containers that are remembered; beyond that the oldest is forgotten. A node has some hundreds."""

NEW, HELD, DUE, RUNNING, DONE, FAILED = "new", "held", "due", "running", "done", "failed"
"""The states of a row."""

COLUMNS = ("found", "unproven", "begins", "succeeds", "fails", "gives up", "is refused", "is due", "disconnects")
MOVES = {
    NEW: (DUE, HELD, RUNNING, None, None, None, None, None, NEW),
    HELD: (DUE, HELD, RUNNING, None, None, None, None, None, NEW),
    DUE: (DUE, DUE, RUNNING, DONE, None, None, None, DUE, NEW),
    RUNNING: (RUNNING, RUNNING, None, DONE, DUE, FAILED, NEW, RUNNING, RUNNING),
    DONE: (DONE, DONE, RUNNING, DONE, None, None, None, DUE, DONE),
    FAILED: (DUE, HELD, RUNNING, DONE, None, None, None, DUE, FAILED),
}

PAUSES = (0.0, 1.0, 5.0)
"""Seconds before each attempt of the worker."""

MAX_RESULT = 16 * 1024
"""Bytes of a plugin's last result that are kept; of a longer one there is no ``prevResult``."""

MAX_LISTED = 1000
"""Entries of ``withoutPlugins`` in a status; all are counted."""

CREATE, REAPPLY, RELEASE = "create", "reapply", "release"
"""What can be due: a ``create`` that was missed; one in place of an older entry; the ``delete`` of an older entry."""

MISSED_SETUP = "its setup was missed: the container was created without it"

CAUSES = ("failed", "ignored", "refused", "missed", "unconfigured", "off")
"""Why a pod or container runs without a plugin: the plugin has failed, or that was ignored; it refuses the container;
its ``setup`` was missed; there was no valid configuration; ``lateCreate`` is false."""


class Had(NamedTuple):
    """What a container has had of one entry of the configuration."""

    key: str
    """``PluginEntry.key``."""
    document: str
    """``PluginEntry.document``."""
    states: tuple[str, ...]
    """Those that have run, ``State.CREATE`` also if it failed."""
    failed_with: tuple[int, ...] | None = None
    """The executable with which its ``create`` has failed; None if it has not."""
    result: str = ""
    """The last result, as JSON; "" if it is not kept."""
    is_ignored: bool = False
    """True if that failure was ignored: then only a change makes it due."""

    @property
    def type(self) -> str:
        """The plugin's type."""
        return self.key.partition(" ")[0]


class Holding(NamedTuple):
    """An entry of the configuration in use whose condition holds for a container."""

    key: str
    entry: PluginEntry
    acts: bool = True
    """False if its plugin is known not to act on ``create``."""
    binary: tuple[int, ...] = ()
    """Its executable as it is now."""


class Due(NamedTuple):
    """Something that is to be done for a container."""

    what: str
    """``CREATE``, ``REAPPLY`` or ``RELEASE``."""
    key: str
    entry: PluginEntry
    had: Had | None = None
    """What it follows."""


def compare(holds: Sequence[Holding], had: Sequence[Had], *, again: bool = False) -> list[Due]:
    """Return what is due for a container.

    | holds now | has had | due |
    | --- | --- | --- |
    | yes | nothing | ``create`` |
    | yes | the same entry | - |
    | yes | the same entry, whose ``create`` has failed | ``create`` with another executable |
    | yes | the same, and the failure was not ignored | ``create`` also *again* |
    | yes | the type with another conf | ``reapply`` |
    | yes | the type with another conf, whose ``create`` has failed | ``create`` |
    | no | the entry | ``release`` |
    | no | the entry, whose ``create`` has failed, or that has had no ``create`` | - |

    Several entries of a type are told apart by their keys first, and then by their order; those with one key are one.
    """
    created = {past.key: past for past in had if State.CREATE in past.states}
    due: list[Due] = []
    others = []
    for holding in holds:
        same = created.get(holding.key)
        if same is None:
            others.append(holding)
            continue
        is_changed = same.failed_with != holding.binary or (again and not same.is_ignored)
        if same.failed_with is not None and is_changed and holding.acts:
            due.append(Due(CREATE, holding.key, holding.entry, same))
    keys = {holding.key for holding in holds}
    left = [past for past in created.values() if past.failed_with is None and past.key not in keys]
    for holding in others:
        older = next((past for past in left if past.type == holding.entry.type), None)
        if older is not None:
            left.remove(older)
        if holding.acts:
            due.append(Due(CREATE if older is None else REAPPLY, holding.key, holding.entry, older))
    return due + [Due(RELEASE, past.key, PluginEntry.from_json(past.document), past) for past in left]


class Ran(NamedTuple):
    """A chain that has run for a container."""

    state: str
    """The state of its request; ``RELEASE`` for a ``delete`` of one that runs on."""
    steps: Sequence[Step]
    keyed: Callable[[PluginEntry], tuple[str, str]]
    """Returns the key and the document of an entry."""
    how: str = ""
    """The beginning of the reason why it runs without a plugin that has failed; "" if it is refused then."""
    replaces: Mapping[str, Had] = MappingProxyType({})
    """What it has had, by the keys of the entries that come in its place."""
    unreached: Collection[str] = ()
    """The types of the plugins behind the one that has failed."""
    binaries: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    """The executables before it, by type: one that is replaced meanwhile is another one."""

    @property
    def is_refused(self) -> bool:
        """Return whether plugins have refused the container, and none has failed."""
        errors = [step.error for step in self.steps if step.error is not None]
        return bool(errors) and all(error.refused for error in errors)

    def is_in_place(self, entry: PluginEntry) -> bool:
        """Return whether an entry comes in place of an older one, or is released."""
        return self.state == RELEASE or self.keyed(entry)[0] in self.replaces


class Verdict(NamedTuple):
    """What a host says of a container, by its configuration and conditions."""

    due: Sequence[Due] = ()
    """What ``compare`` says."""
    missed: Collection[str] = ()
    """The types whose ``setup`` it has missed, and which its ``create`` does not make up for."""
    types: Collection[str] = ()
    """The types that hold for it."""
    had: Sequence[Had] = ()
    """``Row.had`` when it was judged."""


class Row:
    """A pod or container.

    :ivar life: what tells it from an earlier one of the same id; "" if that is not known.
    :ivar is_created: its ``create`` has ended without an error, be it without plugins.
    :ivar setup: the types that its ``setup`` has asked, or left out for their conditions.
    :ivar lacks: by plugin (None for all) and state, since when it runs without that, why, and which of
        ``CAUSES``.
    :ivar resources: a digest of its resources when a plugin was asked last.
    :ivar is_resized: its resources have changed while no bridge was connected.
    :ivar asked: the types whose reapply or release was asked for.
    :ivar due: what ``compare`` said last.
    :ivar saved: what was written last.
    :ivar then: what runs when the worker has done with it: a ``delete`` that could not wait.
    """

    def __init__(self, id_: str, name: str = "", life: str = "") -> None:
        self.id, self.name, self.life = id_, name, life
        self.subject: Subject | None = None
        self.state, self.tries, self.retry_at, self.stamp = NEW, 0, 0.0, -1
        self.is_created = self.is_resized = False
        self.setup: list[str] = []
        self.had: list[Had] = []
        self.lacks: dict[tuple[str | None, str], tuple[float, str, str]] = {}
        self.resources = 0
        self.asked: frozenset[str] = frozenset()
        self.due: Sequence[Due] = ()
        self.saved: object = None
        self.then: Callable[[], object] | None = None

    def move(self, column: str) -> None:
        """Go to the next state of the table; a move that the table does not have is a bug."""
        state = MOVES[self.state][COLUMNS.index(column)]
        if state is None:
            raise AssertionError(f"{self.id}: {self.state}: {column}")
        self.state = state

    @property
    def outdated(self) -> list[Due]:
        """What would be reapplied or released."""
        return [task for task in self.due if task.what != CREATE]

    def previous(self, key: str) -> Result | None:
        """Return the last result of an entry, or of an older one of its type; None if there is none.

        :param key: ``PluginEntry.key``.
        """
        type_ = key.partition(" ")[0]
        of_type = [past for past in self.had if past.type == type_]
        text = next((past.result for past in sorted(of_type, key=lambda past: past.key != key)), "")
        try:
            return Result.from_json(text) if text else None
        except DecodeError:
            return None

    def to_value(self) -> dict[str, Any] | None:
        """Return what is on record of it; None if nothing is to be remembered."""
        if not (self.had or self.setup or self.lacks):
            return None
        lacks = [(*key, *lack) for key, lack in self.lacks.items()]
        about = {"name": self.name, "life": self.life, "created": self.is_created}
        return about | {"setup": self.setup, "resources": self.resources, "had": self.had, "lacks": lacks}

    @classmethod
    def from_value(cls, id_: str, value: Any) -> Row:
        """Return the row of a value on record, which is not trusted.

        :raises ValueError: it is not as ``to_value`` makes it; likewise TypeError, LookupError, DecodeError.
        """
        row = cls(id_, str(value["name"]), str(value["life"]))
        row.is_created = value["created"] is True
        row.resources, row.setup = int(value["resources"]), [str(plugin) for plugin in value["setup"]]
        for key, document, states, failed, result, is_ignored in value["had"]:
            PluginEntry.from_json(document)
            failed_with = None if failed is None else tuple(map(int, failed))
            about = str(key), document, tuple(map(str, states))
            row.had.append(Had(*about, failed_with, str(result), is_ignored is True))
        for plugin, state, since, why, cause in value["lacks"]:
            if cause not in CAUSES:
                raise ValueError(cause)
            row.lacks[None if plugin is None else str(plugin), str(state)] = float(since), str(why), cause
        has_failed = any(past.failed_with is not None and not past.is_ignored for past in row.had)
        row.state = FAILED if has_failed else DONE if row.is_created else NEW
        return row


class Memory:
    """The rows. Any thread may call all methods; one that changes a row has the lock of these two.

    :ivar changed: notified when a row has been run.
    :ivar wake: what the worker waits for: that there is something to do.
    """

    def __init__(self) -> None:
        lock = threading.Lock()
        self.changed, self.wake = threading.Condition(lock), threading.Condition(lock)
        self.rows: dict[str, Row] = {}
        self.record = Record()

    def load(self, directory: str) -> None:
        """Use the record in this directory from now on, and add what is in it to what is known."""
        with self.changed:
            known = [*self.rows.values()] if directory != self.record.directory or self.record.fault else []
            self.rows = self.record.load(directory, Row.from_value) | self.rows
            for row in known:
                row.saved = None
                self._save(row)

    def retry(self) -> None:
        """Write again what could not be written, or was removed."""
        with self.changed:
            self.record.look()
            unwritten = [*self.record.unwritten]
        for id_ in unwritten:  # an event can have the lock meanwhile
            with self.changed:
                row = self.rows.get(id_)
                self.record.put(id_, row and row.to_value())

    def reload(self, row: Row) -> None:
        """Add what another bridge, which has ended by now, has done for a row that has not had its ``create``."""
        with self.changed:
            other = None if row.is_created else self.record.read(row.id, Row.from_value)
            if other is not None and other.is_created and _same_life(other.life, row.life):
                row.had, row.setup, row.is_created, row.lacks = other.had, other.setup, True, other.lacks

    # Synchronization, and the end of a connection

    def synchronize(self, found: Iterable[tuple[Subject, str]], existing: Collection[str]) -> None:
        """Note what exists.

        :param found: each pod and container that lives, with ``found`` or ``unproven``; a sandbox first.
        :param existing: the ids of all that exists.
        """
        with self.changed:
            for id_ in [id_ for id_, row in self.rows.items() if id_ not in existing and row.state != RUNNING]:
                self._remove(id_)
            for subject, column in found:
                row = self._row(subject)
                self.rows[row.id] = self.rows.pop(row.id)  # a sandbox comes before its containers
                row.is_resized = row.is_created and row.resources not in (0, subject.resources)
                row.move(column)
                row.tries, row.retry_at, row.stamp = 0, 0.0, -1

    def prove(self, id_: str) -> bool:
        """Note that a sandbox is ready; return whether that was not known."""
        row = self.rows.get(id_)
        if row is None or row.state != HELD:
            return False
        with self.changed:
            if row.state == HELD:
                row.move("found")
        return True

    def disconnect(self) -> int:
        """Leave what is due to the next connection; return how many these are. What runs is not tried again."""
        with self.changed:
            due = [row for row in self.rows.values() if row.state == DUE]
            for row in self.rows.values():
                row.tries = len(PAUSES) if row.state == RUNNING else row.tries
                row.move("disconnects")
            self.changed.notify_all()
        return len(due)

    # Events

    def begin(self, subject: Subject, until: float | None) -> Row | None:
        """Return the row of a ``create`` that an event runs; None if the worker is still at it.

        :param until: a time of ``time.monotonic``; until then the worker is waited for.
        """
        with self.changed:
            row = self._row(subject)
            if not self._await(row, until):
                return None
            row.move("begins")
            row.is_resized = False
            return row

    def ended(
        self, row: Row, column: str, ran: Sequence[Ran], why: str = "", cause: str = "failed", *, stamp: int = -1
    ) -> None:
        """Note the end of what an event's ``create``, or the worker, has run.

        :param column: ``succeeds``, ``fails``, ``gives up`` or ``is refused``.
        :param ran: the chains that have run; of a refused start nothing is noted.
        :param why: why it runs without all of its plugins; "" if it does not, or some of them say it.
        :param cause: one of ``CAUSES`` for that.
        :param stamp: of the configuration that an event has run.
        """
        with self.changed:
            row.stamp, row.had = stamp, [*row.had]
            if column != "is refused":
                for chain in ran:
                    _note(row, chain)
                if why:
                    _lack(row, State.CREATE, None, why, cause)
                if column == "succeeds":
                    row.is_created, row.due, row.is_resized = True, (), False
                    row.asked -= {step.plugin.type for chain in ran for step in chain.steps}
                    row.lacks.pop((None, str(State.CREATE)), None)
                    row.resources = row.subject.resources if row.subject is not None else 0
            row.move(column)
            self._save(row)
            self.changed.notify_all()

    def note(self, subject: Subject, ran: Ran, judged: Iterable[str] = ()) -> None:
        """Note a ``setup``, ``resize`` or ``update``.

        :param judged: the types that ``setup`` has asked or left out.
        """
        if not (ran.steps or judged or (ran.state == State.UPDATE and subject.id in self.rows)):
            return
        with self.changed:
            if ran.state == State.SETUP:  # of another container than one that had this id
                self._remove(subject.id)
            before = self.rows.get(subject.id)
            is_asked = ran.state == State.RESIZE and before is not None  # its new resources are not in force yet
            row = before if is_asked and before is not None else self._row(subject)
            row.setup = [*judged] or row.setup
            if ran.state == State.UPDATE:
                row.resources = subject.resources
            _note(row, ran)
            self._save(row)

    def withdraw(self, id_: str, until: float | None, then: Callable[[], object]) -> bool:
        """Have the worker leave a row alone, for a ``delete``; return whether that can run now.

        :param until: as for ``begin``; after that, *then* is called when the worker has done with the row.
        """
        row = self.rows.get(id_)
        if row is None:
            return True
        with self.changed:
            if not self._await(row, until):
                row.then = then
                return False
            if row.state in (DUE, HELD):
                row.move("disconnects")
        return True

    def remove(self, id_: str) -> None:
        """Forget a pod or container: it has ended."""
        if id_ in self.rows:
            with self.changed:
                self._remove(id_)

    def lack(self, row: Row, state: str, plugin: str | None, why: str, cause: str) -> None:
        """Note that a pod or container runs without a plugin, or without all of them; the first reason counts."""
        with self.changed:
            if _lack(row, state, plugin, why, cause):
                self._save(row)

    # For the worker

    def drop(self, row: Row, had: Had | None) -> None:
        """Forget what a row has had of an entry that does not give back."""
        with self.changed:
            row.had = [past for past in row.had if past is not had]
            self._save(row)

    def take(self, row: Row) -> bool:
        """Return whether the worker may run a row: it still is due. The caller has the lock."""
        if row.state != DUE or self.rows.get(row.id) is not row:
            return False
        row.move("begins")
        return True

    def judge(self, row: Row, verdict: Verdict, stamp: int, *, reapplies: bool, without: str = "") -> None:
        """Note what ``compare`` says of a row.

        :param reapplies: what is outdated is to be done, too.
        :param without: why a ``create`` that it has missed is not to be done, "" if it was not missed, or is due.
        """
        due, missed, types, had = verdict
        with self.changed:
            if self.rows.get(row.id) is not row or row.had is not had or row.state not in (DUE, DONE, FAILED):
                return  # something has happened meanwhile
            row.stamp, row.due = stamp, due
            row.asked &= {task.entry.type for task in row.outdated}
            before = {*row.lacks}
            # One that has failed and does not hold any more is not listed; if it holds again, it is due.
            kept = [past for past in had if past.failed_with is None or past.type in types]
            is_changed, row.had = len(kept) < len(had), kept if len(kept) < len(had) else row.had
            open_ = {task.entry.type for task in due}
            open_ |= {past.type for past in had if past.failed_with is not None}
            for plugin, state in [key for key in row.lacks if key[0] is not None]:
                is_over = state != RELEASE and plugin not in types
                is_over = is_over or (state in (State.CREATE, RELEASE) and plugin not in open_)
                is_over = is_over or (state == State.UPDATE and not row.is_resized)
                is_missed = row.lacks[plugin, state][2] == "missed"
                if is_over or (is_missed and plugin not in missed):
                    del row.lacks[plugin, state]
            for plugin in missed:
                _lack(row, State.SETUP, plugin, MISSED_SETUP, "missed")
            if without:
                _lack(row, State.CREATE, None, without, "off")
            is_due = len(row.outdated) < len(due) or row.is_resized
            is_due = is_due or any(reapplies or task.entry.type in row.asked for task in row.outdated)
            if row.state in (DUE, FAILED) and not is_due:
                row.is_created = True
                if not without:
                    row.lacks.pop((None, str(State.CREATE)), None)
                row.move("succeeds")
                self.changed.notify_all()
            elif row.state in (DONE, FAILED) and is_due:
                row.move("is due")
                row.tries, row.retry_at = 0, 0.0
            if is_changed or before != {*row.lacks}:
                self._save(row)

    def ask(self, wanted: Iterable[tuple[Row, Due]]) -> None:
        """Have some of what is ``outdated`` reapplied or released."""
        with self.changed:
            for row, task in wanted:
                row.asked |= {task.entry.type}
                if row.state in (DONE, FAILED, DUE):
                    row.move("is due")
                    row.tries, row.retry_at = 0, 0.0

    # For the status

    def lacking(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return what runs without plugins, the last ones in full and all counted, as docs/status.md has it."""
        with self.changed:
            entries = [
                (since, row.id, *split_name(row.name), plugin, state, why, cause)
                for row in self.rows.values()
                for (plugin, state), (since, why, cause) in row.lacks.items()
            ]
        keys = ("since", "id", "pod", "container", "plugin", "state", "why", "cause")
        entries.sort(key=lambda entry: entry[0])
        counts = Counter((plugin, state, cause) for *_, plugin, state, _, cause in entries)
        by = [{"plugin": key[0], "state": key[1], "cause": key[2], "count": counts[key]} for key in counts]
        of_cause = Counter(cause for _, cause in {(entry[1], entry[-1]) for entry in entries})
        last = [dict(zip(keys, entry, strict=True)) for entry in entries[-MAX_LISTED:]]
        about = {
            "containers": len({id_ for _, id_, *_ in entries}),
            "causes": {cause: of_cause[cause] for cause in CAUSES},
            "by": by,
        }
        return [entry | {"container": entry["container"] or None} for entry in last], about

    def of_pod(self, pod: str) -> list[dict[str, Any]]:
        """Return what a pod, ``NAMESPACE/POD``, and its containers have had, as docs/status.md has it."""
        with self.changed:
            return [
                {
                    "id": row.id,
                    "container": split_name(row.name)[1] or None,
                    "state": row.state,
                    "plugins": [
                        {
                            "plugin": had.type,
                            "states": [*had.states],
                            "failed": had.failed_with is not None,
                            "result": had.result or None,
                        }
                        for had in row.had
                    ],
                    "due": [{"plugin": task.entry.type, "what": task.what} for task in row.due],
                    "without": [
                        {"plugin": plugin, "state": state, "since": since, "why": why, "cause": cause}
                        for (plugin, state), (since, why, cause) in row.lacks.items()
                    ],
                }
                for row in self.rows.values()
                if split_name(row.name)[0] == pod
            ]

    def outdated(self) -> list[tuple[Row, Due]]:
        """Return what would be reapplied or released."""
        return [(row, task) for row in [*self.rows.values()] for task in row.outdated]

    def count(self, *states: str) -> int:
        """Return the number of rows in one of these states; one that was asked for is due."""
        rows = [*self.rows.values()]
        return sum([row.state in states or (DUE in states and row.state == DONE and bool(row.asked)) for row in rows])

    # With the lock

    def _row(self, subject: Subject) -> Row:
        """Return the row of a subject; a new one for another life of its id."""
        row = self.rows.get(subject.id)
        if row is not None and row.then is None and not _same_life(row.life, subject.life):
            self._remove(subject.id)
            row = None
        if row is None:
            row = self.rows[subject.id] = Row(subject.id, bounded(subject.name, MAX_ERROR))
            if len(self.rows) > MAX_ROWS:
                self._remove(next(iter(self.rows)))
        row.subject, row.name, row.life = subject, row.name or subject.name, subject.life or row.life
        return row

    def _await(self, row: Row, until: float | None) -> bool:
        while row.state == RUNNING:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return False
            self.changed.wait(left)
        return True

    def _remove(self, id_: str) -> None:
        if self.rows.pop(id_, None) is not None:
            self.record.put(id_, None)

    def _save(self, row: Row) -> None:
        """Write what is to be remembered of a row, if that has changed."""
        facts = row.name, row.life, row.is_created, row.setup, row.resources, row.had, {**row.lacks}
        if self.rows.get(row.id) is row and (facts != row.saved or row.id in self.record.unwritten):
            row.saved = facts
            self.record.put(row.id, row.to_value())


def _same_life(one: str, other: str) -> bool:
    """Return whether these can be lives of one container: not known, or the same, or told in different ways."""
    return not one or not other or one == other or one.partition(":")[0] != other.partition(":")[0]


def _lack(row: Row, state: str, plugin: str | None, why: str, cause: str) -> bool:
    known = [other for other, state_ in row.lacks if state_ == state]
    if plugin in known or (plugin is None and known):
        return False
    row.lacks[plugin, str(state)] = round(time.time(), 3), bounded(escape(why), MAX_ERROR), cause
    return True


def _note(row: Row, ran: Ran) -> None:
    """Enter what has run into a row."""
    state, keys = str(ran.state), {ran.keyed(step.plugin)[0] for step in ran.steps}
    for step in ran.steps:
        (key, document), plugin = ran.keyed(step.plugin), step.plugin.type
        older = ran.replaces.get(key)
        same = next((past for past in row.had if past.key == key), None)
        had = same or older or Had(key, document, ())
        states = had.states if state in had.states else (*had.states, state)
        if step.error is not None:
            if ran.how and (step.is_ignored or state in (State.CREATE, State.UPDATE, RELEASE)):
                how = "its failure is ignored" if step.is_ignored else ran.how
                cause = "refused" if step.error.refused else "ignored" if step.is_ignored else "failed"
                _lack(row, state, plugin, f"{how}: {step.error.reason}", cause)
            if state != State.CREATE or older is not None:
                continue  # what it has had, it still has
            binary = ran.binaries.get(plugin) or identity(step.binary)
            new = Had(key, document, states, binary, had.result, step.is_ignored)
        else:
            text = step.stdout.strip().decode("utf-8", "replace")
            text = text if len(text) <= MAX_RESULT else ""
            failed_with = None if state == State.CREATE else had.failed_with
            new = Had(key, document, states, failed_with, text, had.is_ignored and failed_with is not None)
        row.had = [past for past in row.had if past is not same and past is not older]
        if ran.state != RELEASE:
            row.had.append(new)
        if step.error is None and state == State.CREATE:  # an older entry of it that had failed is over
            row.had = [
                past for past in row.had if past.type != plugin or past.failed_with is None or past.key in keys
            ]
        failed = [past for past in row.had if past.type == plugin and past.failed_with is not None]
        if step.error is None and not (failed and state == State.CREATE):
            row.lacks.pop((plugin, state), None)
            row.lacks.pop((None, state), None)
    cause = "refused" if ran.is_refused else "failed"
    for plugin in ran.unreached if ran.how else ():
        _lack(row, state, plugin, f"{ran.how}, of a plugin before it", cause)
