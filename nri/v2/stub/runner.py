"""Keep a plugin connected: to the runtime that launched it, or to any runtime that listens.

A plugin that a runtime launches inherits a connected socket, with its number in the environment, and ends with it. A
plugin that is given a connected socket ends with that one. A plugin from outside connects again whenever the
connection ends: a runtime may restart, and must find its plugins.
"""

from __future__ import annotations

import logging
import os
import random
import re
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from nri.errors import NRIError, escape, reason_of
from nri.places import DEFAULT_SOCKET
from nri.v2.api import ContainerUpdate, events
from nri.v2.api.names import SOCKET_VARIABLE
from nri.v2.mux import ClosedError, inherited_socket
from nri.v2.stub.plugin import Identity, RuntimeInfo, V2Plugin, handlers
from nri.v2.stub.session import REGISTRATION_TIMEOUT, Session

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 0.8
"""Seconds between attempts to connect: doubled each time, with jitter so that plugins don't connect all at once."""

_DESCRIPTOR = re.compile(r"[0-9]{1,6}")

log = logging.getLogger("nri.v2.stub")


class Runner:
    """Keeps a plugin connected.

    :param path: the runtime's socket, for a plugin that no runtime has launched.
    :param sock: a connected stream socket to use instead of the environment's and of ``path``. It belongs to the
        runner, which closes it, and does not connect again.
    :param registration_timeout: seconds that a runtime has to register the plugin, and then to configure it.
    :param build: the plugin's build, which the log shows beside its name.
    :raises NRIError: when the name or index is unknown, the plugin handles no event, or a socket is not connected.
    """

    def __init__(  # noqa: PLR0913 - optional, by name
        self,
        plugin: V2Plugin,
        *,
        name: str = "",
        index: str = "",
        path: str = DEFAULT_SOCKET,
        sock: socket.socket | None = None,
        environment: Mapping[str, str] = os.environ,
        executable: str = "",
        registration_timeout: float = REGISTRATION_TIMEOUT,
        build: str = "",
    ) -> None:
        handlers(plugin)  # raises early
        self.identity = Identity.find(
            environment, executable or sys.argv[0], name=name, index=index
        )
        self._plugin = plugin
        self._path = path
        self._build = build
        self._registration_timeout = registration_timeout
        if sock is None:
            self._connected = _inherited(environment)
        else:
            self._connected = _given(sock)
        self._stopped = threading.Event()
        self.session: Session | None = None
        self._latest: Session | None = None

    @property
    def runtime(self) -> RuntimeInfo | None:
        """The runtime of the current connection, else of the last one; None until it has configured the plugin."""
        return None if self._latest is None else self._latest.runtime

    def run(self) -> ClosedError | None:
        """Serve the given or inherited connection until it is closed; otherwise connect, repeatedly, until stopped.

        Returns the reason why the last connection was closed; None without a connection.
        """
        if self._connected is not None:
            return self._serve(self._on(self._connected))
        reason = None
        pause = FIRST_PAUSE
        reported = ""
        while not self._stopped.is_set():
            log.debug("connecting to %s", self._path)
            try:
                sock = connect(self._path)
                try:
                    session = self._on(sock)
                except BaseException:
                    sock.close()
                    raise
            except OSError as error:
                failure = f"no runtime at {self._path}: {reason_of(error)}"
            else:
                reason = self._serve(session)
                if session.synchronized:
                    failure = ""
                else:
                    failure = f"not accepted at {self._path}: {reason}"
            if not failure:
                pause = FIRST_PAUSE
            # A runtime may be away for hours.
            elif failure != reported and not self._stopped.is_set():
                log.warning("%s; retrying until a runtime accepts the connection", failure)
            reported = failure
            wait = pause * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret
            log.debug("%s; next attempt in %.2f s", failure or "disconnected", wait)
            self._stopped.wait(wait)
            pause = min(2 * pause, LONGEST_PAUSE)
        return reason

    def stop(self, *, grace: float = 0.0) -> None:
        """Close the connection as ``Session.close``, and make ``run`` return. Another thread calls this."""
        self._stopped.set()
        if (session := self.session) is not None:
            session.close("the plugin was stopped", grace=grace)

    def update_containers(
        self, updates: Sequence[ContainerUpdate], *, timeout: float | None = None
    ) -> list[ContainerUpdate]:
        """Call ``Session.update_containers`` on the current connection.

        :raises NRIError: also when the plugin is not connected.
        """
        if (session := self.session) is None:
            raise NRIError("not connected to a runtime")
        return session.update_containers(updates, timeout=timeout)

    def _on(self, sock: socket.socket) -> Session:
        session = Session(self._plugin, self.identity, sock)
        session.registration_timeout = self._registration_timeout
        return session

    def _serve(self, session: Session) -> ClosedError:
        self.session = self._latest = session
        if self._stopped.is_set():
            session.close("the plugin was stopped")
        log.info("connected as %s", f"{self.identity} {self._build}".rstrip())
        try:
            reason = session.run()
        finally:
            self.session = None
        log.info("disconnected: %s", reason)
        return reason


def run(
    plugin: V2Plugin,
    *,
    name: str = "",
    index: str = "",
    path: str = DEFAULT_SOCKET,
    sock: socket.socket | None = None,
    registration_timeout: float = REGISTRATION_TIMEOUT,
) -> None:
    """Serve ``plugin``: until its connection is closed, if a runtime launched it or ``sock`` is given; else for ever.

    With ``--help`` as the program's argument it prints what the plugin handles, and returns.

    The parameters are those of ``Runner``.

    :raises NRIError: when its name or index is unknown, it handles no event, or a socket is not connected.
    """
    if sys.argv[1:2] in (["--help"], ["-h"]):
        print(_help(plugin, path))
        return
    Runner(
        plugin,
        name=name,
        index=index,
        path=path,
        sock=sock,
        registration_timeout=registration_timeout,
    ).run()


def _help(plugin: V2Plugin, path: str) -> str:
    from inspect import cleandoc  # which takes longer than a plugin's start should

    parts = [
        f"{os.path.basename(sys.argv[0])}: a plugin of the Node Resource Interface v2",
        cleandoc(plugin.__doc__ or ""),
        f"It handles {', '.join(events.names(events.mask(handlers(plugin))))}.",
        (
            "A runtime starts it as /opt/nri/plugins/NN-name, where NN is its place among others, "
            "such as 10."
        ),
        f"Started by hand, it connects to {path}.",
    ]
    return "\n\n".join(filter(None, parts))


def _inherited(environment: Mapping[str, str]) -> socket.socket | None:
    if (number := environment.get(SOCKET_VARIABLE)) is None:
        return None
    if not _DESCRIPTOR.fullmatch(number):
        raise NRIError(f"{SOCKET_VARIABLE} is {number!r}, expected the number of a descriptor")
    return inherited_socket(int(number))


def _given(sock: Any) -> socket.socket:
    """Return the connected socket that an author gives; it stays open on an error."""
    if not isinstance(sock, socket.socket) or sock.type != socket.SOCK_STREAM:
        raise NRIError(f"found {escape(f'{sock!r:.120}')}, expected a connected stream socket")
    try:
        sock.getpeername()
    except OSError as error:
        raise NRIError(f"the given socket is not connected: {reason_of(error)}") from error
    return sock


def connect(path: str) -> socket.socket:
    """Return a socket that is connected to a runtime's.

    :raises OSError: none listens there.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A local connect() succeeds at once or, when the backlog is full, fails at once.
        sock.setblocking(False)
        sock.connect(path)
    except BaseException:
        sock.close()
        raise
    return sock
