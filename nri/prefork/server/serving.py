"""The prefork server: a loaded plugin that forks a worker for each request. ``TYPE invoke`` does not load it."""

from __future__ import annotations

import gc
import os
import select
import sys
from _socket import SO_TYPE, SOCK_SEQPACKET, SOL_SOCKET, socket

from nri.errors import escape
from nri.prefork import protocol
from nri.prefork.server.fitness import unfit
from nri.prefork.server.loaded_files import files
from nri.prefork.server.plugin_service import PluginService
from nri.prefork.server.worker import Program, rehearse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import NoReturn

REHEARSALS = 40
"""Rehearsed requests after which the interpreter has specialized the code (PEP 659), once for all workers: then they
run it faster, and write to fewer of its pages."""

REAP_EVERY = 0.2
"""Seconds between attempts to reap workers that are done and have not quite ended."""


def serve(program: Program) -> NoReturn:
    """Serve until the host closes the control socket, which is stdin."""
    control = take_control(program.name)
    try:
        argument = load(program, [control.fileno()])
    except UnfitError as error:
        refuse(program.name, control, str(error))
    close_stderr()
    control.send(protocol.encode_message(protocol.FILES, argument))
    prepare(program)
    served = PluginService(program, control)
    poll = select.poll()
    poll.register(control.fileno(), select.POLLIN)
    while True:
        if poll.poll(REAP_EVERY * 1000 if served.is_reaping else None) and not served.act([control.fileno()]):
            served.kill()
            served.reap(wait=True)  # an unreaped worker would be taken for a process that the plugin left behind
            os._exit(0)
        served.reap()


class UnfitError(Exception):
    """The plugin cannot be loaded, or its workers would not be as good as new processes."""


def take_control(name: str) -> socket:
    """Return the control socket, which is stdin, or exit.

    :param name: of the plugin, for messages.
    """
    try:
        control = socket(fileno=os.dup(0))
        if control.getsockopt(SOL_SOCKET, SO_TYPE) != SOCK_SEQPACKET:
            raise OSError(0, "it is of another type")
        control.getpeername()
    except OSError as error:
        refuse(name, None, f"stdin is no connected socket: {error.strerror}; this is for hosts")
    return control


def load(program: Program, controls: list[int], workers: Collection[int] = ()) -> bytes:
    """Load the modules that the plugin imports late, and return the argument of ``files``.

    :param controls: the descriptors of the control sockets.
    :param workers: that are not reaped.
    :raises UnfitError: when the plugin must not be preforked.
    """
    for module in program.uses:
        try:
            __import__(module)
        except ImportError as error:
            raise UnfitError(f"its `uses` names a module that cannot be imported: {error}") from error
    if why := unfit(controls, workers):
        raise UnfitError(why)
    argument = protocol.encode_files(files())
    if len(argument) > protocol.MAX_ARGUMENT:
        found = f"{len(argument)} bytes, expected at most {protocol.MAX_ARGUMENT}"
        raise UnfitError(f"the names of its files are too long: {found}")
    return argument


def close_stderr() -> None:
    """Replace stdout and stderr by /dev/null: the host closes the other end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)


def prepare(program: Program) -> None:
    """Prepare this process for its workers: stdin, arguments, caches and shared pages."""
    reads, writes = os.pipe()
    os.dup2(reads, 0)  # a plugin that reads its stdin finds its end, as after a request
    os.close(reads)
    os.close(writes)
    sys.argv[1:] = ["invoke"]
    for _ in range(REHEARSALS):
        rehearse(program)
    share()


def share() -> None:
    """Keep the pages of the objects that are loaded now shared with the workers."""
    gc.collect()
    gc.freeze()


def send_refusal(control: socket, why: str) -> None:
    """Tell the host the reason why no worker is forked."""
    control.send(protocol.encode_message(protocol.REFUSED, os.fsencode(why)[: protocol.MAX_ARGUMENT]))


def refuse(name: str, control: socket | None, why: str) -> NoReturn:
    """Report why no worker is forked, to the host and on stderr, and exit."""
    if control is not None:
        send_refusal(control, why)
    sys.stderr.write(escape(f"{name} prefork: {why}") + "\n")
    sys.exit(2)
