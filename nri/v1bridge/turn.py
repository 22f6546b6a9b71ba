"""The turn: a lock that one bridge of a node holds, since two connected bridges run every plugin twice.

A bridge from outside takes it before it connects, and stands by while another one holds it. A bridge that a runtime
launches must register at once, so it takes the lock in the background, and the log has an error if that takes longer
than another bridge needs for its end. The kernel releases the lock when the process ends, however it ends. The
descriptor is closed in children. Without the lock's file, such as for a user who is not root, the bridge goes on.

The lock's file may be removed under a bridge, so the next one also looks whether another process listens on the
status socket. A bridge that has the lock and does not answer there is reported.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import stat
import threading
import time

from nri import peer, trust
from nri.background import in_background
from nri.errors import NRIError, escape

GRACE = 8.0
"""Seconds after which a launched bridge that does not get its turn reports it; an ending one needs 5 at most."""

ANSWER_WITHIN, POLL = 5.0, 0.2
"""Seconds that the bridge with the turn has to answer; and between two looks at a bridge whose lock was removed."""

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY

log = logging.getLogger("nri.v1bridge")


class Turn:
    """The turn of one bridge.

    :param path: the lock's file; it is made if it is not there, and stays.
    :param grace: see :data:`GRACE`.
    """

    def __init__(self, path: str, grace: float = GRACE) -> None:
        self._path, self._grace = path, grace
        self._socket = f"{path.removesuffix('.lock')}.sock"
        self._fd = -1
        self._settled = threading.Event()  # it is our turn, or the bridge ends
        self._is_stopped = False
        self._lock = threading.Lock()  # protects the descriptor: waiting for the turn and its release may coincide

    def stand_by(self) -> bool:
        """Wait until no other bridge has the turn; return False if :meth:`stop` was called meanwhile."""
        if self._take() or self._is_stopped:
            return not self._is_stopped
        log.info("standing by: %s serves this node; connecting when it ends", self._holder())
        self._wait_in_background()
        in_background(self._ask, "turn-ask")
        self._settled.wait()
        if self._is_stopped:
            return False
        log.info("the other bridge has ended")
        return True

    def take_in_background(self) -> None:
        """Take the turn, now or when the other bridge ends; report another one that stays."""
        if self._take():
            return
        self._wait_in_background()
        threading.Thread(target=self._watch, name="turn-watch", daemon=True).start()

    def stop(self) -> None:
        """Make :meth:`stand_by` return False."""
        self._is_stopped = True
        self._settled.set()

    def release(self) -> None:
        """Give the turn to the next bridge. The process's end does the same."""
        self.stop()
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def _take(self) -> bool:
        """Return whether no other bridge holds the lock: it is ours, or there is none to be had."""
        try:
            self._fd = self._open()
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except (OSError, NRIError) as error:
            reason = str(error) if isinstance(error, NRIError) else error.strerror or str(error)
            log.info("no lock keeps a second bridge away: %s: %s", self._path, escape(reason))
            return True
        if self._other():
            return False
        self._sign()
        return True

    def _other(self) -> int:
        """Return the pid of another process that listens on the status socket, 0 if none does."""
        try:
            with self._connected() as connection:
                pid, user = peer.credentials(connection)
        except OSError:
            return 0
        return 0 if pid == os.getpid() or not peer.is_trusted(user) else pid or -1

    def _connected(self) -> socket.socket:
        fd = os.open(self._socket, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(ANSWER_WITHIN)
            connection.connect(f"/proc/self/fd/{fd}")  # a path may be longer than a socket's address
        except BaseException:
            connection.close()
            raise
        finally:
            os.close(fd)
        return connection

    def _ask(self) -> None:
        """Report the bridge with the turn if it does not answer on its status socket."""
        until = time.monotonic() + ANSWER_WITHIN
        while not self._settled.wait(POLL):
            try:
                with self._connected() as connection:
                    connection.sendall(b"{}\n")
                    if connection.recv(1):
                        return
            except OSError:
                pass  # it may not have begun to listen
            if time.monotonic() >= until:
                log.error("%s has the lock %s and does not answer: end it", self._holder(), self._path)
                return

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

    def _sign(self) -> None:
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, b"%d\n" % os.getpid(), 0)
        except OSError:
            pass  # the disk is full; only the other bridge's log is poorer

    def _holder(self) -> str:
        if (pid := self._other()) > 0:
            return f"the bridge with pid {pid}"
        try:
            text = os.pread(self._fd, 32, 0).strip()
        except OSError:
            text = b""
        return f"the bridge with pid {int(text)}" if text.isdigit() else "another bridge"

    def _wait_in_background(self) -> None:
        threading.Thread(target=self._wait, name="turn", daemon=True).start()

    def _wait(self) -> None:
        with self._lock:
            if self._fd < 0:
                return  # it was released at once
            fd = os.dup(self._fd)  # ours may be closed meanwhile, and its number be another file's
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            while self._other() and not self._is_stopped:
                time.sleep(POLL)
            with self._lock:
                if self._fd >= 0:
                    self._sign()
        except OSError as error:
            log.error("no lock keeps a second bridge away: %s: %s", self._path, error.strerror)
        finally:
            os.close(fd)
        self._settled.set()

    def _watch(self) -> None:
        if self._settled.wait(self._grace):
            return
        means = "every plugin runs twice as long as both are connected; keep one of them"
        log.error("%s runs on this node, beside this one, which the runtime has launched: %s", self._holder(), means)
        self._settled.wait()
        if not self._is_stopped:
            log.info("the other bridge has ended")
