"""The status of a bridge, at the status socket: docs/status.md describes protocol and documents.

Each client has a thread for a bounded time, and none can hold up an event, or another client.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from nri import trust
from nri.client import Client, PluginError
from nri.config.entries import PluginEntry
from nri.errors import NRIError, escape, reason_of
from nri.files import identity
from nri.node.record import REFUSED
from nri.process import peer, watchdog
from nri.process.background import in_background
from nri.v1bridge.chains import Chains
from nri.v1bridge.counts import Counts
from nri.v1bridge.log import describe as log_of
from nri.v1bridge.memory import NEW
from nri.v2.api.runtimes import nri_version
from nri.v2.stub import RuntimeInfo
from nri.version import build

CONNECTED = "connected"
CONNECTING = "connecting"
"""The states of a bridge: it has a runtime, or looks for one."""

PROTOCOL = 1
"""The number of the protocol; it changes when a key gets another meaning."""

SECONDS = 5.0
"""Seconds that a client has for its request, and then for its answer."""

CLIENTS = 64
"""Clients at a time; a later one takes the place of the oldest."""

MAX_REQUEST = 4096
"""Bytes of a request."""

log = logging.getLogger("nri.v1bridge")


MAX_TEXT = 2048
HIDDEN = "(not shown)"
"""Characters of a result that are shown, and what stands for environment and arguments: they may have secrets."""


class Status:
    """The status of a bridge. All methods may be called from any thread."""

    def __init__(self, chains: Chains, counts: Counts) -> None:
        self._chains = chains
        self._counts = counts
        self._started = time.time()
        self._runtime: dict[str, Any] = dict.fromkeys(
            ("name", "version", "nri", "since", "synchronized")
        )
        self._connections = 0
        self._state = ""

    def configured(self, runtime: RuntimeInfo) -> None:
        """Note the runtime that has configured the bridge."""
        self._connections += 1
        numbers = nri_version(runtime.name, runtime.version, runtime.nri_version)
        nri = ".".join([str(number) for number in numbers[:2]])
        about = {"name": runtime.name, "version": runtime.version, "nri": nri, "since": time.time()}
        self._runtime = {**about, "synchronized": False}

    def synchronized(self) -> None:
        """Note that the runtime has said what exists."""
        self._runtime["synchronized"] = True

    def is_in(self, state: str) -> None:
        """Note the state of the bridge: ``CONNECTED`` or ``CONNECTING``."""
        self._state = state

    def answer(self, line: str) -> bytes:
        """Return what a pod, ``NAMESPACE/NAME``, has had; for "" the status; for JSON what it asks for."""
        if not line.startswith("{"):
            return self._of_pod(line) if line else self._whole()
        answer: dict[str, Any] = {"protocol": PROTOCOL}
        try:
            asked = json.loads(line)
            answer |= self._reapply(**asked["reapply"])
        except (ValueError, LookupError, TypeError, RecursionError):
            answer["error"] = 'expected {"reapply": {…}}, as docs/status.md has it'
        return json.dumps(answer).encode() + b"\n"

    def _reapply(
        self,
        plugin: Any = "",
        namespace: Any = "",
        pod: Any = "",
        dryRun: Any = False,  # noqa: N803 - keys of JSON
    ) -> dict[str, Any]:
        if not isinstance(dryRun, bool) or not all(
            isinstance(text, str) for text in (plugin, namespace, pod)
        ):
            raise TypeError
        if self._state != CONNECTED and not dryRun:
            return {"error": "no runtime is connected; try again"}
        return {"reapply": self._chains.reapply(plugin, namespace, pod, is_dry=dryRun)}

    def _whole(self) -> bytes:
        # As an event does it, so that a broken file is noticed without one.
        client = self._chains.client()
        configuration = self._chains.configuration
        self._chains.memory.retry()  # not with the lock, which an event takes to be counted
        self._chains.note_runs()
        described = configuration.describe()
        why_unwatched = watchdog.look() or None
        with self._counts.lock:
            document = {
                "protocol": PROTOCOL,
                "time": time.time(),
                "bridge": self._bridge(),
                "runtime": {**self._runtime, "connections": self._connections},
                "configuration": described,
                "plugins": [self._plugin(plugin, client) for plugin in client.config.plugins],
                "refusals": self._counts.refusals(),
                "events": self._counts.events(),
                **self._chains.describe(),
                "watchdog": why_unwatched,
                "log": log_of(),
            }
            return json.dumps(document).encode() + b"\n"

    def _of_pod(self, name: str) -> bytes:
        containers = self._chains.memory.of_pod(name)
        refusals = [one for one in self._counts.refusals() if one["pod"] == name]
        refused = {one["container"] for one in refusals}
        for container in containers:
            for plugin in container["plugins"]:
                plugin["result"] = _shown(plugin["result"])
            if container["state"] == NEW and container["container"] in refused:
                container["state"] = REFUSED
        document = {"name": name, "containers": containers, "refusals": refusals}
        return json.dumps({"protocol": PROTOCOL, **document}).encode() + b"\n"

    def _bridge(self) -> dict[str, Any]:
        options = self._chains.options
        return {
            **build(),
            "pid": os.getpid(),
            "started": self._started,
            "state": self._state,
            "options": {key: getattr(options, name) for key, name in options.attributes.items()},
        }

    def _plugin(self, plugin: PluginEntry, client: Client) -> dict[str, Any]:
        binary = ""
        problem = None
        try:
            binary = client.invoker.find(plugin.type)
        except PluginError as error:
            problem = error.reason
        standing = self._chains.residents.standing(binary)
        return {
            "type": plugin.type,
            "source": plugin.source,
            "index": plugin.source_index,
            "states": plugin.wanted_states,
            "timeout": plugin.timeout or client.timeout,
            "failurePolicy": client.policy_of(plugin),
            "binary": binary or None,
            "problem": problem,
            "build": standing.build or None,
            "resident": {"state": standing.state, "reason": standing.reason or None},
            **self._counts.runs(plugin, binary),
        }


class StatusSocket:
    """Answers at a Unix socket. All methods may be called from any thread.

    :param answer: see ``Status.answer``.
    """

    def __init__(self, answer: Callable[[str], bytes]) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self._path = ""  # while it answers
        self._opened = contextlib.ExitStack()  # ends that

    def open(self, path: str) -> None:
        """Answer at ``path`` from now on. The log has the reason if that cannot be."""
        with self._lock:
            if path == self._path and os.path.lexists(path):
                return
            self._close()
            try:
                listener = _listen(path)
            except (OSError, NRIError) as error:
                log.error("no status socket: %s: %s", escape(path), escape(reason_of(error)))
                return
            self._path = path
            self._opened.callback(_end, listener, path, identity(path)[:2])
            if reason := in_background(functools.partial(self._serve, listener), "status"):
                log.error("no status socket: %s", reason)
                self._close()
                listener.close()

    def renew(self) -> None:
        """Answer again if the socket was removed. One that another bridge has put there is left alone."""
        if self._path:
            self.open(self._path)

    def close(self) -> None:
        """Answer no more, and remove the socket."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        self._path = ""
        self._opened.close()

    def _serve(self, listener: socket.socket) -> None:
        clients: deque[socket.socket] = deque()
        with listener:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError as error:
                    if error.errno == errno.EINVAL:  # it was shut down
                        return
                    time.sleep(0.05)  # no descriptor is left, and the connection stays in the queue
                    continue
                clients.append(client)
                if len(clients) > CLIENTS:
                    with contextlib.suppress(OSError):  # it has had its answer
                        clients.popleft().shutdown(socket.SHUT_RDWR)
                converse = functools.partial(self._converse, client)
                if in_background(converse, "status-client"):  # no thread is left
                    converse()

    def _converse(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):  # the client is gone, or too slow
            client.settimeout(SECONDS)
            if not peer.is_trusted(peer.credentials(client)[1]):
                return
            request = client.recv(MAX_REQUEST)
            if not request:
                return
            try:
                answer = self._answer(request.decode("utf-8", "replace").strip())
            except (Exception, SystemExit):  # PyInstaller raises the latter when its files are gone
                log.exception("unexpected error")
                return
            client.sendall(answer)


def _listen(path: str) -> socket.socket:
    """Return a socket that listens at ``path``, in place of any socket there. Root alone can connect.

    :raises OSError: it cannot be made.
    :raises NRIError: others can write to the directory.
    """
    directory, name = os.path.split(path)
    trust.make_private(directory)
    part = f"{name}.part"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part, dir_fd=at)
        # The directory's path may be longer than an address of a socket.
        listener.bind(f"/proc/self/fd/{at}/{part}")
        os.chmod(part, 0o600, dir_fd=at)  # before it listens, so no client can have connected
        listener.listen(CLIENTS)
        os.rename(part, name, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        listener.close()
        with contextlib.suppress(OSError):
            os.unlink(part, dir_fd=at)
        raise
    finally:
        os.close(at)
    return listener


def _end(listener: socket.socket, path: str, own: object) -> None:
    """End a listener and its thread; remove its socket, but not that of another bridge.

    :param own: its device and inode.
    """
    listener.shutdown(socket.SHUT_RDWR)
    if identity(path)[:2] == own:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _shown(result: str) -> str | None:
    """Return the beginning of a result, without environment and arguments; None for none."""
    if '"env"' in result or '"args"' in result:
        try:
            result = json.dumps(json.loads(result, object_hook=_hidden))
        except (ValueError, RecursionError):
            return HIDDEN
    return result[:MAX_TEXT] or None


def _hidden(value: dict[str, Any]) -> dict[str, Any]:
    for key in ("env", "args"):
        if key in value:
            value[key] = HIDDEN
    return value
