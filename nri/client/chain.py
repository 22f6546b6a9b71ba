"""The chain: every plugin of a configuration, in order, each with the results of those before it.

The contract, as in Go's ``InvokeWithSandbox`` but where noted:

- every plugin gets the same request with its own ``conf``, and the earlier results in ``results``;
- an error stops the chain, but for ``delete``: there every plugin is run, and the errors are reported together;
- a plugin whose ``failurePolicy`` is ``ignore`` is logged and passed over when it fails;
- ``create`` and ``delete`` go to every plugin, the other states to those that list them in ``states``;
- every plugin has a deadline, and none outlives it.
"""

from __future__ import annotations

import time

from nri.client.errors import ChainError, PluginError
from nri.client.lookup import DEFAULT_BIN_DIRS, find
from nri.client.oci import spec_from_oci
from nri.process import launch, unstartable
from nri.process.lines import readable
from nri.types.errors import DecodeError
from nri.types.gojson import shorten
from nri.types.v1 import Request, Result, Spec, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from nri.config.entries import ConfigList, PluginEntry

DEFAULT_TIMEOUT = 10.0
"""Seconds that a plugin has, unless its entry in the configuration says otherwise."""


class Task:
    """A container as its runtime knows it: Go's ``Task``.

    :param spec: the OCI configuration as a dictionary, or what plugins are to see of it.
    """

    __slots__ = ("id", "pid", "spec")

    def __init__(self, id: str, pid: int, spec: Spec | dict[str, Any]) -> None:
        self.id = id
        self.pid = pid
        self.spec = spec


class Sandbox:
    """The pod sandbox that a container belongs to: Go's ``Sandbox``."""

    __slots__ = ("id", "labels")

    def __init__(self, id: str, labels: Mapping[str, str] | None = None) -> None:
        self.id = id
        self.labels = dict(labels or {})


class Exchange:
    """One plugin's part in a chain, for whoever wants to see it."""

    __slots__ = ("binary", "error", "plugin", "request", "result", "seconds", "stdout")

    def __init__(self, plugin: PluginEntry, request: bytes) -> None:
        self.plugin = plugin
        self.request = request
        self.binary = ""
        self.stdout = b""
        self.result: Result | None = None
        self.error: PluginError | None = None
        self.seconds = 0.0


class Client:
    """Runs the plugins of a host configuration.

    :param config: from :func:`nri.config.loading`.
    :param bin_dirs: where the executables are; the first one found is run.
    :param timeout: seconds for a plugin whose entry has no ``timeout``.
    :param failure_policy: ``fail`` or ``ignore``, for a plugin whose entry has no ``failurePolicy``.
    :param max_output: bytes of stdout that a plugin may write, and of stderr that are logged.
    :param log: called with a plugin's type and a line of its stderr, or what became of it; by default these go to
        the logger ``nri.client``.
    :param on_exchange: called after each plugin.
    :param check_owner: whether a plugin is run only if nobody but root and ourselves can write to it.
    :param run: runs an executable: :func:`nri.process.launch.launch`, or that of a :class:`nri.client.Pool`.
    """

    def __init__(
        self,
        config: ConfigList,
        *,
        bin_dirs: Sequence[str] = DEFAULT_BIN_DIRS,
        timeout: float = DEFAULT_TIMEOUT,
        failure_policy: str = "fail",
        max_output: int = launch.MAX_OUTPUT,
        log: Callable[[str, str], None] | None = None,
        on_exchange: Callable[[Exchange], None] | None = None,
        check_owner: bool = True,
        run: Callable[..., launch.Output] = launch.launch,
    ) -> None:
        self.config = config
        self.bin_dirs = tuple(bin_dirs)
        self.timeout = timeout
        self.failure_policy = failure_policy
        self.max_output = max_output
        self.check_owner = check_owner
        self._log = log or _log
        self._on_exchange = on_exchange
        self._launch = run

    def invoke(
        self,
        request_or_task: Request | Task,
        state: str,
        sandbox: Sandbox | None = None,
        *,
        deadline: float | None = None,
    ) -> list[Result]:
        """Run the chain for one step of a container's life.

        :param request_or_task: a task, or a request whose conf and version are replaced.
        :param deadline: of :func:`time.monotonic`, for the whole chain; a plugin has the shorter of this and its own.
        :returns: the results, also those that the request came with, in order.
        :raises ChainError: when a plugin fails.
        :raises DecodeError: when the task's specification is not an OCI configuration.
        """
        request = self.request(request_or_task, state, sandbox)
        results = list(request.results)
        errors = []
        for plugin in self.chain(state):
            try:
                results.append(self._run(plugin, request.replace(conf=plugin.conf, results=tuple(results)), deadline))
            except PluginError as error:
                if (plugin.failure_policy or self.failure_policy) == "ignore":
                    self._log(plugin.type, f"failed, and is passed over (failurePolicy: ignore): {error.reason}")
                    continue
                errors.append(error)
                if state != State.DELETE:
                    break
        if errors:
            raise ChainError(errors, results)
        return results

    def chain(self, state: str) -> list[PluginEntry]:
        """The plugins that are run for ``state``, in order."""
        return [plugin for plugin in self.config.plugins if plugin.wants(state)]

    def request(self, request_or_task: Request | Task, state: str, sandbox: Sandbox | None = None) -> Request:
        """The request that the plugins are sent, but for ``conf`` and ``results``.

        :raises DecodeError: when the task's specification is not an OCI configuration.
        """
        version = self.config.version
        if isinstance(request_or_task, Request):
            request = request_or_task.replace(state=State(state), version=version)
        else:
            spec = request_or_task.spec
            request = Request(
                version=version,
                state=state,
                id=request_or_task.id,
                pid=request_or_task.pid,
                spec=spec if isinstance(spec, Spec) else spec_from_oci(spec),
            )
        return request if sandbox is None else request.replace(sandbox_id=sandbox.id, labels=sandbox.labels)

    def _run(self, plugin: PluginEntry, request: Request, deadline: float | None) -> Result:
        exchange = Exchange(plugin, request.to_json())
        started = time.monotonic()
        try:
            exchange.binary = find(plugin.type, self.bin_dirs, check_owner=self.check_owner)
            exchange.result = self._exchange(exchange, deadline)
        except PluginError as error:
            exchange.error = error
            raise
        else:
            return exchange.result
        finally:
            exchange.seconds = time.monotonic() - started
            if self._on_exchange is not None:
                self._on_exchange(exchange)

    def _exchange(self, exchange: Exchange, deadline: float | None) -> Result:
        plugin = exchange.plugin
        seconds = plugin.timeout or self.timeout
        until = time.monotonic() + seconds
        if deadline is not None and deadline < until:
            until = deadline
            seconds = deadline - time.monotonic()
            if seconds <= 0:  # started and killed at once it might be in the middle of its work
                raise PluginError(plugin.type, "not started: no time is left")
        try:
            output = self._launch(
                exchange.binary,
                [plugin.type, "invoke"],
                exchange.request,
                until,
                max_output=self.max_output,
                log=lambda line: self._log(plugin.type, line),
            )
        except OSError as error:
            raise PluginError(plugin.type, _not_started(exchange.binary, error)) from error
        exchange.stdout = output.stdout
        return _result(plugin.type, exchange.binary, output, seconds, self.max_output)


def _result(plugin: str, binary: str, output: launch.Output, seconds: float, max_output: int) -> Result:
    """What the plugin answered, or the error that its output amounts to."""
    said = f"; the end of its stderr: {output.stderr}" if output.stderr else ""
    if output.status in unstartable.NOT_RUN and unstartable.has_windows_ends(binary):  # as of `#!/usr/bin/env sh` CR
        said += f"; {unstartable.WINDOWS}"
    if output.stopped == "deadline":
        raise PluginError(plugin, f"killed: no result after {seconds:.3g} s{said}")
    if output.stopped:
        raise PluginError(
            plugin, f"killed: it wrote more than {max_output} bytes to stdout, expected one result{said}"
        )
    ended = output.ending
    try:
        if not output.stdout.strip():
            raise DecodeError("it wrote nothing to stdout, expected a result")
        result = Result.from_json(output.stdout)
    except DecodeError as error:
        wrote = f": {_quote(output.stdout)}" if output.stdout.strip() else ""
        also = f"; {ended}" if ended else ""
        raise PluginError(plugin, f"no valid result: {error}{wrote}{also}{said}") from error
    if result.error:
        raise PluginError(plugin, result.error + (f"; {ended}" if ended else ""))
    if ended:
        raise PluginError(plugin, f"{ended}, although it wrote a result without error{said}")
    return result


def _quote(stdout: bytes) -> str:
    return shorten(readable(stdout[:4096].strip()), 200)


def _not_started(binary: str, error: OSError) -> str:
    if isinstance(error, launch.BrokenOffError):
        return f"killed: it could not be waited for or read any more: {error.strerror}"
    return unstartable.explain(binary, error)


def _log(plugin: str, line: str) -> None:
    import logging

    logging.getLogger("nri.client").info("%s: %s", plugin, line)
