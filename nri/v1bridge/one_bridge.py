"""One bridge on a node: two connected ones would run every plugin twice."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import math
import os
import socket
import threading
import time

from nri import trust
from nri.errors import NRIError, escape, reason_of
from nri.places import beside
from nri.process import peer

log = logging.getLogger("nri.v1bridge")

GRACE = 8.0
"""Seconds after which a launched bridge that does not get the lock reports it; an ending one needs 5 at most."""

POLL = 0.2
"""Seconds between two attempts."""


class InstanceLock:
    """The lock that one bridge of a node holds, since two connected bridges run every plugin twice.

    A bridge from outside takes it before it connects, and stands by while another one holds it. A bridge that a
    runtime launches must register at once, so it takes the lock in the background, and the log has an error if that
    takes longer than another bridge needs for its end. The kernel releases the lock when the process ends. The
    descriptor is closed in children. Without a lock, such as for another user than root, the bridge goes on. The
    directory may be removed under a bridge, so the next one also looks whether another process listens on the status
    socket beside it.

    :param directory: that of the record, which is locked; it may be set later.
    :param grace: see ``GRACE``.
    """

    def __init__(self, directory: str = "", grace: float = GRACE) -> None:
        self.directory = directory
        self._grace = grace
        self._held = contextlib.ExitStack()  # has the descriptor
        self._is_ending = threading.Event()
        self.is_held = threading.Event()
        """Set when no other bridge has the lock any more, or no lock can be made."""

    def stand_by(self) -> bool:
        """Wait until no other bridge has the lock; return False if ``stop`` was called meanwhile."""
        if self._take():
            return True
        log.info("standing by: %s serves this node; connecting when it ends", self._holder())
        if not self._await(math.inf):
            return False
        log.info("the other bridge has ended")
        return True

    def _await(self, until: float) -> bool:
        """Take the lock when the other bridge ends; return False if ``stop`` was called first, or time is over.

        :param until: a time of ``time.monotonic``.
        """
        while not self._take():
            if self._is_ending.wait(POLL) or time.monotonic() >= until:
                return False
        return True

    def take_in_background(self) -> None:
        """Take the lock, now or when the other bridge ends; report another one that stays."""
        if not self._take():
            threading.Thread(
                target=self._watch, args=(self._holder(),), name="instance-lock", daemon=True
            ).start()

    def stop(self) -> None:
        """Take it no more: the bridge ends."""
        self._is_ending.set()

    def release(self) -> None:
        """Give the lock to the next bridge. The process's end does the same."""
        self.stop()
        self._held.close()

    def _watch(self, other: str) -> None:
        if self._await(time.monotonic() + self._grace) or self._is_ending.is_set():
            return
        means = "every plugin runs twice as long as both are connected; keep one of them"
        about = "runs on this node, beside this one, which the runtime has launched"
        log.error("%s %s: %s", other, about, means)
        if self._await(math.inf):
            log.info("the other bridge has ended")

    def _take(self) -> bool:
        """Return whether no other bridge holds the lock: we do from now on, or none can be made."""
        try:
            with contextlib.ExitStack() as opened:
                fd = self._open()
                opened.callback(os.close, fd)
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._other():
                    return False
                self._held = opened.pop_all()
        except BlockingIOError:
            return False
        except (OSError, NRIError) as error:
            log.info(
                "no lock keeps a second bridge away: %s: %s",
                self.directory,
                escape(reason_of(error)),
            )
        self.is_held.set()
        return True

    def _open(self) -> int:
        """Return a descriptor of the directory.

        :raises OSError: it cannot be made or opened.
        :raises NRIError: other users could lock it, and so keep every bridge away, or write to it.
        """
        trust.make_private(self.directory)
        if (mode := os.stat(self.directory).st_mode & 0o7777) & 0o077:
            raise NRIError(f"it has mode {mode:04o}, expected 0700")
        return os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def _other(self) -> int:
        """Return the pid of another process that listens on the status socket, -1 if it is hidden, 0 if none does."""
        try:
            fd = os.open(beside(self.directory, ".sock"), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.settimeout(POLL)
                    # A path may be longer than a socket's address.
                    connection.connect(f"/proc/self/fd/{fd}")
                    pid, user = peer.credentials(connection)
            finally:
                os.close(fd)
        except OSError:
            return 0
        if pid == os.getpid() or not peer.is_trusted(user):
            return 0
        return pid or -1

    def _holder(self) -> str:
        pid = self._other()  # none if it does not listen yet
        if pid > 0:
            return f"the bridge with pid {pid}"
        return "another bridge"
