"""The documents that the status socket answers with: docs/status.md describes them."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from nri import __commit__, __date__, __version__
from nri.client import PluginError
from nri.errors import NRIError
from nri.types import DecodeError, gojson
from nri.v1bridge import log
from nri.v2.api.runtimes import nri_version

if TYPE_CHECKING:
    from nri.client import Invoker
    from nri.config.entries import PluginEntry
    from nri.v1bridge.clients import Clients
    from nri.v1bridge.ledger import Ledger
    from nri.v1bridge.served import Served
    from nri.v2.stub import RuntimeInfo

CONNECTED, CONNECTING = "connected", "connecting"
"""The states of a bridge: it has a runtime, or looks for one."""

PROTOCOL = 1
"""The number of the protocol; it changes when a key gets another meaning."""

MAX_NAME = 253
"""Characters of a namespace and of a pod's name: the limit of Kubernetes."""

_EXPECTED = '{"get": "status"} or {"get": "pod", "namespace": "default", "name": "web"}'


class QuestionError(NRIError):
    """A request that the status socket does not know."""


class Status:
    """What a bridge says of itself. All methods may be called from any thread, and change nothing."""

    def __init__(self, clients: Clients, served: Served, ledger: Ledger) -> None:
        self._clients, self._served, self._ledger = clients, served, ledger
        self._started = time.time()
        self._runtime: dict[str, Any] = dict.fromkeys(("name", "version", "nri", "since"))
        self._connections = 0
        self._state = ""

    def configured(self, runtime: RuntimeInfo) -> None:
        """Note the runtime that has configured the bridge."""
        self._connections += 1
        numbers = nri_version(runtime.name, runtime.version, runtime.nri_version)
        nri = ".".join([str(number) for number in numbers[:2]])
        self._runtime = {"name": runtime.name, "version": runtime.version, "nri": nri, "since": time.time()}

    def is_in(self, state: str) -> None:
        """Note the state of the bridge: :data:`CONNECTED` or :data:`CONNECTING`."""
        self._state = state

    def answer(self, line: bytes) -> bytes:
        """Return the answer to a request.

        :raises QuestionError: the request is not one of those in docs/status.md.
        """
        try:
            question = gojson.loads(line)
        except DecodeError as error:
            raise QuestionError(f"found no JSON ({error}), expected {_EXPECTED}") from None
        if not isinstance(question, dict):
            raise QuestionError(f"found {gojson.describe(question)}, expected {_EXPECTED}")
        if question.get("get") == "status":
            return self._whole()
        if question.get("get") == "pod":
            return self._of_pod(_name(question, "namespace"), _name(question, "name"))
        raise QuestionError(f"get: found {gojson.describe(question.get('get'))}, expected {_EXPECTED}")

    def _whole(self) -> bytes:
        client = self._clients.current()  # as an event does it, so that a broken file is noticed without one
        configuration = self._clients.configuration
        configuration.explain()
        to, lost = log.destination()
        with self._ledger.reading():
            return _encoded(
                {
                    "protocol": PROTOCOL,
                    "time": time.time(),
                    "bridge": self._bridge(),
                    "runtime": {**self._runtime, "connections": self._connections},
                    "configuration": configuration.describe(),
                    "plugins": [self._plugin(plugin, client.invoker) for plugin in client.config.plugins],
                    "events": self._ledger.events(),
                    **self._served.describe(),
                    "log": {"to": to, "lost": lost},
                }
            )

    def _of_pod(self, namespace: str, name: str) -> bytes:
        head = {"protocol": PROTOCOL, "namespace": namespace, "name": name}
        with self._ledger.reading():
            # One at a time, as encoding holds up the event thread.
            exchanges = [json.dumps(each) for each in self._ledger.exchanges(f"{namespace}/{name}")]
            head |= {"forgotten": self._ledger.forgotten}
        return f'{json.dumps(head)[:-1]}, "exchanges": [{", ".join(exchanges)}]}}\n'.encode()

    def _bridge(self) -> dict[str, Any]:
        build = {"version": __version__, "commit": __commit__ or None, "date": __date__ or None}
        options = self._clients.options
        return {
            **build,
            "pid": os.getpid(),
            "started": self._started,
            "state": self._state,
            "options": {key: getattr(options, name) for key, name in options.attributes.items()},
        }

    def _plugin(self, plugin: PluginEntry, invoker: Invoker) -> dict[str, Any]:
        options = self._clients.options
        binary, problem = None, None
        try:
            binary = invoker.find(plugin.type)
        except PluginError as error:
            problem = error.reason
        standing = self._clients.residents.standing(binary or "")
        return {
            "type": plugin.type,
            "source": plugin.source,
            "index": plugin.source_index,
            "states": plugin.wanted_states,
            "timeout": plugin.timeout or options.plugin_timeout,
            "failurePolicy": plugin.failure_policy or options.failure_policy,
            "binary": binary,
            "problem": problem,
            "build": standing.build or None,
            "resident": {"state": standing.state, "reason": standing.reason or None},
            **self._ledger.runs(plugin, binary or ""),
        }


def _name(question: dict[str, Any], key: str) -> str:
    value = question.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME:
        raise QuestionError(f"{key}: found {gojson.describe(value)}, expected 1 to {MAX_NAME} characters")
    return value


def refusal(error: str) -> bytes:
    """Return the answer to a request that cannot be answered."""
    return _encoded({"protocol": PROTOCOL, "error": error})


def _encoded(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"
