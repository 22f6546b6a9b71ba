"""The status of a bridge, at the status socket: docs/status.md describes protocol and documents.

One thread answers one request for each connection. No client can hold up the bridge, or another client: nothing
blocks, a connection has :data:`SECONDS`, and if there are too many, the oldest one is dropped.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import selectors
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from nri import __commit__, __date__, __version__, peer, trust
from nri.background import in_background
from nri.client import PluginError
from nri.errors import NRIError, escape, reason_of
from nri.types import DecodeError, gojson
from nri.v1bridge.log import describe as log_of
from nri.v2.api.runtimes import nri_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.client import Invoker
    from nri.config.entries import PluginEntry
    from nri.v1bridge.chains import Chains
    from nri.v1bridge.ledger import Ledger
    from nri.v2.stub import RuntimeInfo

CONNECTED, CONNECTING = "connected", "connecting"
"""The states of a bridge: it has a runtime, or looks for one."""

PROTOCOL = 1
"""The number of the protocol; it changes when a key gets another meaning."""

SECONDS = 5.0
"""Seconds that a connection has."""

CLIENTS = 64
"""Connections at a time."""

MAX_REQUEST = 4096
"""Bytes of a request."""

_EXPECTED = '{"get": "status"} or {"get": "pod", "name": "default/web"}'


log = logging.getLogger("nri.v1bridge")


class QuestionError(NRIError):
    """A request that the status socket does not know."""


class Status:
    """The status of a bridge. All methods may be called from any thread, and change nothing."""

    def __init__(self, chains: Chains, ledger: Ledger) -> None:
        self._chains, self._ledger = chains, ledger
        self._started = time.time()
        self._runtime: dict[str, Any] = dict.fromkeys(("name", "version", "nri", "since", "synchronized"))
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
        if question.get("get") == "pod" and isinstance(question.get("name"), str):
            return self._of_pod(question["name"])
        raise QuestionError(f"found another request, expected {_EXPECTED}")

    def _whole(self) -> bytes:
        client = self._chains.client()  # as an event does it, so that a broken file is noticed without one
        configuration = self._chains.configuration
        configuration.explain()
        self._chains.retry_record()
        self._chains.note_runs()
        with self._ledger.lock:
            return _encoded(
                {
                    "protocol": PROTOCOL,
                    "time": time.time(),
                    "bridge": self._bridge(),
                    "runtime": {**self._runtime, "connections": self._connections},
                    "configuration": configuration.describe(),
                    "plugins": [self._plugin(plugin, client.invoker) for plugin in client.config.plugins],
                    "events": self._ledger.events(),
                    **self._chains.describe(),
                    "log": log_of(),
                }
            )

    def _of_pod(self, name: str) -> bytes:
        head: dict[str, Any] = {"protocol": PROTOCOL, "name": name}
        self._chains.note_runs()
        with self._ledger.lock:
            kept, head["forgotten"] = self._ledger.exchanges(name), self._ledger.forgotten
        exchanges = [
            json.dumps(exchange) for exchange in kept
        ]  # one at a time, as encoding holds up the event thread
        return f'{json.dumps(head)[:-1]}, "exchanges": [{", ".join(exchanges)}]}}\n'.encode()

    def _bridge(self) -> dict[str, Any]:
        build = {"version": __version__, "commit": __commit__ or None, "date": __date__ or None}
        options = self._chains.options
        return {
            **build,
            "pid": os.getpid(),
            "started": self._started,
            "state": self._state,
            "options": {key: getattr(options, name) for key, name in options.attributes.items()},
        }

    def _plugin(self, plugin: PluginEntry, invoker: Invoker) -> dict[str, Any]:
        options = self._chains.options
        binary, problem = None, None
        try:
            binary = invoker.find(plugin.type)
        except PluginError as error:
            problem = error.reason
        standing = self._chains.residents.standing(binary or "")
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


def refusal(error: str) -> bytes:
    """Return the answer to a request that cannot be answered."""
    return _encoded({"protocol": PROTOCOL, "error": error})


def _encoded(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


class StatusSocket:
    """Answers at a Unix socket. All methods may be called from any thread.

    :param answer: returns the answer to a request, or raises an NRIError.
    """

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self._path = ""
        self._identity: tuple[int, int] | None = None  # device and inode of our socket
        self._wake: socket.socket | None = None

    def open(self, path: str) -> None:
        """Answer at ``path`` from now on. The log has the reason if that cannot be."""
        with self._lock:
            if path == self._path and self._wake is not None and os.path.lexists(path):
                return
            self._close()
            try:
                listener = _listen(path)
            except (OSError, NRIError) as error:
                log.error("no status socket: %s: %s", escape(path), escape(reason_of(error)))
                return
            status = os.lstat(path)
            self._path, self._identity = path, (status.st_dev, status.st_ino)
            self._wake, theirs = socket.socketpair()
            if reason := in_background(functools.partial(self._serve, listener, theirs), "status"):
                log.error("no status socket: %s", reason)
                listener.close()
                theirs.close()
                self._close()

    def renew(self) -> None:
        """Answer again if the socket was removed. One that another bridge has put there is left alone."""
        if self._wake is not None and not os.path.lexists(self._path):
            self.open(self._path)

    def close(self) -> None:
        """Answer no more, and remove the socket."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._wake is None:
            return
        self._wake.close()  # ends the thread
        self._wake = None
        try:
            status = os.lstat(self._path)
            if (status.st_dev, status.st_ino) == self._identity:
                os.unlink(self._path)
        except OSError:
            pass  # another bridge's, or removed

    def _serve(self, listener: socket.socket, stop: socket.socket) -> None:
        clients: list[_Client] = []  # the oldest first
        with listener, stop, selectors.DefaultSelector() as selector:
            selector.register(stop, selectors.EVENT_READ)
            selector.register(listener, selectors.EVENT_READ)
            while True:
                left = max(0.0, clients[0].until - time.monotonic()) if clients else None
                for key, _ in selector.select(left):
                    if key.fileobj is stop:
                        for client in clients:
                            client.sock.close()
                        return
                    if key.fileobj is listener:
                        if (sock := _accepted(listener)) is not None:
                            clients.append(_Client(sock))
                            selector.register(sock, selectors.EVENT_READ, clients[-1])
                    elif key.data.go_on(self._answered):
                        selector.modify(key.fileobj, key.data.waits_for, key.data)
                    else:
                        key.data.until = 0.0
                for client in clients[:-CLIENTS]:
                    client.until = 0.0
                now = time.monotonic()
                for client in [client for client in clients if client.until <= now]:
                    clients.remove(client)
                    selector.unregister(client.sock)
                    client.sock.close()

    def _answered(self, line: bytes) -> bytes:
        try:
            return self._answer(line)
        except NRIError as error:
            return refusal(str(error))
        except (Exception, SystemExit):  # PyInstaller raises the latter when its files are gone
            log.exception("unexpected error")
            return b""


class _Client:
    """One connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.until = time.monotonic() + SECONDS
        self.waits_for = selectors.EVENT_READ
        self._received = b""
        self._rest = memoryview(b"")  # of the answer

    def go_on(self, answer: Callable[[bytes], bytes]) -> bool:
        """Read the request, or write the answer; return whether there is more to do."""
        try:
            if self.waits_for == selectors.EVENT_READ:
                return self._receive(answer)
            self._rest = self._rest[self.sock.send(self._rest) :]
            return bool(self._rest)
        except BlockingIOError:
            return True
        except OSError:
            return False  # the client is gone

    def _receive(self, answer: Callable[[bytes], bytes]) -> bool:
        data = self.sock.recv(MAX_REQUEST + 1)
        self._received += data
        line, newline, _ = self._received.partition(b"\n")
        if len(line) > MAX_REQUEST:
            text = refusal(f"found more than {MAX_REQUEST} bytes, expected a line with a request")
        elif not newline and data:
            return True  # the rest of the line comes
        elif not line.strip():
            return False
        else:
            text = answer(line)
        self.waits_for, self._rest = selectors.EVENT_WRITE, memoryview(text)
        return bool(text)


def _accepted(listener: socket.socket) -> socket.socket | None:
    """Return the next connection of a client that may ask, if there is one."""
    try:
        sock, _ = listener.accept()
    except OSError:
        time.sleep(0.05)  # no descriptor is left, and the connection stays in the queue
        return None
    if not peer.is_trusted(peer.credentials(sock)[1]):
        sock.close()
        return None
    sock.setblocking(False)
    return sock


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
        listener.setblocking(False)
        os.rename(part, name, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        listener.close()
        with contextlib.suppress(OSError):
            os.unlink(part, dir_fd=at)
        raise
    finally:
        os.close(at)
    return listener
