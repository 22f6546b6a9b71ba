"""The one function that runs plugins for a container, and what each kind of failure means.

| wish | what runs | a failure, unless it is ignored |
| --- | --- | --- |
| ``setup`` | all that list it; a container of this id begins | the container is not created, and has had nothing |
| ``create`` | all; its process is new | it does not start; where the runtime starts it all the same (CRI-O), it is |
| | | noted, and made up for late |
| ``LATE`` | what ``compare`` says is due: releases, creates, an ``update`` | it is noted, and tried again |
| ``resize`` | all that list it | the change is refused, nothing is noted |
| ``update`` | all that list it | it is reported, and made up for late: the limits are in force |
| ``pause``, ``resume`` | all that list it | it is reported |
| ``delete`` | all; what is known of the container is forgotten | it is reported, and keeps nothing |

A plugin that has succeeded is noted as it ends, so a host that is killed in the middle does not run it again. A
failure that is ignored is noted with all wishes but ``update``. A plugin that refuses the container has not failed:
its cause is ``REFUSED``, whatever its ``failurePolicy``.
"""

from __future__ import annotations

from nri.client.chain import ChainError, Client, every
from nri.config.entries import ConfigList
from nri.node.record import (
    DONE,
    FAILED,
    IGNORED,
    MAX_RESULT,
    MISSED,
    REAPPLY,
    REFUSED,
    RELEASE,
    SKIPPED,
    UNCONFIGURED,
    Outcome,
)
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any, Protocol

    from nri.client import Step
    from nri.config.entries import PluginEntry
    from nri.node.compare import Due
    from nri.node.record import Entry, Facts
    from nri.types.v1 import Request, Result

    class Container(Protocol):
        """A pod or container of a host."""

        @property
        def facts(self) -> Facts:
            """Its facts."""

        @property
        def name(self) -> str:
            """``NAMESPACE/POD[/CONTAINER]``, for people."""

        @property
        def digest(self) -> int:
            """A digest of its resources, 0 if there are none."""

        def request(self, state: str) -> Request:
            """Return a request about it."""

    class Host(Protocol):
        """A host: it makes requests, runs chains within its time, and keeps the facts."""

        lock: Any
        """Held while facts are changed."""
        refuses_starts: bool
        """False if the runtime starts a container although its ``create`` has failed."""

        @property
        def is_configured(self) -> bool:
            """False if there has been no valid configuration."""

        def client(self, container: Any, state: str) -> Client:
            """Return the client for a chain about a container."""

        def expects_setup(self, request: Request) -> bool:
            """Return whether a container without a ``setup`` has missed it."""

        def dropped(self, container: Any, client: Client) -> list[tuple[PluginEntry, str]]:
            """Return the entries whose changes the runtime has not applied, each with what is missing."""

        def run(self, chain: Chain, on_step: Callable[[Step], None]) -> None:
            """Run a chain within the host's time.

            :raises ChainError: it has failed. Any other error is the host's own fault.
            """

        def save(self, container: Any) -> None:
            """Write a container's facts; the caller has the lock. A fault is the host's to report."""

        def note(self, line: str) -> None:
            """Write a line to the host's log."""


LATE = "late"
"""The wish that a container which runs has what the configuration in use wants."""

MISSED_SETUP = "its setup was missed: the container was created without it"
NO_CONFIGURATION = "there was no valid configuration when it started"
STARTED = "the runtime starts it all the same"
LATE_CREATE = "the late create has failed"
LATE_UPDATE = "the late update has failed"
LATE_RELEASE = "the release has failed"
EVER_IGNORED = "its failure is ignored"

NOTHING: Mapping[str, Entry] = {}
"""No older entries: the default of a chain that replaces none."""


class Chain:
    """Plugins that are run for a container, one after the other: what is to run, and what has come of it.

    :param container: that they are run for, with a *request* about it.
    :param only: returns whether an entry runs.
    :param replaces: what the container has had, by the keys of the entries that come in its place.
    :ivar step_state: the state under which the outcome is noted: ``RELEASE`` for a release.
    :ivar steps: the plugins that have run.
    :ivar error: its failure; "" if it has not failed.
    :ivar unreached: the entries behind the one that has failed, which were to run.
    """

    def __init__(
        self,
        client: Client,
        container: Container,
        request: Request,
        only: Callable[[PluginEntry], bool] = every,
        replaces: Mapping[str, Entry] = NOTHING,
    ) -> None:
        self.client = client
        self.container = container
        self.request = request
        self.only = only
        self.replaces = replaces
        self.step_state = RELEASE if request.release else str(request.state)
        self.steps: list[Step] = []
        self.error = ""
        self.unreached: list[PluginEntry] = []

    @property
    def facts(self) -> Facts:
        """Those of the container."""
        return self.container.facts

    def previous(self, entry: PluginEntry) -> Result | None:
        """Return the last result of an entry, which it gets as ``prevResult``."""
        is_first = self.request.state == State.SETUP
        is_first |= self.request.state == State.CREATE and not self.request.late
        return None if is_first else self.facts.previous(entry.key)

    @property
    def is_refused(self) -> bool:
        """True if no plugin has failed: beside an error, plugins have refused the container."""
        return all(step.error.refused for step in self.steps if step.error is not None)


class Verdict:
    """The outcome of a wish.

    :ivar error: why it is not fulfilled, "" if it is.
    :ivar is_refused: a plugin refuses the container, and none has failed; counts beside an error.
    :ivar is_noted: what is missing is on record, and can be made up for late.
    """

    __slots__ = ("error", "is_noted", "is_refused")

    def __init__(
        self, error: str = "", *, is_refused: bool = False, is_noted: bool = False
    ) -> None:
        self.error = error
        self.is_refused = is_refused
        self.is_noted = is_noted


def reconcile(container: Container, wish: str, host: Host, due: Sequence[Due] = ()) -> Verdict:
    """Bring a container to what a wish says, and note what has come of it.

    :param wish: a state, or ``LATE``.
    :param due: for ``LATE``: what is to be done of what ``compare`` says.
    """
    if wish == State.SETUP:
        return _set_up(container, host)
    if wish == State.CREATE:
        return _start(container, host)
    if wish == LATE:
        return _catch_up(container, host, due)
    return _tell(container, wish, host)


def _set_up(container: Container, host: Host) -> Verdict:
    client = host.client(container, State.SETUP)
    # A plugin may change whether a condition holds at the start: what was judged now has not missed its setup.
    judged = client.chain(State.SETUP)
    chain = _run(host, Chain(client, container, container.request(State.SETUP)))
    if chain.error:
        return _failed(chain)
    with host.lock:
        _note_failures(chain, STARTED)
        for entry in judged:
            container.facts.add(entry.key, entry.document).states.setdefault(
                State.SETUP, Outcome(SKIPPED)
            )
        host.save(container)
    return Verdict()


def _start(container: Container, host: Host) -> Verdict:
    facts = container.facts
    client = host.client(container, State.CREATE)
    request = container.request(State.CREATE)
    with host.lock:
        facts.begin_again()
    missed = missed_setup(container, request, client, host)
    dropped = host.dropped(container, client)
    error = _without_setup(client, missed, dropped)
    if error:
        host.note(f"nri v0.1: {error}")
        if host.refuses_starts:
            return Verdict(error)
    with host.lock:
        note_missed(facts, missed)
        for entry, why in dropped:
            cause = IGNORED if client.policy_of(entry) == "ignore" else FAILED
            facts.lack(facts.add(entry.key, entry.document), State.SETUP, Outcome(cause, why))
    chain = _run(host, Chain(client, container, request))
    is_refused = host.refuses_starts or request.is_sandbox
    if chain.error and is_refused:
        # The runtime does not start it: nothing runs without its plugins. Those that have succeeded get a delete.
        with host.lock:
            host.save(container)
        return _failed(chain)
    with host.lock:
        _note_failures(chain, STARTED)
        if chain.error:
            _note_unreached(chain, STARTED)
        elif host.is_configured:
            facts.without = None
            _note_created(container)
        else:
            facts.without = Outcome(UNCONFIGURED, NO_CONFIGURATION)
        host.save(container)
    return _failed(chain, is_noted=True)


def _catch_up(container: Container, host: Host, due: Sequence[Due]) -> Verdict:
    from nri.node.compare import has_create  # the bridge has it, hooks do without

    client = host.client(container, LATE)
    verdicts = []
    tasks = []
    for task in due:
        if task.what == RELEASE:
            verdicts.append(_release(container, host, client, task))
        else:
            tasks.append(task)
    keys = {task.entry.key for task in tasks}
    if tasks:
        verdicts.append(_create_late(container, host, client, tasks, keys))
    if container.facts.needs_update:
        verdicts.append(_update_late(container, host, keys))
    errors = [verdict for verdict in verdicts if verdict.error]
    if not errors:
        with host.lock:
            if has_create(due):  # else it may be listed as one that runs without
                container.facts.without = None
            _note_created(container)
            host.save(container)
        return Verdict()
    is_refused = all(verdict.is_refused for verdict in errors)
    return Verdict(errors[0].error, is_refused=is_refused, is_noted=True)


def _release(container: Container, host: Host, client: Client, task: Due) -> Verdict:
    had = task.had
    if not client.invoker.releases(task.entry.type):
        with host.lock:
            del container.facts.entries[had.key]  # it has nothing to give back
            host.save(container)
        return Verdict()
    alone = Client(ConfigList(plugins=[task.entry]), client.invoker, timeout=client.timeout)
    request = container.request(State.DELETE).replace(release=True)
    replaces = {task.entry.key: had}
    return _noted(
        host, _run(host, Chain(alone, container, request, replaces=replaces)), LATE_RELEASE
    )


def _create_late(
    container: Container, host: Host, client: Client, tasks: Sequence[Due], keys: Collection[str]
) -> Verdict:
    replaces = {}
    for task in tasks:
        if task.what == REAPPLY:
            replaces[task.entry.key] = task.had

    request = container.request(State.CREATE).replace(late=True)
    return _noted(
        host, _run(host, Chain(client, container, request, _among(keys), replaces)), LATE_CREATE
    )


def _among(keys: Collection[str]) -> Callable[[PluginEntry], bool]:
    """Return a function that returns whether an entry has one of these keys."""
    return lambda entry: entry.key in keys


def _update_late(container: Container, host: Host, created: Collection[str]) -> Verdict:
    """Run ``update`` for resources that the runtime has written.

    :param created: the keys of the entries whose ``create`` has just run: they have seen the new resources.
    """
    facts = container.facts
    others = {key for key, entry in facts.entries.items() if entry.is_created}
    with host.lock:
        facts.is_rewritten = False  # it may be written again meanwhile
    # As an event's: many containers may follow one answer, so residents are asked, where there are some.
    client = host.client(container, State.UPDATE)
    only = _among(others.difference(created))
    chain = Chain(client, container, container.request(State.UPDATE), only)
    return _noted(host, _run(host, chain), LATE_UPDATE)


def _tell(container: Container, state: str, host: Host) -> Verdict:
    """Run the chain for a state that changes nothing about which plugins the container has had."""
    facts = container.facts
    chain = _run(host, Chain(host.client(container, state), container, container.request(state)))
    if state == State.DELETE:
        return _failed(chain)
    with host.lock:
        if state == State.UPDATE:
            # One that has failed is made up for late.
            facts.is_rewritten = chain.error != ""
            facts.see(container.digest, chain.request.shown.resources)
        elif not chain.error:
            _note_failures(chain, STARTED)
        host.save(container)
    return _failed(chain)


def missed_setup(
    container: Container, request: Request, client: Client, host: Host
) -> list[PluginEntry]:
    """Return the entries whose ``setup`` a container was created without; that cannot be made up for.

    :param request: about its ``create``.
    """
    if request.is_sandbox or not host.expects_setup(request):
        return []
    listed = client.chain(State.SETUP)
    # A contradiction in a condition is refused by the chain itself.
    applying = client.holding(request)
    missed: list[PluginEntry] = []
    for entry in listed:
        if entry not in applying or container.facts.has_judged_setup(entry.type):
            continue
        if not client.invoker.create_suffices(entry.type):
            missed.append(entry)
    return missed


def _without_setup(
    client: Client, missed: Sequence[PluginEntry], dropped: Sequence[tuple[PluginEntry, str]]
) -> str:
    """Return why a container cannot be started: its ``setup`` was missed, or has had no effect; "" if it can be.

    Where a failure of the plugin is ignored it can be.
    """
    of_missed = [entry.type for entry in missed if client.policy_of(entry) == "fail"]
    if of_missed:
        return f"create: plugin {', '.join(of_missed)}: {MISSED_SETUP}; create the container again"
    for entry, why in dropped:
        if client.policy_of(entry) == "fail":
            return f"create: plugin {entry.type}: {why}"
    return ""


def note_missed(facts: Facts, missed: Sequence[PluginEntry]) -> None:
    """Note the entries whose ``setup`` was missed."""
    for plugin in missed:
        facts.lack(
            facts.add(plugin.key, plugin.document), State.SETUP, Outcome(MISSED, MISSED_SETUP)
        )


# What has come of a chain


def _run(host: Host, chain: Chain) -> Chain:
    """Run a chain; note each plugin that has succeeded as it ends."""

    def note(step: Step) -> None:
        chain.steps.append(step)
        if step.error is not None or chain.step_state == State.DELETE:
            return
        with host.lock:
            _note_success(chain, step)
            is_last = step.plugin is chain.client.config.plugins[-1]
            if not is_last:  # after that, the whole is saved
                host.save(chain.container)

    try:
        host.run(chain, note)
    except ChainError as error:
        chain.error = str(error)
        chain.unreached = [entry for entry in error.unreached if chain.only(entry)]
    return chain


def _failed(chain: Chain, *, is_noted: bool = False) -> Verdict:
    return Verdict(chain.error, is_refused=chain.is_refused, is_noted=is_noted)


def _noted(host: Host, chain: Chain, how: str) -> Verdict:
    """Note what has come of a chain for a container that runs."""
    with host.lock:
        _note_failures(chain, how)
        if chain.step_state != State.UPDATE:
            _note_unreached(chain, how)
        elif chain.error:
            chain.facts.is_rewritten = True
        host.save(chain.container)
    if chain.error:
        return _failed(chain)
    # An ignored failure leaves an older entry in force: it is not reapplied or released.
    for step in chain.steps:
        if step.error is not None and step.plugin.key in chain.replaces:
            return Verdict(f"plugin {step.error}", is_refused=chain.is_refused)
    return Verdict()


def _note_created(container: Container) -> None:
    facts = container.facts
    facts.is_created = True
    facts.see(container.digest, None)


def _note_success(chain: Chain, step: Step) -> None:
    facts = chain.facts
    key = step.plugin.key
    state = chain.step_state
    if state == RELEASE:
        facts.entries.pop(chain.replaces[key].key, None)
        return
    entry = facts.add(key, step.plugin.document)
    older = chain.replaces.get(key, entry)
    if older is not entry:
        entry.states = {**older.states, **entry.states}
        entry.states.pop(REAPPLY, None)
        del facts.entries[older.key]
    text = step.stdout.strip().decode("utf-8", "replace")
    entry.result = text if len(text) <= MAX_RESULT else ""
    entry.states[state] = Outcome(DONE, binary=step.identity)
    if state != State.CREATE:
        return
    # An older entry of the type that has failed is over.
    keys = {one.key for one in chain.client.config.plugins}
    for other in [*facts.entries.values()]:
        if other.type == entry.type and other.create.is_lack and other.key not in keys:
            del facts.entries[other.key]


def _note_failures(chain: Chain, how: str) -> None:
    """Note the plugins that have failed, where the container runs without them.

    :param how: the beginning of the reason.
    """
    for step in chain.steps:
        if step.error is None:
            continue
        # The plugin refuses this container, or the entry or host says that the container does not need it.
        if step.outcome in (REFUSED, IGNORED):
            cause = step.outcome
        else:
            cause = FAILED
        reason = EVER_IGNORED if step.is_ignored else how
        outcome = Outcome(cause, f"{reason}: {step.error.reason}", step.identity)
        _note_lack(chain, step.plugin, outcome)


def _note_unreached(chain: Chain, how: str) -> None:
    """Note the plugins that have not run since one before them has failed."""
    cause = REFUSED if chain.is_refused else FAILED
    for plugin in chain.unreached:
        _note_lack(chain, plugin, Outcome(cause, f"{how}, of a plugin before it"))


def _note_lack(chain: Chain, plugin: PluginEntry, outcome: Outcome) -> None:
    facts = chain.facts
    older = chain.replaces.get(plugin.key)
    if older is None:
        facts.lack(facts.add(plugin.key, plugin.document), chain.step_state, outcome)
    # What it has had, it still has.
    elif chain.step_state == State.CREATE:
        facts.lack(older, REAPPLY, outcome)
    else:
        facts.lack(older, chain.step_state, outcome)
