"""The record: a directory that outlives a host, but not the machine, with facts about each pod and container.

Facts, not flags: a container's file says, for each entry of the configuration that has been run for it, what has
come of each state. What is due, and what the container lacks, follows from that and from the configuration in use.

The files are read as untrusted input. Keys that this build does not know are kept as they are, so the record of a
newer build survives a rollback. A value that breaks a rule costs the smallest thing that holds it: a key that may be
missing, an outcome, an entry, and at last the file.
"""

from __future__ import annotations

import os
import time
from binascii import crc32

from nri import files, trust
from nri.config.entries import PluginEntry
from nri.errors import NRIError, bounded, escape, reason_of
from nri.types import DecodeError, gojson
from nri.types.v1 import Result, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

MAX_FILE = 64 * 1024 * 1024
"""Bytes of a file."""

MAX_RESULT = 16 * 1024
"""Characters of a plugin's last result that are kept; of a longer one there is no ``prevResult``."""

MAX_WHY = 1024
MAX_NAME = 1024
"""Bytes of the reason of an outcome, and of a container's name."""

MAX_SEEN = 16
"""Digests of a container's resources that are kept; the first and the last ones are."""

DONE = "done"
SKIPPED = "skipped"
"""Outcomes of a state: the plugin has succeeded; its condition kept it from the container."""

FAILED, IGNORED, REFUSED, MISSED, UNCONFIGURED, OFF = CAUSES = (
    "failed",
    "ignored",
    "refused",
    "missed",
    "unconfigured",
    "off",
)
"""Outcomes that are causes why a container runs without a plugin: the plugin has failed, or that was ignored; it
refuses the container; its ``setup`` was missed; there was no valid configuration; ``lateCreate`` is false."""

REAPPLY = "reapply"
RELEASE = "release"
"""Steps beside the states of the contract: a ``create`` in place of an older entry; a ``delete`` of an entry that
does not apply any more, for a container that runs on."""


class Rules:
    """The rules for what a file has; made when the first one is read, since most hooks read none."""

    def __init__(self) -> None:
        from nri.types.table import ANYTHING, FLAG, Key, Map, array, number, open_table, text, words

        self.integer = number(0, 2**63, whole=True)
        self.outcome = open_table(
            Key("outcome", words(DONE, SKIPPED, *CAUSES), required=True),
            Key("since", number(0, 2**53)),
            Key("why", text()),
            Key("binary", array(self.integer)),
        )
        self.entry = open_table(
            Key("type", text(1), required=True),
            Key("hash", text(), required=True),
            Key("document", text(), required=True),
            Key("states", Map(ANYTHING, text(1)), required=True),
            Key("result", text()),
        )
        made = open_table(
            Key("bundle", array(text()), required=True), Key("spec", ANYTHING, required=True)
        )
        self.facts = {
            "name": text(),
            "life": text(),
            "created": FLAG,
            "entries": array(ANYTHING),
            "without": self.outcome,
            "seen": array(self.integer),
            "resources": ANYTHING,
            "rewritten": FLAG,
            "made": made,
        }


_made_rules: list[Rules] = []


def _rules() -> Rules:
    if not _made_rules:
        _made_rules.append(Rules())
    return _made_rules[0]


class Outcome:
    """The outcome of a state of an entry.

    :ivar outcome: ``DONE``, ``SKIPPED`` or one of ``CAUSES``.
    :ivar since: seconds since 1970; on record for a lack alone.
    :ivar why: the reason, one line; "" if it is done.
    :ivar binary: ``nri.files.identity`` of the executable that has run; () if none has.
    """

    __slots__ = ("binary", "extra", "outcome", "since", "why")

    def __init__(self, outcome: str, why: str = "", binary: tuple[int, ...] = ()) -> None:
        self.outcome = outcome
        self.binary = binary
        self.why = bounded(escape(why), MAX_WHY)
        self.since: float = round(time.time(), 3)
        self.extra: dict[str, Any] = {}

    @property
    def is_lack(self) -> bool:
        """True if the container runs without what this state was to do."""
        return self.outcome in CAUSES

    def to_value(self) -> dict[str, Any]:
        """Return the JSON value."""
        value = {
            **self.extra,
            "outcome": self.outcome,
            "why": self.why,
            "binary": list(self.binary),
        }
        if self.is_lack:
            value["since"] = self.since
        return value

    @classmethod
    def from_value(cls, value: dict[str, Any]) -> Outcome:
        """Return the outcome of a value that the rule for outcomes accepts."""
        binary = tuple(value.get("binary", ()))
        outcome = cls(value["outcome"], value.get("why", ""), binary)
        outcome.since = value.get("since", 0)
        outcome.extra = _unknown(value, _rules().outcome.keys)
        return outcome


NOT_TRIED = Outcome("")
"""The outcome of a state that was not tried."""


class Entry:
    """The history of one entry of the configuration at a container.

    :ivar hash: the rest of ``PluginEntry.key``: of all that the plugin gets of the entry.
    :ivar document: ``PluginEntry.document``.
    :ivar states: what has come of each state, and of ``REAPPLY`` and ``RELEASE``.
    :ivar result: the last result, as JSON; "" if it is not kept.
    """

    __slots__ = ("document", "extra", "hash", "result", "states", "type")

    def __init__(self, key: str, document: str) -> None:
        self.type, _, self.hash = key.partition(" ")
        self.document = document
        self.result = ""
        self.states: dict[str, Outcome] = {}
        self.extra: dict[str, Any] = {}

    @property
    def key(self) -> str:
        """``PluginEntry.key``."""
        return f"{self.type} {self.hash}"

    @property
    def is_created(self) -> bool:
        """True if its ``create`` has succeeded."""
        return self.create.outcome == DONE

    @property
    def done_states(self) -> list[str]:
        """The states that have succeeded."""
        return [state for state, outcome in self.states.items() if outcome.outcome == DONE]

    @property
    def create(self) -> Outcome:
        """The outcome of its ``create``."""
        return self.states.get(State.CREATE, NOT_TRIED)

    def to_value(self) -> dict[str, Any]:
        """Return the JSON value."""
        states = {state: outcome.to_value() for state, outcome in self.states.items()}
        return {
            **self.extra,
            "type": self.type,
            "hash": self.hash,
            "document": self.document,
            "states": states,
            "result": self.result,
        }

    @classmethod
    def from_value(cls, value: Any, faults: list[str]) -> Entry | None:
        """Return the entry of a value; None if it is not right.

        :param faults: gets a line for each value that is not.
        """
        if not _rules().entry.accepts(value):
            faults.append(f"found an entry that is not one: {gojson.describe(value)}")
            return None
        try:
            PluginEntry.of_document(value["document"])
        except DecodeError as error:
            faults.append(f"found an entry whose document is not one: {error}")
            return None
        entry = cls(f"{value['type']} {value['hash']}", value["document"])
        entry.result = value.get("result", "")
        entry.extra = _unknown(value, _rules().entry.keys)
        for state, outcome in value["states"].items():
            if _rules().outcome.accepts(outcome):
                entry.states[state] = Outcome.from_value(outcome)
            else:
                faults.append(f"found an outcome of {entry.type} {state} that is not one")
        return entry


class Facts:
    """The facts about a pod or container.

    :ivar name: ``NAMESPACE/POD[/CONTAINER]``, for people.
    :ivar life: what tells it from an earlier one of the same id; "" if that is not known.
    :ivar is_created: its ``create`` has ended without an error, be it without plugins.
    :ivar entries: what it has had of each entry, by ``PluginEntry.key``.
    :ivar without: why it runs without all plugins; None if it does not.
    :ivar seen: digests of its resources, the last one in force; a peer may still send an earlier one.
    :ivar resources: the resources in force as OCI has them; None if they are those of its creation.
    :ivar is_rewritten: the runtime has written its resources, and no ``update`` has followed.
    :ivar is_unwritten: it is only about to write them, so no ``update`` follows yet; not on record.
    :ivar made: for ``nri-runc``: what the container was made with.
    """

    def __init__(self, name: str = "", life: str = "") -> None:
        self.name = bounded(name, MAX_NAME)
        self.life = life
        self.is_created = self.is_rewritten = self.is_unwritten = False
        self.entries: dict[str, Entry] = {}
        self.without: Outcome | None = None
        self.seen: list[int] = []
        self.resources: Any = None
        self.made: dict[str, Any] | None = None
        self.extra: dict[str, Any] = {}

    # What has come of a state

    def add(self, key: str, document: str) -> Entry:
        """Return what it has had of an entry, which is listed from now on."""
        return self.entries.setdefault(key, Entry(key, document))

    def previous(self, key: str) -> Result | None:
        """Return the last result of an entry, or of an older one of its type; None if there is none."""
        type_ = key.partition(" ")[0]
        result = ""
        for entry in self.entries.values():
            if entry.type == type_:
                result = result or entry.result
        if key in self.entries:
            result = self.entries[key].result
        try:
            return Result.from_json(result)
        except DecodeError:  # there is none, or another build has written it
            return None

    @property
    def needs_update(self) -> bool:
        """True if the runtime has written its resources, and no ``update`` has followed."""
        return self.is_rewritten and not self.is_unwritten

    def adjusted(self, key: str) -> Result | None:
        """Return the last result of an entry if it asks for changes of the container: it is that of ``setup``."""
        entry = self.entries.get(key, Entry(key, ""))
        if '"adjust"' not in entry.result:
            return None
        return self.previous(key)

    def lack(self, entry: Entry, state: str, outcome: Outcome) -> None:
        """Note that it runs without what a state of an entry was to do. The first reason counts, and its time."""
        before = entry.states.get(state, NOT_TRIED)
        if before.is_lack:
            since = before.since
            outcome = Outcome(before.outcome, before.why, outcome.binary)
            outcome.since = since
        entry.states[state] = outcome

    def has_judged_setup(self, type_: str) -> bool:
        """Return whether the container's ``setup`` has asked a plugin, or left it out for its condition."""
        for entry in self.entries.values():
            outcome = entry.states.get(State.SETUP, NOT_TRIED)
            if entry.type == type_ and outcome.outcome not in (NOT_TRIED.outcome, MISSED):
                return True
        return False

    def see(self, digest: int, resources: Any) -> None:
        """Note the resources in force.

        :param resources: as OCI has them; None for those of its creation.
        """
        if digest == 0 or self.seen[-1:] == [digest]:
            return
        earlier = [one for one in self.seen if one != digest]
        self.seen = [*earlier[:1], *earlier[1:][2 - MAX_SEEN :], digest]
        self.resources = resources

    def begin_again(self) -> None:
        """Forget all but its ``setup``: its process is started anew."""
        self.is_created = self.is_rewritten = self.is_unwritten = False
        self.without = None
        self.seen = []
        self.resources = None
        entries = {}
        for key, entry in self.entries.items():
            outcome = entry.states.get(State.SETUP)
            if outcome is not None:
                entry.states = {State.SETUP: outcome}
                entries[key] = entry
        self.entries = entries

    # As JSON

    @property
    def is_empty(self) -> bool:
        """True if nothing is to be remembered."""
        return not (self.entries or self.without or self.made or self.extra)

    def to_value(self) -> dict[str, Any]:
        """Return the JSON value."""
        value = {
            **self.extra,
            "name": self.name,
            "life": self.life,
            "created": self.is_created,
            "entries": [entry.to_value() for entry in self.entries.values()],
            "seen": self.seen,
            "resources": self.resources,
            "rewritten": self.is_rewritten,
        }
        if self.without is not None:
            value["without"] = self.without.to_value()
        if self.made is not None:
            value["made"] = self.made
        return value

    @classmethod
    def from_value(cls, value: Any, faults: list[str]) -> Facts:
        """Return the facts of a value, which is not trusted, without what is wrong in it.

        :param faults: gets a line for each value that is wrong.
        :raises DecodeError: it is no object.
        """
        if not isinstance(value, dict):
            raise DecodeError(f"found {gojson.describe(value)}, expected an object")
        known: dict[str, Any] = {}
        for key, rule in _rules().facts.items():
            if key not in value:
                continue
            if rule.accepts(value[key]):
                known[key] = value[key]
            else:
                faults.append(
                    f"{key}: found {gojson.describe(value[key])}, expected {rule.expected}"
                )
        facts = cls(known.get("name", ""), known.get("life", ""))
        facts.is_created = known.get("created", False)
        facts.is_rewritten = known.get("rewritten", False)
        for item in known.get("entries", ()):
            entry = Entry.from_value(item, faults)
            if entry is not None:
                facts.entries[entry.key] = entry
        if "without" in known:
            facts.without = Outcome.from_value(known["without"])
        facts.seen = known.get("seen", [])
        facts.resources = known.get("resources")
        facts.made = known.get("made")
        facts.extra = _unknown(value, _rules().facts)
        return facts


def _unknown(value: dict[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Return the keys that this build does not know."""
    return {key: item for key, item in value.items() if key not in known}


# The files


def read_file(path: str, limit: int = MAX_FILE) -> bytes:
    """Return the content of a file of the record.

    :raises OSError: it cannot be read.
    :raises NRIError: others can write to it.
    """
    content, status = files.read_regular(path, limit)
    if wrong := trust.judge_path(path, status):
        raise NRIError(wrong)
    return content


def write_file(path: str, content: bytes, *, is_checked: bool = False) -> None:
    """Replace a file of the record in one step, or make it, with its directory.

    :param is_checked: this process has checked the directory.
    :raises OSError: it cannot be written.
    :raises NRIError: others can write to the directory.
    """
    if is_checked:
        try:
            files.replace(path, content)
            return
        except FileNotFoundError:
            pass  # the directory was removed
    trust.make_private(os.path.dirname(path))
    files.replace(path, content)


def read_facts(path: str) -> tuple[Facts | None, list[str]]:
    """Return the facts in a file, and what is wrong with it; None if there is none, or all of it is wrong."""
    faults: list[str] = []
    try:
        return Facts.from_value(gojson.loads(read_file(path)), faults), faults
    except FileNotFoundError:
        return None, []
    except (OSError, NRIError) as error:  # a DecodeError among them
        return None, [reason_of(error)]


def write_facts(path: str, facts: Facts) -> None:
    """Write facts, or remove the file if nothing is to be remembered.

    :raises OSError: that cannot be done; likewise NRIError.
    """
    if facts.is_empty:
        remove_file(path)
    else:
        write_file(path, gojson.dumps(facts.to_value()))


def remove_file(path: str) -> None:
    """Remove a file, if it is there.

    :raises OSError: it cannot be removed.
    """
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def over(before: Any, given: Any) -> Any:
    """Return an object with the keys of another one put over it, at any depth: new resources over those in force."""
    if not (isinstance(before, dict) and isinstance(given, dict)):
        return given
    return before | {key: over(before.get(key), item) for key, item in given.items()}


def forget_file(path: str) -> None:
    """Remove the file of a container that has ended; what cannot be removed is replaced by the next one."""
    try:
        remove_file(path)
    except OSError:
        pass


_locks: list[int] = []
"""Descriptors of the locks that this process holds: closing one would give up all of them."""


def claim(directory: str, name: str, *, waits: bool = False) -> bool:
    """Keep other hosts from a thing that has a name, until this process ends; return False if one has it.

    Where nothing can be locked, no record can be written, either: then it counts as claimed.

    :param waits: wait until no other host has it.
    """
    try:
        if not _locks:
            trust.make_private(directory)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            _locks.append(os.open(f"{directory}/.lock", flags, 0o600))
        os.lseek(_locks[0], crc32(os.fsencode(name)), os.SEEK_SET)
        command = os.F_LOCK if waits else os.F_TLOCK
        os.lockf(_locks[0], command, 1)
    except (BlockingIOError, PermissionError):
        return False
    except (OSError, NRIError):
        return True
    return True
