"""The chain: the plugins of a configuration in order, each with the results of the plugins before it.

The contract follows Go's ``InvokeWithSandbox``, with these rules:

- every plugin gets the same request with its own ``conf``, and the earlier results in ``results``;
- an error stops the chain, except for ``delete``: then every plugin runs, and the errors are reported together;
- the error of a plugin whose ``failurePolicy`` is ``ignore`` is logged, and the chain goes on;
- ``create`` and ``delete`` go to every plugin, the other states to the plugins that list them in ``states``; a plugin
  whose condition (``when``) does not hold for the container gets none of them, nor one that is known not to act on
  the state;
- a plugin of ``setup`` or ``resize`` sees the changes that the plugins before it have asked for, and a result whose
  changes cannot be applied is a failure of its plugin;
- every plugin has a deadline, and none outlives it.
"""

from __future__ import annotations

import time

from nri import files
from nri.client import unstartable
from nri.client.invoker import Invoker, PluginError
from nri.client.oci import spec_from_oci
from nri.config.entries import DEFAULT_TIMEOUT
from nri.config.when import Facts
from nri.errors import NRIError
from nri.process.conversation import MAX_OUTPUT, NEVER, BrokenOffError, readable
from nri.types import DecodeError
from nri.types.gojson import shorten
from nri.types.v1 import EXTENSIONS, RELEASE, Request, Result, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from nri.adjust import Changes
    from nri.config.entries import ConfigList, PluginEntry
    from nri.process.conversation import Output, Stop

    Log = Callable[[str, str], None]

NO_DEADLINE = float("inf")
"""The deadline of a chain whose plugins have their timeouts alone."""

STOPPED = "the runtime has abandoned the event"
"""The reason for ending a plugin that a ``nri.process.conversation.Stop`` has ended."""

OUTCOMES = ("ok", "error", "killed", "ignored", "refused")
"""The outcomes of a plugin's run. ``ignored``: it failed, and its ``failurePolicy`` is ``ignore``. ``refused``: it
works, and has refused the container, whatever its ``failurePolicy``."""

WORKS = ("ok", "refused")
"""The outcomes of a plugin that works."""


class Step:
    """One plugin's part of a chain. Either ``result`` or ``error`` is set.

    ``request`` is the JSON that was sent, ``binary`` the path of the executable, "" if none was found, ``identity``
    its ``nri.files.identity`` before it ran. ``is_ignored`` says that the chain went on after the error.
    """

    __slots__ = (
        "binary",
        "error",
        "identity",
        "is_ignored",
        "plugin",
        "request",
        "result",
        "seconds",
        "stdout",
    )

    def __init__(self, plugin: PluginEntry, request: bytes) -> None:
        self.plugin = plugin
        self.request = request
        self.binary = ""
        self.stdout = b""
        self.seconds = 0.0
        self.identity: tuple[int, ...] = ()
        self.result: Result | None = None
        self.error: PluginError | None = None
        self.is_ignored = False

    @property
    def outcome(self) -> str:
        """One of ``OUTCOMES``."""
        if self.error is None:
            return "ok"
        if self.error.refused:
            return "refused"
        if self.is_ignored:
            return "ignored"
        return "killed" if self.error.killed else "error"


def results_of(steps: Iterable[Step]) -> list[Result]:
    """Return the results of the steps that succeeded, in order."""
    return [step.result for step in steps if step.result is not None]


class ChainError(NRIError):
    """A chain failed.

    ``errors`` are those that are not ignored: one, or for ``delete`` any number. ``steps`` are all, also those that
    succeeded: nothing undoes the work of their plugins. ``unreached`` are the entries that have not run
    because of it.
    """

    def __init__(
        self,
        errors: Sequence[PluginError],
        steps: Sequence[Step],
        unreached: Sequence[PluginEntry] = (),
    ) -> None:
        super().__init__("; ".join([f"plugin {error}" for error in errors]))
        self.errors = tuple(errors)
        self.steps = tuple(steps)
        self.unreached = tuple(unreached)


def every(_plugin: PluginEntry) -> bool:
    """Return True: every entry runs."""
    return True


def _log(plugin: str, line: str) -> None:
    import logging

    logging.getLogger("nri.client").info("%s: %s", plugin, line)


def _facts_of(request: Request) -> Facts:
    """Return what a request says of its container."""
    from nri.client.facts import facts_of  # only for a configuration that has conditions

    return facts_of(request)


def _no_result(_plugin: PluginEntry) -> None:
    """Return no last result of an entry."""


class Client:
    """Runs the plugins of a host configuration. One client serves any number of events, from any thread.

    :param config: the host configuration, as ``nri.config.load`` returns it.
    :param invoker: finds and runs the plugins; by default an ``Invoker``.
    :param timeout: seconds for a plugin whose entry has no ``timeout``.
    :param failure_policy: ``fail`` or ``ignore``, for a plugin whose entry has no ``failurePolicy``.
    :param facts: returns what a host knows of the container of a request, for conditions; by default what the
        request says (``nri.client.facts``).
    """

    def __init__(
        self,
        config: ConfigList,
        invoker: Invoker | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        failure_policy: str = "fail",
        facts: Callable[[Request], Facts] = _facts_of,
    ) -> None:
        self.config = config
        self.invoker = invoker or Invoker()
        self.timeout = timeout
        self.failure_policy = failure_policy
        self._facts = facts

    def invoke(  # noqa: PLR0913 - optional, by name
        self,
        request: Request,
        state: str,
        *,
        deadline: float = NO_DEADLINE,
        log: Log | None = None,
        on_step: Callable[[Step], None] | None = None,
        changes: Changes | None = None,
        stop: Stop = NEVER,
        previous: Callable[[PluginEntry], Result | None] = _no_result,
        only: Callable[[PluginEntry], bool] = every,
    ) -> list[Step]:
        """Run the chain for one state of a container.

        :param request: its state, conf and version are replaced.
        :param deadline: a time of ``time.monotonic`` for the whole chain; the timeout of a plugin is cut to it.
        :param log: called with a plugin's type and a line: of its stderr, or without *on_step* an error that is
            ignored. By default the lines go to the logger ``nri.client``.
        :param on_step: called as each plugin ends.
        :param changes: takes what the results ask for; None for a host that can apply nothing. For ``setup`` its
            configuration is what the plugins see.
        :param stop: ends the plugin that runs; no other is started.
        :param previous: returns the last result of an entry for this container, which it gets as ``prevResult``.
        :param only: returns whether an entry is to run. Of the others the plugins after them get the previous
            results.
        :returns: a step for each plugin that was to run, in order; ``results_of`` takes the results from them.
        :raises ChainError: if a plugin fails; it has the steps too.
        """
        log = log or _log
        request = request.replace(state=State(state), version=self.config.version)
        report = on_step or reporting_ignored(request, log)
        try:
            judged = self.judged(state, request)
        except ChainError as error:
            report(error.steps[0])
            raise
        run = _Run(self, request, deadline, log, stop, changes)
        left = iter(judged)
        for plugin, undecided in left:
            last = previous(plugin)
            if not only(plugin):
                run.results += filter(None, [last])
                continue
            step = run.step(plugin, undecided, last)
            report(step)
            is_over = run.add(step)
            if is_over:
                break
        if run.errors:
            raise ChainError(run.errors, run.steps, [plugin for plugin, _ in left])
        return run.steps

    def policy_of(self, plugin: PluginEntry) -> str:
        """Return what a failure of an entry means: one of ``nri.config.entries.FAILURE_POLICIES``."""
        return plugin.failure_policy or self.failure_policy

    def chain(self, state: str, request: Request | None = None) -> list[PluginEntry]:
        """Return the plugins that run for ``state``, in order.

        :param request: the request, for the conditions of the plugins; without it, those that may run.
        :raises ChainError: if a condition asks for a fact in which the container contradicts itself, at ``setup`` and
            ``create``; whatever the plugin's ``failurePolicy``.
        """
        if request is not None:
            return [plugin for plugin, _ in self.judged(state, request)]
        return self._of_state(state, state)

    def _of_state(self, state: str, acts: str) -> list[PluginEntry]:
        acts_on = self.invoker.acts_on
        listed = self.config.wanted_in(state)
        return [plugin for plugin in listed if acts_on(plugin.type, acts)]

    def judged(self, state: str, request: Request) -> list[tuple[PluginEntry, str]]:
        """Return the plugins of ``chain``, each with ``undecided`` of its request.

        A ``delete`` gives back what ``create`` has taken, so it has none.

        :raises ChainError: as ``chain`` does.
        """
        acts = RELEASE if request.release else state
        plugins = self._of_state(state, acts)
        facts = self._facts_for(plugins, request)
        verdicts = _verdicts(plugins, facts)
        judged = [(plugin, undecided) for plugin, runs, undecided in verdicts if runs]
        if state in (State.SETUP, State.CREATE):
            _refuse_contradiction(plugins, facts, judged)
        if state == State.DELETE:
            return [(plugin, "") for plugin, _ in judged]
        return judged

    def holding(self, request: Request) -> list[PluginEntry]:
        """Return the entries whose condition does not keep them from a container, whatever the state."""
        plugins = self.config.plugins
        verdicts = _verdicts(plugins, self._facts_for(plugins, request))
        return [plugin for plugin, runs, _ in verdicts if runs]

    def skipped(self, state: str, request: Request) -> list[tuple[PluginEntry, str]]:
        """Return the entries whose condition keeps them from running for ``state``, each with the reason."""
        entries = self.config.wanted_in(state)
        facts = self._facts_for(entries, request)
        return [(entry, why) for entry, runs, why in _verdicts(entries, facts) if not runs]

    def _facts_for(self, plugins: Sequence[PluginEntry], request: Request) -> Facts:
        """Return what is known of the container of a request; nothing if no plugin has a condition."""
        if not any(plugin.when.value for plugin in plugins):
            return Facts()
        return self._facts(request)


def _verdicts(plugins: Sequence[PluginEntry], facts: Facts) -> list[tuple[PluginEntry, bool, str]]:
    """Return each plugin with ``Condition.judge`` of its condition."""
    verdicts: list[tuple[PluginEntry, bool, str]] = []
    for plugin in plugins:
        runs, said = plugin.when.judge(facts)
        verdicts.append((plugin, runs, said))
    return verdicts


def _refuse_contradiction(
    plugins: Sequence[PluginEntry], facts: Facts, judged: Sequence[tuple[PluginEntry, str]]
) -> None:
    """Refuse a container that contradicts itself in a fact which a condition asks for.

    :param judged: those of the plugins that would run.
    :raises ChainError: it does.
    """
    for plugin in plugins:
        contradiction = plugin.when.contradiction(facts)
        if contradiction:
            expected = "expected a container whose annotations agree"
            reason = f"when: found {contradiction}; {expected}"
            step = Step(plugin, b"")
            step.error = PluginError(plugin.type, reason, refused=True)
            unreached = [other for other, _ in judged if other is not plugin]
            raise ChainError([step.error], [step], unreached)


class _Run:
    """One run of a chain.

    :ivar results: those that the next plugin gets.
    :ivar steps: those that have ended.
    :ivar errors: those that are not ignored.
    """

    def __init__(
        self,
        client: Client,
        request: Request,
        deadline: float,
        log: Log,
        stop: Stop,
        changes: Changes | None,
    ) -> None:
        self._client = client
        self._request = request
        self._deadline = deadline
        self._log = log
        self._stop = stop
        self._changes = changes
        self.results = list(request.results)
        self.steps: list[Step] = []
        self.errors: list[PluginError] = []

    def step(self, plugin: PluginEntry, undecided: str, last: Result | None) -> Step:
        """Run a plugin; return its step.

        :param last: its own last result for the container.
        """
        request = self._request
        if self._changes is None:
            shown = request
        else:
            shown = as_shown(request, self._changes)
        asked = shown.replace(
            conf=plugin.conf, results=tuple(self.results), undecided=undecided, prev_result=last
        )
        step = Step(plugin, asked.to_json())
        started = time.monotonic()
        try:
            step.binary = self._client.invoker.find(plugin.type)
            step.identity = files.identity(step.binary)
            result = self._ask(step)
            step.seconds = time.monotonic() - started
            if _asks_for_changes(result, self._changes):
                _take(plugin.type, request, result, self._changes, self._log)
            step.result = result
        except PluginError as error:
            step.seconds = time.monotonic() - started
            step.error = error
        is_ignored = self._client.policy_of(plugin) == "ignore"
        step.is_ignored = is_ignored and step.error is not None
        return step

    def add(self, step: Step) -> bool:
        """Take in a step; return whether no other plugin runs after it."""
        self.steps.append(step)
        if step.result is not None:
            self.results.append(step.result)
        if step.error is None or step.is_ignored:
            return False
        self.errors.append(step.error)
        return self._request.state != State.DELETE

    def _ask(self, step: Step) -> Result:
        plugin = step.plugin.type
        seconds = step.plugin.timeout or self._client.timeout
        until = time.monotonic() + seconds
        whose = ""
        if self._deadline < until:
            until = self._deadline
            seconds = until - time.monotonic()
            whose = ", which the event's deadline leaves"
        if seconds <= 0:
            # A plugin that is killed right after its start may be in the middle of its work.
            raise PluginError(plugin, "not started: no time is left")
        if self._stop.is_set:
            raise PluginError(plugin, f"not started: {STOPPED}", abandoned=True)

        def say(line: str) -> None:
            self._log(plugin, line)

        try:
            output = self._client.invoker.run(
                step.binary, plugin, step.request, until, say, self._stop
            )
        except BrokenOffError as error:
            reason = f"it could not be waited for or read: {error.strerror}"
            raise PluginError(plugin, reason, killed=True) from error
        except OSError as error:
            raise PluginError(plugin, unstartable.explain(step.binary, error)) from error
        step.stdout = output.stdout
        return _result(plugin, step.binary, output, f"{seconds:.3g} s{whose}")


def _result(plugin: str, binary: str, output: Output, allowed: str) -> Result:
    """Return the plugin's result.

    :param allowed: the time that it had, for people.
    :raises PluginError: if the output holds an error or no valid result, or the process failed.
    """
    stderr = ""
    if output.stderr:
        stderr = f"; the end of its stderr: {output.stderr}"
    # `#!/usr/bin/env sh` with CR
    if output.status in unstartable.NOT_RUN and unstartable.has_windows_ends(binary):
        stderr += f"; {unstartable.WINDOWS}"
    if output.stopped:
        raise _killed(plugin, output, allowed, stderr)
    ending = output.ending
    also = f"; {ending}" if ending else ""
    if not output.stdout.strip():
        fault = "no valid result: it wrote nothing to stdout, expected a result"
        raise PluginError(plugin, f"{fault}{also}{stderr}")
    try:
        result = Result.from_json(output.stdout)
    except DecodeError as error:
        wrote = shorten(readable(output.stdout[:4096].strip()), 200)
        fault = f"no valid result: {error}: {wrote}"
        raise PluginError(plugin, f"{fault}{also}{stderr}") from error
    if result.error:
        raise PluginError(plugin, result.error + also, refused=result.refused and not ending)
    if result.refused:
        fault = "no valid result: found refused without an error, expected its reason"
        raise PluginError(plugin, f"{fault}{also}{stderr}")
    if ending:
        raise PluginError(plugin, f"{ending}, although it wrote a result without error{stderr}")
    return result


def _killed(plugin: str, output: Output, allowed: str, stderr: str) -> PluginError:
    """Return the error of a plugin that the host has killed."""
    if output.stopped == "deadline":
        return PluginError(plugin, f"no result after {allowed}{stderr}", killed=True)
    if output.stopped == "stop":
        return PluginError(plugin, f"{STOPPED}{stderr}", killed=True, abandoned=True)
    fault = f"it wrote more than {MAX_OUTPUT} bytes to stdout, expected one result"
    return PluginError(plugin, fault + stderr, killed=True)


def as_shown(request: Request, changes: Changes) -> Request:
    """Return the request as the next plugin gets it."""
    if request.state == State.SETUP:
        spec = spec_from_oci(changes.config, adjustable=True)
        return request.replace(spec=spec, extensions=changes.abilities.extensions)
    if request.state == State.RESIZE:
        spec = request.shown
        resources = changes.resources(request.id, spec.resources)
        return request.replace(
            spec=spec.replace(resources=resources), extensions={"adjust": EXTENSIONS["adjust"]}
        )
    return request


def _asks_for_changes(result: Result, changes: Changes | None) -> bool:
    has_changes = result.adjust not in (None, {}) or result.updates not in (None, [])
    return has_changes or (result.cgroups_path != "" and changes is not None)


def _take(plugin: str, request: Request, result: Result, changes: Changes | None, log: Log) -> None:
    """Add what a plugin asks for to *changes*.

    :raises PluginError: that cannot be done, so the plugin has failed; or the pod is refused, if it is its wish that
        cannot be granted.
    """
    try:
        if changes is None:
            key = "updates" if result.adjust in (None, {}) else "adjust"
            raise NRIError(
                f"{key}: found it in answer to {request.state}, which this host cannot apply"
            )
        ignored = len(changes.ignored)
        changes.take(plugin, request, result)
        for line in changes.ignored[ignored:]:
            log(plugin, line)
    except NRIError as error:
        is_refused = result.pod_asked or getattr(error, "pod_asked", False)
        raise PluginError(plugin, str(error), refused=is_refused) from error


def reporting_ignored(request: Request, log: Log) -> Callable[[Step], None]:
    """Return a function that logs the error of a step if it is ignored."""

    def report(step: Step) -> None:
        if step.is_ignored and step.error is not None:
            policy = "ignored (failurePolicy: ignore)"
            reason = f"{request.state} of {request.id} failed, {policy}: {step.error.reason}"
            log(step.plugin.type, reason)

    return report
