"""Plugins that are ready before they are asked: the host's end of :mod:`nri.skel.ahead`.

The contract of a plugin stays as it is: a process of its own for each request, which is new, has the request on stdin
and its result on stdout, the same environment, deadline and end. What is different is where it comes from: a helper,
the plugin itself, started once as ``TYPE ahead``, which forks a child that waits. A plugin is run so when

- it was built with :mod:`nri.skel` (its file names it, and it says so itself when asked for its version), and
- its file is the one that the helper was started from: a plugin that is replaced gets a new helper.

Where its configuration says ``"ahead": "always"``, one that was not built so is started as ``TYPE invoke``, and waits
for its request; where it says ``never``, it is started as ever.

In every other case, and whenever anything about a helper is not as it should be, the plugin is started as ever: the
way here is that of :func:`nri.client.launch.launch` less its first step. No request waits for a helper to be made.
A helper, and all that comes from it, ends when its socket is closed, and so at the latest with this process.

The cost: a process for each plugin, and two that wait, which share most of their memory; no CPU time. Not for
``nri hook``, which ends after one request.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from nri.client import launch
from nri.client.about import is_built_with_skel
from nri.client.helper import SCARCE, BusyError, GoneError, Helper, in_background
from nri.client.lines import Lines
from nri.client.prestart import Prestarted
from nri.types import gojson
from nri.types.v1 import AHEAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nri.types.v1 import Plugin

ANSWER_WITHIN = 10.0
"""Seconds that a plugin has to say whether it can be started ahead, and then to be ready."""

_CAUTION = {"never": 0, "": 1, "always": 2}
_GRAIN = 20_000_000  # nanoseconds by which a file's time of change may be behind the clock

log = logging.getLogger("nri.client")
_log_debug = log.debug  # where a parameter is called `log`


class _File(NamedTuple):
    """What tells one file from another of the same name."""

    device: int
    inode: int
    size: int
    changed: int

    @classmethod
    def of(cls, path: str) -> _File:
        status = os.stat(path)
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)


class _Known(NamedTuple):
    """What is known of a plugin: the files that it was made of, its executable first; its helper, if it has one."""

    files: tuple[tuple[str, _File], ...]
    helper: Helper | Prestarted | None

    def is_current(self) -> bool:
        """Whether its files are those of then."""
        try:
            return all(_File.of(path) == file for path, file in self.files)
        except OSError:
            return False


class Helpers:
    """The helpers of a host's plugins. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._wanted: dict[str, str] = {}
        self._lock = threading.Lock()
        self._closed = False

    def launch(
        self,
        path: str,
        argv: list[str],
        stdin: bytes,
        deadline: float,
        *,
        max_output: int = launch.MAX_OUTPUT,
        log: Callable[[str], None],
    ) -> launch.Output:
        """As :func:`nri.client.launch.launch`, by a child of the plugin's helper where there is one."""
        helper = self._find(path, argv[0])
        if helper is not None:
            try:
                output = helper.launch(stdin, deadline, Lines(max_output, log), max_output)
            except BusyError:
                pass
            except GoneError:
                self._drop(path, helper)
            else:
                _log_debug("%s: a preloaded process has answered", argv[0])
                return output
        _log_debug("%s: starting a process for this request", argv[0])
        return launch.launch(path, argv, stdin, deadline, max_output=max_output, log=log)

    def prepare(self, path: str, plugin: str) -> None:
        """Have a helper started, where there can be one, so that the first request finds it. Nothing waits for it."""
        self._find(path, plugin)

    def tidy(self) -> None:
        """Do what was left for when nobody waits: see :meth:`nri.client.helper.Helper.tidy`."""
        for known in list(self._known.values()):
            if known.helper is not None:
                known.helper.tidy()

    def keep(self, plugins: Iterable[Plugin]) -> None:
        """Take note of what is configured; what is so no more ends."""
        wanted: dict[str, str] = {}
        for plugin in plugins:  # a type that stands there several times has the most careful word of all
            wanted[plugin.type] = min(
                wanted.get(plugin.type, plugin.ahead), plugin.ahead, key=lambda word: _CAUTION.get(word, 1)
            )
        with self._lock:
            gone = [
                path
                for path in self._known
                if wanted.get(os.path.basename(path)) != self._wanted.get(os.path.basename(path), "")
            ]
            self._wanted = wanted
            entries = [self._known.pop(path) for path in gone]
        for entry in entries:
            if entry.helper is not None:
                entry.helper.retire()

    def close(self) -> None:
        """End all helpers; from now on every plugin is started as ever."""
        self._closed = True
        self.keep(())

    def _find(self, path: str, plugin: str) -> Helper | Prestarted | None:
        """The helper for the file that ``path`` is now; None where there is none, or none yet."""
        known = self._known.get(path)
        if known is not None and known.is_current():
            return known.helper
        try:
            new = _Known(((path, _File.of(path)),), None)
        except OSError:
            return None
        with self._lock:
            if self._closed or self._known.get(path) is not known:  # another thread was here before
                return None
            self._known[path] = new
        if known is not None and known.helper is not None:
            known.helper.retire()
        if not in_background(self._prepare, path, plugin, new):
            self._replace(path, new, None)
        return None

    def _prepare(self, path: str, plugin: str, known: _Known) -> None:
        """Start a helper, and put it in the place of ``known``."""
        helper: Helper | Prestarted | None = None
        new: _Known | None = known
        started = time.time_ns()
        try:
            ahead = self._wanted.get(plugin, "")
            if ahead != "never" and _can_be_ahead(path, plugin):
                helper = Helper(path, plugin)
            elif ahead == "always":
                helper = Prestarted(path, plugin)
            if helper is not None:
                new = self._introduce(plugin, helper, known, started)
        except OSError as error:
            log.warning("%s can't be started ahead: %s", plugin, error.strerror)
            if error.errno in SCARCE:
                new = None
        if new is not known or helper is not None:
            is_placed = self._replace(path, known, new)
            if helper is not None and (not is_placed or new is None or new.helper is None):
                helper.retire()

    @staticmethod
    def _introduce(plugin: str, helper: Helper | Prestarted, known: _Known, started: int) -> _Known | None:
        """What is known now; None for another attempt, as a file has changed since it was loaded, or may have."""
        if not helper.becomes_ready(ANSWER_WITHIN):
            log.warning("%s can't be started ahead: it does not become ready", plugin)
            return known
        try:
            files = [(path, _File.of(path)) for path in helper.files]
        except FileNotFoundError:
            return None
        if any(file.changed > started - _GRAIN for _, file in files):
            return None
        return _Known((*known.files, *files), helper)

    def _replace(self, path: str, old: _Known, new: _Known | None) -> bool:
        """Put ``new`` in the place of ``old``, None for nothing; whether that was still there."""
        with self._lock:
            if self._closed or self._known.get(path) is not old:
                return False
            if new is None:
                del self._known[path]
            else:
                self._known[path] = new
            return True

    def _drop(self, path: str, helper: Helper | Prestarted) -> None:
        """A helper that is not as it should be: the next request makes a new one, if this one has ever been good."""
        known = self._known.get(path)
        if known is not None and known.helper is helper:
            self._replace(path, known, None if helper.has_answered else known._replace(helper=None))
        helper.retire()


def _can_be_ahead(path: str, plugin: str) -> bool:
    """Whether a plugin knows ``TYPE ahead``. Only one that says in its file that it may is asked."""
    if not is_built_with_skel(path):
        return False
    until = time.monotonic() + ANSWER_WITHIN
    said = launch.launch(path, [plugin, "version"], b"", until, log=lambda _line: None)
    if said.stopped or said.status != 0:
        return False
    try:
        about = gojson.loads(said.stdout)
    except ValueError:
        return False
    return isinstance(about, dict) and about.get("ahead") == AHEAD
