"""The comparison: what is due for a container, from its facts and the entries that apply to it. It is pure.

| applies now | has had | due |
| --- | --- | --- |
| yes | nothing, or a ``setup`` alone | ``create`` |
| yes | the same entry | - |
| yes | the same entry, whose ``create`` has failed | ``create`` with another executable |
| yes | the same, and the failure was not ignored | ``create`` also *again* |
| yes | the type with another conf | ``reapply`` |
| yes | the type with another conf, whose ``create`` has failed | ``create`` |
| no | the entry | ``release`` |
| no | the entry, whose ``create`` has failed, or that has had no ``create`` | - |

Several entries of a type are told apart by their keys first, and then by their order; those with one key are one.
"""

from __future__ import annotations

from nri.config.entries import PluginEntry
from nri.node.record import IGNORED, MISSED, REAPPLY, RELEASE, Entry, Facts, Outcome
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

CREATE = str(State.CREATE)
"""A step that can be due, beside ``REAPPLY`` and ``RELEASE``."""


class Wanted:
    """An entry of the configuration in use that applies to a container.

    :ivar acts: False if its plugin is known not to act on ``create``.
    :ivar binary: ``nri.files.identity`` of its executable as it is now.
    """

    __slots__ = ("acts", "binary", "entry")

    def __init__(
        self, entry: PluginEntry, *, acts: bool = True, binary: tuple[int, ...] = ()
    ) -> None:
        self.entry = entry
        self.acts = acts
        self.binary = binary


class Due:
    """Something that is to be done for a container.

    :ivar what: ``CREATE``, ``REAPPLY`` or ``RELEASE``.
    :ivar entry: the entry that is run.
    :ivar had: what it follows; a new entry if that is nothing.
    """

    __slots__ = ("entry", "had", "what")

    def __init__(self, what: str, entry: PluginEntry, had: Entry) -> None:
        self.what = what
        self.entry = entry
        self.had = had


def compare(
    wanted: Sequence[Wanted], had: Mapping[str, Entry], *, again: bool = False
) -> list[Due]:
    """Return what is due.

    :param wanted: the entries that apply, in their order.
    :param had: what the container has had, by ``PluginEntry.key``.
    :param again: also what has failed with the executable as it is.
    """
    keys = {one.entry.key for one in wanted}
    outdated = [entry for entry in had.values() if entry.is_created and entry.key not in keys]
    due: list[Due] = []
    for one in wanted:
        key = one.entry.key
        entry = had.get(key, Entry(key, one.entry.document))
        if entry.is_created:
            continue
        older = _first_of_type(outdated, one.entry.type)
        if entry.create.is_lack or older is None:
            task = Due(CREATE, one.entry, entry)
        else:
            outdated.remove(older)
            task = Due(REAPPLY, one.entry, older)
        if one.acts and _is_to_be_tried(entry.create, one, again=again):
            due.append(task)
    for entry in outdated:
        due.append(Due(RELEASE, PluginEntry.of_document(entry.document), entry))
    return due


def has_create(due: Sequence[Due]) -> bool:
    """Return whether a ``create`` is due."""
    return any(task.what == CREATE for task in due)


def _is_to_be_tried(create: Outcome, one: Wanted, *, again: bool) -> bool:
    if not create.is_lack or create.binary != one.binary:
        return True
    return again and create.outcome != IGNORED


def _first_of_type(entries: Sequence[Entry], type_: str) -> Entry | None:
    for entry in entries:
        if entry.type == type_:
            return entry
    return None


class Lack:
    """Something that a container runs without.

    :ivar plugin: the plugin's type; None for all plugins.
    :ivar state: a state, or ``RELEASE``. A reapply that has failed is a ``create`` that it lacks.
    :ivar since: seconds since 1970.
    :ivar why: the reason, one line.
    :ivar cause: one of ``nri.node.record.CAUSES``.
    """

    __slots__ = ("cause", "plugin", "since", "state", "why")

    def __init__(self, plugin: str | None, state: str, since: float, why: str, cause: str) -> None:
        self.plugin = plugin
        self.state = state
        self.since = since
        self.why = why
        self.cause = cause


def lacking(facts: Facts) -> list[Lack]:
    """Return what a container runs without: by plugin and state once, and all plugins only where none is named."""
    lacks: dict[tuple[str, str], Lack] = {}
    is_named = False
    for entry in facts.entries.values():
        for step, outcome in entry.states.items():
            state = CREATE if step == REAPPLY else str(step)
            if outcome.is_lack:
                lack = Lack(entry.type, state, outcome.since, outcome.why, outcome.outcome)
                lacks.setdefault((entry.type, state), lack)
                is_named = is_named or state == CREATE
    listed = [*lacks.values()]
    without = facts.without
    if without is not None and not is_named:
        listed.append(Lack(None, CREATE, without.since, without.why, without.outcome))
    return listed


def forget(
    facts: Facts, applying: Collection[str], missed: Collection[str], due: Sequence[Due]
) -> bool:
    """Forget the failures that are over; return whether there were any.

    :param applying: the types that apply now. Another type that has failed is not listed; if it applies again, it is
        due.
    :param missed: the types whose ``setup`` it has missed.
    :param due: what ``compare`` says.
    """
    is_changed = False
    outdated = {task.had.key for task in due}
    for entry in [*facts.entries.values()]:
        for state, outcome in [*entry.states.items()]:
            if not outcome.is_lack:
                continue
            if state in (REAPPLY, RELEASE):
                is_over = entry.key not in outdated
            elif outcome.outcome == MISSED:
                is_over = entry.type not in missed
            else:
                is_over = entry.type not in applying
            if is_over:
                del entry.states[state]
                is_changed = True
        if not entry.states:
            del facts.entries[entry.key]
    return is_changed
