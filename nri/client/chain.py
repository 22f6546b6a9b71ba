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
from nri.errors import NRIError
from nri.process.conversation import MAX_OUTPUT, BrokenOffError, readable
from nri.types import DecodeError
from nri.types.gojson import shorten
from nri.types.v1 import EXTENSIONS, RELEASE, Request, Result, Spec, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from nri.adjust import Changes
    from nri.config.entries import ConfigList, PluginEntry
    from nri.config.when import Facts
    from nri.process.conversation import Output, Stop

    Log = Callable[[str, str], None]

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
        self.plugin, self.request = plugin, request
        self.binary, self.stdout, self.seconds = "", b"", 0.0
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
    succeeded: nothing undoes the work of their plugins.
    """

    def __init__(self, errors: Sequence[PluginError], steps: Sequence[Step]) -> None:
        super().__init__("; ".join([f"plugin {error}" for error in errors]))
        self.errors, self.steps = tuple(errors), tuple(steps)


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
        facts: Callable[[Request], Facts] | None = None,
    ) -> None:
        self.config, self.invoker = config, invoker or Invoker()
        self.timeout, self.failure_policy, self._facts = timeout, failure_policy, facts

    def invoke(
        self,
        request: Request,
        state: str,
        *,
        deadline: float | None = None,
        log: Log | None = None,
        on_step: Callable[[Step], None] | None = None,
        changes: Changes | None = None,
        stop: Stop | None = None,
        previous: Callable[[PluginEntry], Result | None] | None = None,
        only: Container[str] | None = None,
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
        :param only: the keys (``PluginEntry.key``) of the entries to run. Of the others the plugins after
            them get the previous results.
        :returns: a step for each plugin that was to run, in order; ``results_of`` takes the results from them.
        :raises ChainError: if a plugin fails; it has the steps too.
        """
        log = log or _log
        request = request.replace(state=State(state), version=self.config.version)
        results = list(request.results)
        steps = []
        errors = []
        try:
            judged = self.judged(state, request)
        except ChainError as error:
            if on_step is not None:
                on_step(error.steps[0])
            raise
        for plugin, undecided in judged:
            last = None if previous is None else previous(plugin)
            if only is not None and plugin.key not in only:
                results += [] if last is None else [last]
                continue
            shown = request if changes is None else as_shown(request, changes)
            asked = shown.replace(
                conf=plugin.conf, results=tuple(results), undecided=undecided, prev_result=last
            )
            step = Step(plugin, asked.to_json())
            self._run(step, deadline, log, stop)
            if step.result is not None and _asks_for_changes(step.result, changes):
                _take(step, request, step.result, changes, log)
            steps.append(step)
            step.is_ignored = step.error is not None and self.policy_of(plugin) == "ignore"
            if on_step is not None:
                on_step(step)
            if step.result is not None:
                results.append(step.result)
            elif step.error is not None:
                if not step.is_ignored:
                    errors.append(step.error)
                    if state != State.DELETE:
                        break
                elif on_step is None:
                    ignored = f"{state} of {request.id} failed, ignored (failurePolicy: ignore)"
                    log(plugin.type, f"{ignored}: {step.error.reason}")
        if errors:
            raise ChainError(errors, steps)
        return steps

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
        return [
            plugin
            for plugin in self.config.plugins
            if plugin.wants(state) and acts_on(plugin.type, acts)
        ]

    def judged(self, state: str, request: Request) -> list[tuple[PluginEntry, str]]:
        """Return the plugins of ``chain``, each with ``undecided`` of its request.

        A ``delete`` gives back what ``create`` has taken, so it has none.

        :raises ChainError: as ``chain`` does.
        """
        plugins = self._of_state(state, RELEASE if request.release else state)
        if all(plugin.when is None for plugin in plugins):
            return [(plugin, "") for plugin in plugins]
        facts = self._facts_of(request)
        judged = [
            (plugin, undecided)
            for plugin, undecided in _undecided(plugins, facts)
            if undecided is not None
        ]
        for plugin in (
            plugins if facts.contradictions and state in (State.SETUP, State.CREATE) else ()
        ):
            if plugin.when is not None and (contradiction := plugin.when.contradiction(facts)):
                expected = "expected a container whose annotations agree"
                step = Step(plugin, b"")
                step.error = PluginError(
                    plugin.type, f"when: found {contradiction}; {expected}", refused=True
                )
                raise ChainError([step.error], [step])
        return [(plugin, "") for plugin, _ in judged] if state == State.DELETE else judged

    def holding(self, request: Request) -> list[PluginEntry]:
        """Return the entries whose condition does not keep them from a container, whatever the state."""
        plugins = self.config.plugins
        if all(plugin.when is None for plugin in plugins):
            return list(plugins)
        verdicts = _undecided(plugins, self._facts_of(request))
        return [plugin for plugin, undecided in verdicts if undecided is not None]

    def skipped(self, state: str, request: Request) -> list[tuple[PluginEntry, str]]:
        """Return the entries whose condition keeps them from running for ``state``, each with the reason."""
        entries = [
            entry for entry in self.config.plugins if entry.wants(state) and entry.when is not None
        ]
        if not entries:
            return []
        facts = self._facts_of(request)
        kept_away = [entry for entry, undecided in _undecided(entries, facts) if undecided is None]
        return [(entry, entry.when.explain(facts)) for entry in kept_away if entry.when]

    def _facts_of(self, request: Request) -> Facts:
        if self._facts is not None:
            return self._facts(request)
        from nri.client.facts import facts_of  # only for a configuration that has conditions

        return facts_of(request)

    def _run(self, step: Step, deadline: float | None, log: Log, stop: Stop | None) -> None:
        started = time.monotonic()
        try:
            step.binary = self.invoker.find(step.plugin.type)
            step.identity = files.identity(step.binary)
            step.result = self._ask(step, deadline, log, stop)
        except PluginError as error:
            step.error = error
        step.seconds = time.monotonic() - started

    def _ask(self, step: Step, deadline: float | None, log: Log, stop: Stop | None) -> Result:
        plugin = step.plugin.type
        seconds = step.plugin.timeout or self.timeout
        until, whose = time.monotonic() + seconds, ""
        if deadline is not None and deadline < until:
            until = deadline
            seconds, whose = deadline - time.monotonic(), ", which the event's deadline leaves"
            if (
                seconds <= 0
            ):  # a plugin that is killed right after its start may be in the middle of its work
                raise PluginError(plugin, "not started: no time is left")
        if stop is not None and stop.is_set:
            raise PluginError(plugin, f"not started: {STOPPED}", abandoned=True)

        def say(line: str) -> None:
            log(plugin, line)

        try:
            output = self.invoker.run(step.binary, plugin, step.request, until, say, stop)
        except BrokenOffError as error:
            reason = f"it could not be waited for or read: {error.strerror}"
            raise PluginError(plugin, reason, killed=True) from error
        except OSError as error:
            raise PluginError(plugin, unstartable.explain(step.binary, error)) from error
        step.stdout = output.stdout
        return _result(plugin, step.binary, output, f"{seconds:.3g} s{whose}")


def _undecided(
    plugins: Sequence[PluginEntry], facts: Facts
) -> list[tuple[PluginEntry, str | None]]:
    """Return each plugin with ``Condition.undecided`` of its condition; "" without one."""
    return [
        (plugin, "" if plugin.when is None else plugin.when.undecided(facts)) for plugin in plugins
    ]


def _result(plugin: str, binary: str, output: Output, allowed: str) -> Result:
    """Return the plugin's result.

    :param allowed: the time that it had, for people.
    :raises PluginError: if the output holds an error or no valid result, or the process failed.
    """
    stderr = f"; the end of its stderr: {output.stderr}" if output.stderr else ""
    if output.status in unstartable.NOT_RUN and unstartable.has_windows_ends(
        binary
    ):  # `#!/usr/bin/env sh` with CR
        stderr += f"; {unstartable.WINDOWS}"
    if output.stopped == "deadline":
        raise PluginError(plugin, f"no result after {allowed}{stderr}", killed=True)
    if output.stopped == "stop":
        raise PluginError(plugin, f"{STOPPED}{stderr}", killed=True, abandoned=True)
    if output.stopped:
        fault = f"it wrote more than {MAX_OUTPUT} bytes to stdout, expected one result"
        raise PluginError(plugin, fault + stderr, killed=True)
    ending = output.ending
    also = f"; {ending}" if ending else ""
    try:
        if not output.stdout.strip():
            raise DecodeError("it wrote nothing to stdout, expected a result")
        result = Result.from_json(output.stdout)
    except DecodeError as error:
        wrote = (
            f": {shorten(readable(output.stdout[:4096].strip()), 200)}"
            if output.stdout.strip()
            else ""
        )
        raise PluginError(plugin, f"no valid result: {error}{wrote}{also}{stderr}") from error
    if result.error:
        raise PluginError(plugin, result.error + also, refused=result.refused and not ending)
    if result.refused:
        raise PluginError(
            plugin,
            f"no valid result: found refused without an error, expected its reason{also}{stderr}",
        )
    if ending:
        raise PluginError(plugin, f"{ending}, although it wrote a result without error{stderr}")
    return result


def as_shown(request: Request, changes: Changes) -> Request:
    """Return the request as the next plugin gets it."""
    if request.state == State.SETUP:
        spec = spec_from_oci(changes.config, adjustable=True)
        return request.replace(spec=spec, extensions=changes.abilities.extensions)
    if request.state == State.RESIZE:
        spec = request.spec or Spec()
        resources = changes.resources(request.id, spec.resources)
        return request.replace(
            spec=spec.replace(resources=resources), extensions={"adjust": EXTENSIONS["adjust"]}
        )
    return request


def _asks_for_changes(result: Result, changes: Changes | None) -> bool:
    has_changes = result.adjust not in (None, {}) or result.updates not in (None, [])
    return has_changes or (result.cgroups_path != "" and changes is not None)


def _take(step: Step, request: Request, result: Result, changes: Changes | None, log: Log) -> None:
    """Add what a plugin asks for to *changes*.

    If that cannot be done, the plugin has failed; or the pod is refused, if it is its wish that cannot be granted.
    """
    try:
        if changes is None:
            key = "updates" if result.adjust in (None, {}) else "adjust"
            raise NRIError(
                f"{key}: found it in answer to {request.state}, which this host cannot apply"
            )
        ignored = len(changes.ignored)
        changes.take(step.plugin.type, request, result)
        for line in changes.ignored[ignored:]:
            log(step.plugin.type, line)
    except NRIError as error:
        is_refused = result.pod_asked or getattr(error, "pod_asked", False)
        step.result = None
        step.error = PluginError(step.plugin.type, str(error), refused=is_refused)


def _log(plugin: str, line: str) -> None:
    import logging

    logging.getLogger("nri.client").info("%s: %s", plugin, line)
