"""The prefork server: a loaded plugin that forks a worker for each request. ``TYPE invoke`` does not load it."""

from __future__ import annotations

import gc
import os
import select
import sys
from _socket import SCM_RIGHTS, SO_TYPE, SOCK_SEQPACKET, SOL_SOCKET, socket, socketpair

from nri.errors import escape
from nri.prefork import protocol
from nri.prefork.server.fitness import unfit
from nri.prefork.server.loaded_files import files
from nri.prefork.server.worker import Program, rehearse, work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_REAP_EVERY = 0.2  # seconds between attempts to reap workers that are done and have not quite ended
_MESSAGE = 64  # bytes of a host's message at most
_SIGKILL = 9


def serve(program: Program) -> NoReturn:
    """Serve until the host closes the control socket, which is stdin."""
    control = _control(program)
    argument = _load(program, control)
    nowhere = os.open(os.devnull, os.O_WRONLY)  # the host closes our stderr
    for number in (1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)
    control.send(protocol.encode_message(protocol.FILES, argument))
    reads, writes = os.pipe()
    os.dup2(reads, 0)  # a plugin that reads its stdin finds its end, as after a request
    os.close(reads)
    os.close(writes)
    sys.argv[1:] = ["invoke"]
    rehearse(program)
    gc.collect()
    gc.freeze()  # the pages of loaded objects stay shared
    poll = select.poll()
    poll.register(control.fileno(), select.POLLIN)
    workers: set[int] = set()
    done: set[int] = set()
    while True:
        if poll.poll(_REAP_EVERY * 1000 if done else None):
            try:
                word, argument = protocol.decode_message(control.recv(_MESSAGE))
            except OSError:
                word, argument = b"", b""
            if word == b"":
                _end(workers)
            if (pid := protocol.decode_pid(argument)) in workers:
                done.add(pid)
            if word in (protocol.MORE, protocol.NEXT):
                worker, is_known = _fork(program, control)
                workers.add(worker)
                if not is_known:
                    done.add(worker)
        ended = {worker for worker in done if os.waitpid(worker, os.WNOHANG)[0]}
        done -= ended
        workers -= ended


def _control(program: Program) -> socket:
    try:
        control = socket(fileno=os.dup(0))
        if control.getsockopt(SOL_SOCKET, SO_TYPE) != SOCK_SEQPACKET:
            raise OSError(0, "it is of another type")
        control.getpeername()
    except OSError as error:
        _refuse(program, None, f"stdin is no connected socket: {error.strerror}; this is for hosts")
    return control


def _load(program: Program, control: socket) -> bytes:
    """Load the modules that the plugin imports late, and return the argument of ``files``, or refuse to serve."""
    for module in program.uses:
        try:
            __import__(module)
        except ImportError as error:
            _refuse(program, control, f"its `uses` names a module that cannot be imported: {error}")
    if why := unfit(control.fileno()):
        _refuse(program, control, why)
    argument = protocol.encode_files(files())
    if len(argument) > protocol.MAX_ARGUMENT:
        found = f"{len(argument)} bytes, expected at most {protocol.MAX_ARGUMENT}"
        _refuse(program, control, f"the names of its files are too long: {found}")
    return argument


def _refuse(program: Program, control: socket | None, why: str) -> NoReturn:
    """Report why no worker is forked, to the host and on stderr, and exit."""
    if control is not None:
        control.send(protocol.encode_message(protocol.REFUSED, os.fsencode(why)[: protocol.MAX_ARGUMENT]))
    sys.stderr.write(escape(f"{program.name} prefork: {why}") + "\n")
    sys.exit(2)


def _fork(program: Program, control: socket) -> tuple[int, bool]:
    """Fork a worker; return its process id, and whether the host was notified."""
    ours, theirs = socketpair()
    read_err, write_err = os.pipe()
    worker = os.fork()
    if worker == 0:
        ours.close()
        os.close(read_err)
        control.close()
        work(program, theirs.detach(), write_err)
    theirs.close()
    os.close(write_err)
    pidfd, is_known = -1, True
    try:
        os.setpgid(worker, worker)  # by both processes, so that it is done when either continues
        pidfd = os.pidfd_open(worker)
        rights = b"".join([number.to_bytes(4, sys.byteorder) for number in (pidfd, ours.fileno(), read_err)])
        control.sendmsg([protocol.encode_message(protocol.READY, worker)], [(SOL_SOCKET, SCM_RIGHTS, rights)])
    except OSError:  # the host is gone, or a process is out of descriptors
        os.kill(worker, _SIGKILL)
        is_known = False
    finally:
        ours.close()
        os.close(read_err)
        if pidfd >= 0:
            os.close(pidfd)
    return worker, is_known


def _end(workers: set[int]) -> NoReturn:
    """Kill and reap all workers, and exit: the host is gone."""
    for worker in workers:
        try:
            os.killpg(worker, _SIGKILL)
        except OSError:
            pass  # it has ended by itself
    for worker in workers:  # an unreaped worker would be taken for a process that the plugin left behind
        try:
            os.waitpid(worker, 0)
        except ChildProcessError:
            pass
    os._exit(0)
