"""How a plugin lives: launched by a runtime, it serves that one; else it looks for one, and never gives up.

A runtime that launches a plugin leaves it a connected socket, and its number in the environment. When that is
closed, the runtime is gone or has done with the plugin, and the process has nothing more to do. A plugin from
outside connects to the runtime's socket, and when it is closed, again: a runtime restarts, and its plugins shall be
there when it is back.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import sys
import threading
from typing import TYPE_CHECKING

from nri.errors import NRIError
from nri.multiplex import inherited
from nri.places import DEFAULT_SOCKET
from nri.stub.identity import SOCKET_VARIABLE, Identity
from nri.stub.plugin import handlers
from nri.stub.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nri.api import ContainerUpdate
    from nri.multiplex import ClosedError
    from nri.stub.plugin import Plugin

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.8
"""Seconds between attempts to connect: doubled each time, and jittered, so that plugins do not come all at once."""

log = logging.getLogger("nri.stub")


class Runner:
    """Keeps a plugin connected.

    :param sock: a connected socket, instead of the environment's and of ``path``.
    :param build: what the log says of the plugin's build, beside its name.
    """

    def __init__(
        self,
        plugin: Plugin,
        *,
        name: str = "",
        index: str = "",
        path: str = DEFAULT_SOCKET,
        sock: socket.socket | None = None,
        environment: Mapping[str, str] = os.environ,
        executable: str = "",
        build: str = "",
    ) -> None:
        handlers(plugin)  # refuse early
        self.identity = Identity.find(environment, executable or sys.argv[0], name=name, index=index)
        self._plugin = plugin
        self._path = path
        self._build = build
        self._given = sock if sock is not None else _left_to_us(environment)
        self._stopped = threading.Event()
        self._session: Session | None = None

    def run(self) -> ClosedError | None:
        """Serve the connection that was given, until it is closed; or connect, again and again, until stopped.

        Returns why the last connection was closed, None where there was none.
        """
        if self._given is not None:
            return self._serve(Session(self._plugin, self.identity, self._given))
        reason = None
        pause, complained = FIRST_PAUSE, ""
        while not self._stopped.is_set():
            log.debug("connecting to %s", self._path)
            try:
                sock = _connect(self._path)
            except OSError as error:
                complaint = f"no runtime at {self._path}: {error.strerror or error}"
            else:
                session = Session(self._plugin, self.identity, sock)
                reason = self._serve(session)
                complaint = "" if session.synchronized else f"not accepted at {self._path}: {reason}"
            if not complaint:
                pause = FIRST_PAUSE
            elif complaint != complained and not self._stopped.is_set():  # a runtime may be away for hours
                log.warning("%s; trying again until there is one that accepts the plugin", complaint)
            complained = complaint
            wait = pause * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret
            log.debug("%s; next attempt in %.2f s", complaint or "disconnected", wait)
            self._stopped.wait(wait)
            pause = min(2 * pause, LONGEST_PAUSE)
        return reason

    def stop(self, *, grace: float = 0.0) -> None:
        """Close the connection, and connect no more: :meth:`run` returns. For another thread.

        :param grace: seconds that the handlers which are at work get until their answers are sent.
        """
        self._stopped.set()
        session = self._session
        if session is not None:
            session.close("the plugin was stopped", grace=grace)

    def update_containers(
        self, updates: Sequence[ContainerUpdate], *, timeout: float | None = None
    ) -> list[ContainerUpdate]:
        """As :meth:`Session.update_containers`, on the connection that there is now.

        :raises NRIError: also when there is none.
        """
        session = self._session
        if session is None:
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


def run(plugin: Plugin, *, name: str = "", index: str = "", path: str = DEFAULT_SOCKET) -> None:
    """Serve ``plugin`` until its runtime, if it was launched by one, is done with it; else for ever.

    :raises NRIError: when its name and index can't be told, or it handles no event.
    """
    Runner(plugin, name=name, index=index, path=path).run()


def _left_to_us(environment: Mapping[str, str]) -> socket.socket | None:
    number = environment.get(SOCKET_VARIABLE)
    if number is None:
        return None
    if not number.isascii() or not number.isdigit() or len(number) > 6:
        raise NRIError(f"{SOCKET_VARIABLE} is {number!r}, expected the number of a descriptor")
    return inherited(int(number))


def _connect(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)  # a local connection is made at once or, where too many wait for theirs, not at all
        sock.connect(path)
    except BaseException:
        sock.close()
        raise
    return sock
