"""Keep a plugin connected: to the runtime that launched it, or to any runtime that listens.

A plugin that a runtime launches inherits a connected socket, with its number in the environment, and ends with it. A
plugin from outside connects again whenever the connection ends: a runtime may restart, and must find its plugins.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import sys
import threading
from collections.abc import Mapping, Sequence

from nri.api import ContainerUpdate
from nri.api.names import SOCKET_VARIABLE
from nri.errors import NRIError
from nri.multiplex import ClosedError, inherited_socket
from nri.places import DEFAULT_SOCKET
from nri.stub.plugin import Identity, V2Plugin, handlers
from nri.stub.session import Session

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.8
"""Seconds between attempts to connect: doubled each time, with jitter so that plugins don't connect all at once."""

log = logging.getLogger("nri.stub")


class Runner:
    """Keeps a plugin connected.

    :param sock: a connected socket to use instead of the environment's and of ``path``.
    :param build: the plugin's build, which the log shows beside its name.
    """

    def __init__(
        self,
        plugin: V2Plugin,
        *,
        name: str = "",
        index: str = "",
        path: str = DEFAULT_SOCKET,
        sock: socket.socket | None = None,
        environment: Mapping[str, str] = os.environ,
        executable: str = "",
        build: str = "",
    ) -> None:
        handlers(plugin)  # raises early
        self.identity = Identity.find(environment, executable or sys.argv[0], name=name, index=index)
        self._plugin, self._path, self._build = plugin, path, build
        self._connected = sock if sock is not None else _inherited(environment)
        self._stopped = threading.Event()
        self._session: Session | None = None

    def run(self) -> ClosedError | None:
        """Serve the given or inherited connection until it is closed; otherwise connect, repeatedly, until stopped.

        Returns the reason why the last connection was closed; None without a connection.
        """
        if self._connected is not None:
            return self._serve(Session(self._plugin, self.identity, self._connected))
        reason = None
        pause, reported = FIRST_PAUSE, ""
        while not self._stopped.is_set():
            log.debug("connecting to %s", self._path)
            try:
                sock = _connect(self._path)
            except OSError as error:
                failure = f"no runtime at {self._path}: {error.strerror or error}"
            else:
                session = Session(self._plugin, self.identity, sock)
                reason = self._serve(session)
                failure = "" if session.synchronized else f"not accepted at {self._path}: {reason}"
            if not failure:
                pause = FIRST_PAUSE
            elif failure != reported and not self._stopped.is_set():  # a runtime may be away for hours
                log.warning("%s; retrying until a runtime accepts the connection", failure)
            reported = failure
            wait = pause * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret
            log.debug("%s; next attempt in %.2f s", failure or "disconnected", wait)
            self._stopped.wait(wait)
            pause = min(2 * pause, LONGEST_PAUSE)
        return reason

    def stop(self, *, grace: float = 0.0) -> None:
        """Close the connection as :meth:`Session.close`, and make :meth:`run` return. Another thread calls this."""
        self._stopped.set()
        if (session := self._session) is not None:
            session.close("the plugin was stopped", grace=grace)

    def update_containers(
        self, updates: Sequence[ContainerUpdate], *, timeout: float | None = None
    ) -> list[ContainerUpdate]:
        """Call :meth:`Session.update_containers` on the current connection.

        :raises NRIError: also when the plugin is not connected.
        """
        if (session := self._session) is None:
            raise NRIError("not connected to a runtime")
        return session.update_containers(updates, timeout=timeout)

    def _serve(self, session: Session) -> ClosedError:
        self._session = session
        if self._stopped.is_set():
            session.close("the plugin was stopped")
        log.info("connected as %s", f"{self.identity} {self._build}".rstrip())
        try:
            reason = session.run()
        finally:
            self._session = None
        log.info("disconnected: %s", reason)
        return reason


def run(plugin: V2Plugin, *, name: str = "", index: str = "", path: str = DEFAULT_SOCKET) -> None:
    """Serve ``plugin``: until its connection is closed, if a runtime launched it; otherwise for ever.

    :raises NRIError: when its name or index is unknown, or it handles no event.
    """
    Runner(plugin, name=name, index=index, path=path).run()


def _inherited(environment: Mapping[str, str]) -> socket.socket | None:
    if (number := environment.get(SOCKET_VARIABLE)) is None:
        return None
    if not number.isascii() or not number.isdigit() or len(number) > 6:
        raise NRIError(f"{SOCKET_VARIABLE} is {number!r}, expected the number of a descriptor")
    return inherited_socket(int(number))


def _connect(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)  # a local connect() succeeds at once or, when the backlog is full, fails at once
        sock.connect(path)
    except BaseException:
        sock.close()
        raise
    return sock
