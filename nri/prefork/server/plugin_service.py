"""A plugin that a server serves: its control socket, and the workers that were forked for it."""

from __future__ import annotations

import os
import sys
from _socket import SCM_RIGHTS, SOL_SOCKET, socketpair

from nri.prefork import protocol
from nri.prefork.server.worker import work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Iterable

    from nri.prefork.server.worker import Program

_MESSAGE = 64  # bytes of a host's message at most
_SIGKILL = 9


class PluginService:
    """A plugin's control socket and its workers.

    :param become: in a shared server, called in each worker before it waits: gives it the plugin's name.
    """

    __slots__ = ("_become", "_done", "_program", "control", "workers")

    def __init__(self, program: Program, control: socket, become: Callable[[], None] | None = None) -> None:
        self.control = control
        self._program, self._become = program, become
        self.workers: set[int] = set()  # that are not reaped
        self._done: set[int] = set()  # those of `workers` that the host has finished with

    @property
    def is_reaping(self) -> bool:
        """True if some workers are done and have not quite ended."""
        return bool(self._done)

    def act(self, controls: Iterable[int]) -> bool:
        """Receive one message of the host, and do what it says; return False when the host has closed the socket.

        :param controls: the descriptors of all control sockets, which a worker closes.
        :raises OSError: when no worker can be forked.
        """
        try:
            word, argument = protocol.decode_message(self.control.recv(_MESSAGE))
        except OSError:
            return False
        if word == b"":
            return False
        if (pid := protocol.decode_pid(argument)) in self.workers:
            self._done.add(pid)
        if word in (protocol.MORE, protocol.NEXT):
            worker, is_known = self._fork(controls)
            self.workers.add(worker)
            if not is_known:
                self._done.add(worker)
        return True

    def reap(self, *, wait: bool = False) -> None:
        """Reap the workers that are done and have ended.

        :param wait: wait for the end of each.
        """
        ended = {worker for worker in self._done if _is_reaped(worker, 0 if wait else os.WNOHANG)}
        self._done -= ended
        self.workers -= ended

    def kill(self) -> None:
        """Kill all workers, also those at work, because the host is gone. They are to be reaped."""
        for worker in self.workers:
            try:
                os.killpg(worker, _SIGKILL)
            except OSError:
                pass  # it has ended by itself
        self.let_go()

    def let_go(self) -> None:
        """Have all workers reaped when they end."""
        self._done |= self.workers

    def _fork(self, controls: Iterable[int]) -> tuple[int, bool]:
        """Fork a worker; return its process id, and whether the host was notified."""
        ours, theirs = socketpair()
        read_err, write_err = os.pipe()
        try:
            worker = os.fork()
        except OSError:
            os.close(read_err)
            os.close(write_err)
            raise
        if worker == 0:
            try:
                ours.close()
                os.close(read_err)
                for number in controls:
                    os.close(number)
                if self._become is not None:
                    self._become()
                work(self._program, theirs.detach(), write_err, is_lazy=self._become is not None)
            finally:
                os._exit(1)  # whatever fails, only one process goes on as the server
        theirs.close()
        os.close(write_err)
        pidfd, is_known = -1, True
        try:
            os.setpgid(worker, worker)  # by both processes, so that it is done when either continues
            pidfd = os.pidfd_open(worker)
            rights = b"".join([number.to_bytes(4, sys.byteorder) for number in (pidfd, ours.fileno(), read_err)])
            message = protocol.encode_message(protocol.READY, worker)
            self.control.sendmsg([message], [(SOL_SOCKET, SCM_RIGHTS, rights)])
        except OSError:  # the host is gone, or a process is out of descriptors
            os.kill(worker, _SIGKILL)
            is_known = False
        finally:
            ours.close()
            os.close(read_err)
            if pidfd >= 0:
                os.close(pidfd)
        return worker, is_known


def _is_reaped(worker: int, options: int) -> bool:
    try:
        return os.waitpid(worker, options)[0] != 0
    except ChildProcessError:
        return True
