"""A prefork server of several plugins, which share its memory. Each has a control socket of its own.

The host hands over the control sockets on stdin, with the word ``serve`` of :mod:`nri.prefork.protocol`. A plugin
that cannot be loaded is refused. After a plugin that makes the process unfit for forking, it forks no worker for any
plugin: it closes their control sockets, so that the host gives each a server of its own.
"""

from __future__ import annotations

import os
import select
import sys
from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC, socket
from errno import ECONNRESET

from nri.prefork import protocol
from nri.prefork.server import serving
from nri.prefork.server.plugin_service import PluginService
from nri.process_name import set_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from nri.prefork.server.worker import Program


class LoadError(Exception):
    """A plugin's module cannot be loaded, or defines no plugin."""


class SharedServing:
    """Serves the plugins that a host hands over.

    :param control: the socket on which they are handed over.
    :param load: returns the plugin of a module, or raises LoadError.
    """

    def __init__(self, control: socket, load: Callable[[str], Program]) -> None:
        self._control, self._load = control, load
        self._served: dict[int, PluginService] = {}  # by their control sockets
        # Those with workers that are done, also after the host has closed their control socket.
        self._reaping: list[PluginService] = []
        self._unfit = ""  # the reason why this process must not fork any more
        self._loaded: dict[str, tuple[Program, bytes]] = {}  # each with its argument of `files`
        self._poll = select.poll()
        self._poll.register(control.fileno(), select.POLLIN)

    def run(self) -> NoReturn:
        """Serve until the host closes the socket.

        Between two forks it writes to few objects: the older worker would keep a copy of their pages for itself.
        """
        own = self._control.fileno()
        while True:
            for number, _ in self._poll.poll(serving.REAP_EVERY * 1000 if self._reaping else None):
                if number == own:
                    self._accept()
                else:
                    self._act(number)
            if self._reaping:
                for served in self._reaping:
                    served.reap()
                self._reaping = [served for served in self._reaping if served.is_reaping]

    def _accept(self) -> None:
        """Take over a plugin, or end this process."""
        number, texts = self._receive()
        if number < 0:
            self._end()
        control = socket(fileno=number)
        if len(texts) != 3:
            control.close()
            return
        module, path, executable = texts
        try:
            program, argument = self._loaded.get(module) or self._load_first(module, number)
        except LoadError as error:
            serving.send_refusal(control, str(error))
            control.close()
            return
        except serving.UnfitError as error:
            self._unfit = self._unfit or str(error)
            serving.send_refusal(control, self._unfit)
            control.close()
            for each in list(self._served):
                self._let_go(each)
            return
        control.send(protocol.encode_message(protocol.FILES, argument))
        self._served[number] = PluginService(program, control, ProcessIdentity(path, executable).take)
        self._poll.register(number, select.POLLIN)

    def _receive(self) -> tuple[int, list[str]]:
        """Return the next plugin's control socket, and the argument of ``serve``; -1 at the end."""
        try:
            data, ancillary, _, _ = self._control.recvmsg(protocol.MAX_MESSAGE, CMSG_SPACE(4), MSG_CMSG_CLOEXEC)
        except OSError as error:
            if error.errno != ECONNRESET:
                raise
            return -1, []
        word, argument = protocol.decode_message(data)
        numbers = [number for _, _, rights in ancillary for number in memoryview(rights).cast("i")]
        if word != protocol.SERVE or len(numbers) != 1:
            return -1, []
        return numbers[0], protocol.decode_files(argument)

    def _load_first(self, module: str, number: int) -> tuple[Program, bytes]:
        if self._unfit:
            raise serving.UnfitError
        program = self._load(module)
        workers = [worker for served in self._every() for worker in served.workers]
        loaded = program, serving.load(program, [*self._controls(), number], workers)
        serving.share()
        self._loaded[module] = loaded
        return loaded

    def _act(self, number: int) -> None:
        served = self._served.get(number)
        if served is None:
            return
        try:
            if served.act(self._controls()):
                if served.is_reaping and served not in self._reaping:
                    self._reaping.append(served)
                return
            served.kill()
        except OSError:
            pass  # no worker can be forked: the host starts the plugin for each request, and tries again later
        self._let_go(number)

    def _let_go(self, number: int) -> None:
        """Close a plugin's control socket; those of its workers that are at work may finish."""
        self._poll.unregister(number)
        served = self._served.pop(number)
        served.let_go()
        served.control.close()
        if served not in self._reaping:
            self._reaping.append(served)

    def _controls(self) -> list[int]:
        return [self._control.fileno(), *self._served]

    def _every(self) -> set[PluginService]:
        return {*self._served.values(), *self._reaping}

    def _end(self) -> NoReturn:
        """Kill and reap all workers, and exit."""
        every = self._every()
        for served in every:
            served.kill()
        for served in every:
            served.reap(wait=True)
        os._exit(0)


class ProcessIdentity:
    """The name and the arguments of a plugin that was started by itself.

    :param path: the file that would be started.
    :param executable: the same file without links.
    """

    __slots__ = ("_argv", "_executable", "_name")

    def __init__(self, path: str, executable: str) -> None:
        name = os.path.basename(path)
        self._argv, self._executable = [name, "invoke"], executable
        self._name = os.fsencode(name)

    def take(self) -> None:
        """Give it to this process, which was forked for the plugin. This writes to few pages."""
        sys.argv = sys.orig_argv = self._argv
        sys.executable = self._executable
        set_name(self._name)
