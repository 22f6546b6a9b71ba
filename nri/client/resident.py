"""Processes that a host has ready: residents, and those that wait (``nri.client.waiting``).

A resident is a plugin that a host keeps running, and asks request after request (docs/spec.md, "Residents").

A plugin opts in (``resident = True`` on its class), and ``TYPE version`` says so. Only a compiled plugin becomes a
resident: the code of a script may change without its file. In every other case, and whenever a resident is not ready,
the request gets a process of its own.

- A resident answers one request at a time. A request that finds it at work is not kept waiting.
- A request is never run twice. If the resident has read nothing of it, it gets a process of its own; if the resident
  dies after that, the plugin has failed.
- A resident is used only while the plugin's path leads to the file that it was started from, unchanged.
- Residents are started in the background. One that ends has been changed by a request, or is old; it is replaced
  after the answer. After two failures in a row there is a growing pause.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import select
import threading
import time
from _socket import AF_UNIX, MSG_DONTWAIT, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socketpair
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from nri import files
from nri.client.invoker import Invoker, PluginError
from nri.client.standing import UNKNOWN, Standing
from nri.client.verbs import ANSWER_WITHIN
from nri.client.waiting import BEGUN_WITHIN, NotBegunError, Prepared, Waiting
from nri.errors import reason_of
from nri.places import DEFAULT_BIN_DIRS
from nri.process.background import in_background
from nri.process.children import (
    REAP_WITHIN,
    await_end,
    close_all,
    has_exited,
    kill_group,
    pidfds_of,
)
from nri.process.conversation import MAX_LINE, NEVER, Conversation, Output, readable
from nri.process.spawn import Pipes, pipe, spawn
from nri.types.gojson import shorten
from nri.types.serve import CHANGED, ENDED, INVOKE, MAX_MESSAGE, READY, REFUSED

if TYPE_CHECKING:
    from nri.client.invoker import Log
    from nri.config import PluginEntry
    from nri.process.conversation import Stop

READY_WITHIN = 0.02
"""Seconds that a request waits for a resident that is about to be ready; starting a process takes as long."""

STUCK_AFTER = 2.0
"""Seconds after an answer in which a resident must be ready again; then it is replaced."""

PAUSE = 1.0
LONGEST_PAUSE = 600.0
"""Seconds until a third attempt to start a resident; doubled after each failure."""

PROVEN = 10
"""Answers after which the end of a resident is no failure."""

_STATUSES = frozenset([b"%d" % status for status in range(256)])

MAX_WORDS = 8
"""Words of a resident that are taken in at a time: one that talks without end must not outlive its deadline."""

OFF = "off"
WAITING = "waiting"
NOT_WANTED = "its entry or the options say so"

_logger = logging.getLogger("nri.client")


class Resident(Prepared):
    """A started resident. Its owner calls one method at a time.

    To a request it says that it has answered, or its end is the end of the answer.

    :raises OSError: when it cannot be started.
    """

    is_quick = True
    name = "resident"

    def __init__(self, path: str, plugin: str) -> None:
        self.answers = 0
        self._plugin = plugin
        self.sent = 0
        self._status: int | None = None
        self.changed = ""
        """The change of its process for which it ended, as it stated it; "" without one."""
        self.end_reason = "a request ends its process"
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            self._control, control = socketpair(AF_UNIX, SOCK_SEQPACKET)
            ours.callback(self._control.close)
            theirs.callback(control.close)
            self._stderr, stderr = pipe()
            ours.callback(os.close, self._stderr)
            theirs.callback(os.close, stderr)
            os.set_blocking(self._stderr, False)
            self.pid = spawn(path, [plugin, "serve"], (control.fileno(), stderr, stderr))
            ours.pop_all()  # they stay open
        self._pidfds = pidfds_of(self.pid)
        self.is_alive = True
        self._is_ready = False
        self._ready_by = 0.0
        self._poll = select.poll()
        self._poll.register(self._control, select.POLLIN)

    @property
    def ends(self) -> Sequence[int]:
        """Descriptors that become readable when it says something, or ends."""
        control = [self._control.fileno()] if self.is_alive else []
        return [*control, *self._pidfds]

    def start(self, until: float) -> str:
        """Wait until it is ready for the first time; return "", or the reason why it is of no use.

        :param until: of ``time.monotonic``.
        """
        try:
            if self._await_ready(until):
                return ""
            return self.changed or self._why_not_ready(until)
        finally:
            os.close(self._stderr)

    def _why_not_ready(self, until: float) -> str:
        try:
            said = os.read(self._stderr, 1 << 20)[-MAX_LINE:]
        except BlockingIOError:
            said = b""
        stated = readable(said.strip().rpartition(b"\n")[2])
        reason = stated.removeprefix(f"{self._plugin} serve: ")
        if reason != stated:
            return shorten(reason, 500)
        fault = "it ends while it is loaded"
        if time.monotonic() >= until:
            fault = "it does not become ready"
        return f"{fault}: {shorten(stated, 500)}" if stated else fault

    def is_ready(self, within: float = READY_WITHIN) -> bool:
        """Return whether it waits for a request, or does so within some seconds."""
        return self._await_ready(time.monotonic() + within)

    def look(self) -> None:
        """Take in what it has said, without waiting."""
        self._said()
        self.is_alive = self.is_alive and (self._is_ready or time.monotonic() < self._ready_by)

    def ask(self, request: bytes, deadline: float, log: Log, stop: Stop = NEVER) -> Output:
        """Have it answer a request, when it is ready.

        :raises NotBegunError: when the request must be run by another process.
        :raises BrokenOffError: when the exchange fails.
        """
        self._status = None
        self.sent = 0
        try:
            with Pipes() as pipes:
                pause = BEGUN_WITHIN, self.kill_if_unread
                conversation = Conversation(
                    self, pipes.ours, request, log, stop=stop, meanwhile=pause
                )
                pipes.ours = conversation.pipes
                rights = memoryview(array("i", pipes.theirs)).cast("B")
                self._control.sendmsg([INVOKE], [(SOL_SOCKET, SCM_RIGHTS, rights)], MSG_DONTWAIT)
                self._stdin = pipes.theirs.pop(0)
        except OSError as error:
            self.end()
            raise NotBegunError from error
        self._is_ready = False
        self.answers += 1
        try:
            return conversation.run(deadline)
        finally:
            os.close(self._stdin)
            self._ready_by = time.monotonic() + STUCK_AFTER

    def kill(self) -> None:
        """As for ``Asked``."""
        if pid := self.pid:
            kill_group(pid)

    def has_ended(self) -> bool:
        """As for ``Asked``."""
        for word, argument in self._said():
            if word == ENDED:
                if argument not in _STATUSES:
                    said = shorten(readable(b"ended " + argument), 80)
                    raise OSError(
                        errno.EPROTO, f"it said {said!r}, expected a status from 0 to 255"
                    )
                self._status = int(argument)
                return True
        return has_exited(self.pid)

    def finish(self, stopped: str, give_up: float) -> int:
        """As for ``Asked``; one that has answered lives on."""
        if self._status is not None and not stopped:
            return self._status
        status = self._end(give_up)
        if not stopped and not self.has_begun():
            raise NotBegunError
        return status

    def _said(self) -> list[tuple[bytes, bytes]]:
        """Return the words that it has said since the last look, without waiting, each with its argument."""
        said: list[tuple[bytes, bytes]] = []
        while self.is_alive and len(said) < MAX_WORDS:
            word, argument = self.receive()
            if not word:
                break
            said.append((word, argument))
        return said

    def receive(self) -> tuple[bytes, bytes]:
        """Return the next word that it has said, and its argument; both are empty without one, and at its end."""
        try:
            word, _, argument = self._control.recv(MAX_MESSAGE, MSG_DONTWAIT).partition(b" ")
        except BlockingIOError:
            return b"", b""
        except OSError:
            word = b""
            argument = b""
        if not word:
            self.is_alive = False
        elif word == READY:
            self._is_ready = True
        elif word in (CHANGED, REFUSED):
            self.changed = readable(argument)
            self.is_alive = False
            self.end_reason = f"a request changes its process: {self.changed}"
        return word, argument

    def end(self) -> None:
        """Kill it with its process group: it has nothing to lose."""
        self._end(time.monotonic() + REAP_WITHIN)

    def _end(self, give_up: float) -> int:
        """As ``end``; return its exit status."""
        if self.pid == 0:
            return 0
        self.is_alive = False
        pid = self.pid
        self.pid = 0
        kill_group(pid)
        try:
            return await_end(pid, self._pidfds, give_up)
        finally:
            self._control.close()
            close_all(self._pidfds)

    def _await_ready(self, until: float) -> bool:
        left = 1.0
        while self.is_alive and not self._is_ready and left > 0:  # it may talk without end
            left = until - time.monotonic()
            if not self._poll.poll(max(0.0, left) * 1000):
                break
            self.receive()
        return self.is_alive and self._is_ready


class _Wanted(NamedTuple):
    """The processes that the entries of a plugin allow and ask for."""

    resident: bool
    """True if the plugin may be a resident."""
    waiting: int
    """The number of processes that wait for a request, if it is no resident."""


_NOTHING = _Wanted(resident=False, waiting=0)


class _File:
    """The executable at a plugin's path, and its processes. The lock of ``Residents`` protects it.

    :ivar waiting: those that wait for a request.
    """

    def __init__(self, plugin: str, identity: tuple[int, ...], wanted: _Wanted) -> None:
        self.plugin = plugin
        self.identity = identity
        self.wanted = wanted
        self.resident: Resident | None = None
        self.waiting: list[Waiting] = []
        self.is_busy = False
        self.is_starting = False
        self.retry_at = 0.0  # of time.monotonic()
        self.failures = 0  # in a row
        self.standing = Standing("starting")
        self._logged: set[str] = set()  # kinds of reasons

    def excludes(self, plugin: str, state: str) -> bool:
        """Return whether it is of this plugin, which has said that it does not act on the state."""
        return self.plugin == plugin and state not in self.standing.states

    def failed(self, reason: str) -> None:
        """Note that it could not become a resident, or did not remain one."""
        kind = reason.partition(":")[0]
        if kind not in self._logged:
            self._logged.add(kind)
            _logger.warning("%s is started for each request: %s", self.plugin, reason)
        self.failures += 1
        if self.failures > 1:
            pause = PAUSE * 2 ** min(self.failures - 2, 10)
        else:
            pause = 0.0
        self.retry_at = time.monotonic() + min(pause, LONGEST_PAUSE)
        self.standing = self.standing._replace(state="failed", reason=reason)


_NO_FILE = _File("", (), _NOTHING)
"""In place of one that is not there, or not wanted."""
_NO_FILE.standing = Standing(OFF, NOT_WANTED)


class Residents(Invoker):
    """Asks the plugins that have opted in as residents, and starts any other. Any thread may call its methods.

    The parameters are those of ``nri.client.Invoker``.
    """

    def __init__(
        self, bin_dirs: Sequence[str] = DEFAULT_BIN_DIRS, *, check_owner: bool = True
    ) -> None:
        super().__init__(bin_dirs, check_owner=check_owner)
        self._wanted: dict[str, _Wanted] = {}
        self._is_new = False  # what is wanted: executables may not be known yet
        self._renewing = threading.Lock()
        self._files: dict[str, _File] = {}
        self._leaving: list[Resident | Waiting] = []  # to be ended
        self._changed = threading.Condition(threading.Lock())

    def keep(self, plugins: Iterable[PluginEntry], *, residents: bool = True) -> None:
        """Have processes ready for these plugins only.

        :param plugins: the entries. One that allows no resident counts for all of its type.
        :param residents: whether plugins may be residents at all.
        """
        wanted: dict[str, _Wanted] = {}
        for entry in plugins:
            others = wanted.get(entry.type, _Wanted(residents, 0))
            allowed = others.resident and entry.resident is not False
            wanted[entry.type] = _Wanted(allowed, others.waiting + bool(entry.waiting))
        with self._changed:
            self._wanted = wanted
            self._is_new = True
            for path, file in [*self._files.items()]:
                if wanted.get(file.plugin) != file.wanted:
                    self._forget(path)
            self._changed.notify_all()
        self._end_leaving()

    def prepare(self, within: float) -> None:
        """Start the residents, and wait at most so many seconds until they are ready."""
        self.tidy()
        with self._changed:
            self._changed.wait_for(
                lambda: not any(file.is_starting for file in self._files.values()), within
            )
        self.renew()

    def run(
        self,
        path: str,
        plugin: str,
        request: bytes,
        deadline: float,
        log: Log,
        stop: Stop = NEVER,
    ) -> Output:
        """Ask a process that is ready for the request, or start one."""
        file = self._look(path, plugin)
        process = self._take(file)
        if process is not None:
            try:
                if process.is_ready():
                    _logger.debug("%s: its %s answers this request", plugin, process.name)
                    return process.ask(request, deadline, log, stop)
            except NotBegunError:
                pass
            finally:
                self._give_back(path, file, process)
        _logger.debug("%s: starting a process for this request", plugin)
        return super().run(path, plugin, request, deadline, log, stop)

    def standing_of(self, plugin: str) -> Standing:
        """Return what is known of a type's executable: no event waits for what it says of itself."""
        path = self._path_of(plugin)
        with self._changed:
            file = self._files.get(path, _NO_FILE)
        if file.identity != files.identity(path):
            return UNKNOWN
        return file.standing

    def _path_of(self, plugin: str) -> str:
        """Return the path of a type's executable; "" without one, which a request reports."""
        try:
            return self.find(plugin)
        except PluginError:
            return ""

    def acts_on(self, plugin: str, state: str) -> bool:
        """Return False if the plugin's executable, unchanged, has said that it does not act on this state."""
        with self._changed:
            excluding = any(file.excludes(plugin, state) for file in self._files.values())
        # Nearly always there is none: then no executable is looked for.
        return not excluding or self.says_it_acts_on(plugin, state)

    def tidy(self) -> None:
        """Do the work that no answer waits for: look at the executables, end and start residents."""
        if self._is_new:
            self._look_at_all()
        due = []
        with self._changed:
            for path, file in self._files.items():
                if not file.is_busy and file.resident is not None:
                    file.resident.look()
                    self._drop_if_dead(file)
                if self._is_due(file):
                    file.is_starting = True
                    due.append((path, file))
        self._end_leaving()
        for path, file in due:
            if reason := in_background(functools.partial(self._start, path, file), "resident"):
                with self._changed:
                    file.is_starting = False
                    file.failed(reason)

    def _look_at_all(self) -> None:
        self._is_new = False
        for plugin in [*self._wanted]:
            self._look(self._path_of(plugin), plugin)

    def _is_due(self, file: _File) -> bool:
        """Return whether a plugin is to be asked what it is, or a resident to be started."""
        is_settled = file.is_starting or file.standing.state in ("ready", OFF, WAITING)
        return not is_settled and time.monotonic() >= file.retry_at

    def renew(self) -> None:
        """Start processes that wait, and end those that do not, or are old; call it while no request runs."""
        if not self._renewing.acquire(blocking=False):
            return  # another thread does it
        try:
            with self._changed:
                files = [*self._files.items()]
            for path, file in files:
                if file.standing.state == WAITING:
                    self._renew(path, file)
        finally:
            self._renewing.release()
        self._end_leaving()

    def _renew(self, path: str, file: _File) -> None:
        if not self._is_found(path, file):
            with self._changed:
                if self._files.get(path) is file:
                    self._forget(path)
                    self._is_new = True
            return
        with self._changed:
            for process in [*file.waiting]:
                if not process.is_ready():
                    file.waiting.remove(process)
                    self._leave(file, process)
            missing = file.wanted.waiting - len(file.waiting)
        while missing > 0 and file.standing.state == WAITING:
            missing -= 1
            try:
                process = Waiting(path, file.plugin)
            except OSError as error:
                with self._changed:
                    file.failed(f"it cannot be started: {reason_of(error)}")
                return
            with self._changed:
                if self._files.get(path) is file:
                    file.waiting.append(process)
                else:
                    self._leaving.append(process)

    def _is_found(self, path: str, file: _File) -> bool:
        """Return whether a request for the plugin would run this file: its owner or another directory may decide."""
        return self._path_of(file.plugin) == path and files.identity(path) == file.identity

    def standing(self, path: str) -> Standing:
        """Return how the plugin at a path is asked."""
        with self._changed:
            return self._files.get(path, _NO_FILE).standing

    def close(self) -> None:
        """End all residents."""
        self.keep(())

    def _look(self, path: str, plugin: str) -> _File:
        """Return what is known of the file that is at the path now: nothing of one that is not wanted, or is gone."""
        identity = files.identity(path)
        if not identity:
            return _NO_FILE
        with self._changed:
            file = self._files.get(path, _NO_FILE)
            if file.identity == identity:
                return file
            self._forget(path)
            wanted = self._wanted.get(plugin)
            if wanted is None:
                return _NO_FILE
            file = self._files[path] = _File(plugin, identity, wanted)
            return file

    def _take(self, file: _File) -> Resident | Waiting | None:
        with self._changed:
            if file.waiting:
                return file.waiting.pop(0)
            if file.is_busy or file.resident is None:
                return None
            file.is_busy = True
            return file.resident

    def _give_back(self, path: str, file: _File, process: Resident | Waiting) -> None:
        with self._changed:
            if isinstance(process, Waiting):
                self._leave(file, process)
                return
            file.is_busy = False
            if self._files.get(path) is not file:
                self._end_resident(file)
            self._drop_if_dead(file)

    def _leave(self, file: _File, process: Waiting) -> None:
        """Note that a process that has waited is of no use any more, and why if it should not be so."""
        self._leaving.append(process)
        if process.end_reason:
            file.failed(process.end_reason)
        else:
            file.failures = 0

    def _drop_if_dead(self, file: _File) -> None:
        resident = file.resident
        if resident is None or resident.is_alive:
            return
        file.resident = None
        self._leaving.append(resident)
        file.standing = file.standing._replace(state="starting")
        if resident.answers >= PROVEN:
            file.failures = 0
            file.retry_at = 0.0
        else:
            file.failed(resident.end_reason)

    def _forget(self, path: str) -> None:
        file = self._files.pop(path, _NO_FILE)
        self._leaving += file.waiting
        file.waiting = []
        self._end_resident(file)

    def _end_resident(self, file: _File) -> None:
        """Have a file's resident ended; one that answers a request is given back later."""
        if file.resident is not None and not file.is_busy:
            self._leaving.append(file.resident)
            file.resident = None

    def _end_leaving(self) -> None:
        with self._changed:
            leaving = self._leaving
            self._leaving = []
        for process in leaving:
            process.end()

    def _start(self, path: str, file: _File) -> None:
        """Ask the plugin which states it acts on, and whether it can be a resident; start that."""
        resident = None
        standing = file.standing
        try:
            if self._is_found(path, file):
                standing = _allowed(self.said(path, file.plugin), file.wanted)
            if standing.state == "ready":
                resident = Resident(path, file.plugin)
                if reason := resident.start(time.monotonic() + ANSWER_WITHIN):
                    standing = standing._replace(state="failed", reason=reason)
        except OSError as error:
            standing = standing._replace(
                state="failed", reason=f"it cannot be started: {error.strerror}"
            )
        is_found = self._is_found(path, file)
        with self._changed:
            file.is_starting = False
            file.resident = resident
            if self._files.get(path) is not file:  # it was forgotten meanwhile
                self._end_resident(file)
            elif not is_found:
                self._forget(path)  # the next request sees another file
            elif standing.state == "failed":
                file.standing = file.standing._replace(build=standing.build)
                file.failed(standing.reason)
                self._end_resident(file)
            else:
                file.standing = standing
            self._changed.notify_all()
        self._end_leaving()


def _allowed(standing: Standing, wanted: _Wanted) -> Standing:
    """Return how a plugin is asked, by what it and its entries say."""
    if standing.state == "ready" and not wanted.resident:
        standing = standing._replace(state=OFF, reason=NOT_WANTED)
    if standing.state == OFF and wanted.waiting:
        standing = standing._replace(state=WAITING, reason="")
    return standing
