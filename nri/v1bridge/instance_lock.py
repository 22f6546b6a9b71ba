"""The instance lock: one bridge of a node holds it, since two connected bridges run every plugin twice.

A bridge from outside takes it before it connects, and stands by while another one holds it. A bridge that a runtime
launches must register at once, so it takes the lock in the background, and the log has an error if that takes longer
than another bridge needs for its end. The kernel releases the lock when the process ends, however it ends. The
descriptor is closed in children. Without the lock's file, such as for a user who is not root, the bridge goes on.

The lock's file may be removed under a bridge, so the next one also looks whether another process listens on the
status socket beside it.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import socket
import stat
import threading
import time

from nri import peer, trust
from nri.errors import NRIError, escape

GRACE = 8.0
"""Seconds after which a launched bridge that does not get the lock reports it; an ending one needs 5 at most."""

POLL = 0.2
"""Seconds between two attempts."""

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY

log = logging.getLogger("nri.v1bridge")


class InstanceLock:
    """The lock of one bridge.

    :param path: the lock's file; it is made if it is not there, and stays.
    :param grace: see :data:`GRACE`.
    """

    def __init__(self, path: str, grace: float = GRACE) -> None:
        self._path, self._grace = path, grace
        self._fd = -1
        self._is_ending = threading.Event()

    def stand_by(self) -> bool:
        """Wait until no other bridge has the lock; return False if :meth:`stop` was called meanwhile."""
        if self._take():
            return True
        log.info("standing by: %s serves this node; connecting when it ends", self._holder())
        while not self._take():
            if self._is_ending.wait(POLL):
                return False
        log.info("the other bridge has ended")
        return True

    def take_in_background(self) -> None:
        """Take the lock, now or when the other bridge ends; report another one that stays."""
        if not self._take():
            threading.Thread(target=self._watch, name="instance-lock", daemon=True).start()

    def stop(self) -> None:
        """Take it no more: the bridge ends."""
        self._is_ending.set()

    def release(self) -> None:
        """Give the lock to the next bridge. The process's end does the same."""
        self.stop()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _watch(self) -> None:
        report_at, is_reported = time.monotonic() + self._grace, False
        while not self._is_ending.wait(POLL) and not self._take():
            if not is_reported and time.monotonic() >= report_at:
                is_reported = True
                means = "every plugin runs twice as long as both are connected; keep one of them"
                about = "runs on this node, beside this one, which the runtime has launched"
                log.error("%s %s: %s", self._holder(), about, means)
        if is_reported and not self._is_ending.is_set():
            log.info("the other bridge has ended")

    def _take(self) -> bool:
        """Return whether no other bridge holds the lock: true if we hold it, or if no lock file can be created."""
        fd = -1
        try:
            fd = self._open()
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._other():
                self._fd, fd = fd, -1
                with contextlib.suppress(OSError):  # the disk is full; only the other bridge's log is poorer
                    os.ftruncate(self._fd, 0)
                    os.pwrite(self._fd, b"%d\n" % os.getpid(), 0)
                return True
        except BlockingIOError:
            pass
        except (OSError, NRIError) as error:
            reason = str(error) if isinstance(error, NRIError) else error.strerror or str(error)
            log.info("no lock keeps a second bridge away: %s: %s", self._path, escape(reason))
            return True
        finally:
            if fd >= 0:
                os.close(fd)
        return False

    def _open(self) -> int:
        """Return a descriptor of the lock's file.

        :raises OSError: it cannot be made or opened.
        :raises NRIError: other users could lock it, and so keep every bridge away.
        """
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        fd = os.open(self._path, _FLAGS, 0o600)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:
                raise NRIError(f"it has mode {status.st_mode & 0o7777:04o}, expected a regular file of mode 0600")
            if wrong := trust.judge_path(self._path, status):
                raise NRIError(wrong)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _other(self) -> int:
        """Return the pid of another process that listens on the status socket, -1 if it is hidden, 0 if none does."""
        try:
            fd = os.open(f"{self._path.removesuffix('.lock')}.sock", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.settimeout(POLL)
                    connection.connect(f"/proc/self/fd/{fd}")  # a path may be longer than a socket's address
                    pid, user = peer.credentials(connection)
            finally:
                os.close(fd)
        except OSError:
            return 0
        return 0 if pid == os.getpid() or not peer.is_trusted(user) else pid or -1

    def _holder(self) -> str:
        pid = self._other()
        if pid <= 0:  # it does not listen yet, or we do in its place
            try:
                with open(self._path, encoding="ascii") as file:
                    pid = int(file.read(32))
            except (OSError, ValueError):
                return "another bridge"
        return f"the bridge with pid {pid}"
