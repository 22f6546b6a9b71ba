"""The socket at which plugins from outside connect. Only root and the user of this process may connect.

A plugin decides about every container, so two things enforce that: the modes of the socket and its directory, and the
peer's credentials, which the kernel gives for each connection (:mod:`nri.peer`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import stat
import threading
from collections.abc import Callable

from nri import peer, trust
from nri.adaptation.errors import AdaptationError

log = logging.getLogger("nri.adaptation")


class Listener:
    """Listens at ``path``: a socket with mode 0600, in a directory that is made with mode 0700 if it does not exist.

    No other user may be able to write to an existing directory, and so to replace the socket.

    :param accept: called with each connection, in a thread of its own. It closes the socket.
    :raises AdaptationError: when it can't listen, or others could replace the socket.
    """

    def __init__(self, path: str, accept: Callable[[socket.socket], object]) -> None:
        self.path = path
        self._accept = accept
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _prepare(os.path.dirname(path) or ".")
            _remove_old(path)
            self._socket.bind(path)
            os.chmod(path, 0o600)  # no connection is possible before listen()
            self._socket.listen()
        except OSError as error:
            self._socket.close()
            raise AdaptationError(f"can't listen at {path}: {error.strerror or error}") from error
        except AdaptationError:
            self._socket.close()
            raise
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="nri-listen", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Accept no more connections, and remove the socket."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._thread.join()
        self._socket.close()
        with contextlib.suppress(OSError):  # it may already be gone
            os.unlink(self.path)

    def _run(self) -> None:
        while not self._closing:
            try:
                sock, _ = self._socket.accept()
            except OSError as error:
                if not self._closing:
                    log.error("no more connections are accepted at %s: %s", self.path, error.strerror)
                return
            pid, user = peer.credentials(sock)
            if not peer.is_trusted(user):
                log.warning("refused: process %d of user %d has connected to %s", pid, user, self.path)
                sock.close()
                continue
            threading.Thread(target=self._accept, args=(sock,), name="nri-accept", daemon=True).start()


def _prepare(directory: str) -> None:
    os.makedirs(directory, mode=0o700, exist_ok=True)
    status = os.stat(directory)
    if wrong := trust.judge(status):
        raise AdaptationError(f"can't listen in {directory}: it {wrong}, or a path that does not exist, to create it")
    if status.st_mode & 0o077:
        log.warning("%s has mode %04o: others can see who listens there", directory, status.st_mode & 0o7777)


def _remove_old(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise AdaptationError(f"can't listen at {path}: it exists and is not a socket")
        os.unlink(path)
