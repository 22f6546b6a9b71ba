"""Plugins that are ready before they are asked: the host's end of :mod:`nri.prefork.server.serving`.

The contract of a plugin stays as it is: a process of its own for each request, which is new, has the request on stdin
and its result on stdout, the same environment, deadline and end. What is different is where it comes from: a helper,
the plugin itself, started once as ``TYPE prefork``, which forks a child that waits. A plugin is run so when

- it was built with :mod:`nri.skel` (its file names it, and it says so itself when asked for its version), and
- its file is the one that the helper was started from: a plugin that is replaced gets a new helper.

Where its configuration says ``"prefork": "always"``, one that was not built so is started as ``TYPE invoke``, and
waits for its request; where it says ``never``, it is started as ever.

In every other case, and whenever anything about a helper is not as it should be, the plugin is started as ever: the
way here is that of :func:`nri.process.launch.launch` less its first step. No request waits for a helper to be made.
The log says once why a plugin that was built with :mod:`nri.skel` has no helper. A helper is tried again later, and
the longer it fails the later. One whose child was killed at its work is replaced.
A helper, and all that comes from it, ends when its socket is closed, and so at the latest with this process.

The cost: a process for each plugin, and two that wait, which share most of their memory; no CPU time. Not for
``nri hook``, which ends after one request.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from nri.prefork.pool.about import is_built_with_skel
from nri.prefork.pool.server_handle import NoWorkerError, ServerGoneError, ServerHandle, in_background, reason
from nri.prefork.pool.standby import Standby
from nri.prefork.pool.watched_files import Files, Look, Seen, first_changed, identity, wait_until_settled
from nri.prefork.protocol import VERSION
from nri.process import launch
from nri.process.lines import Lines
from nri.types import gojson
from nri.types.gojson import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


ANSWER_WITHIN = 10.0
"""Seconds that a plugin has to say whether it can be started ahead, and then to be ready."""

AT_ONCE, PAUSE = 3, 0.05
"""Attempts that are made in a row while files change, and seconds between them."""

RETRY, RETRY_AT_MOST = 1.0, 600.0
"""Seconds until a request has a helper tried again: at first, and at most; each failure doubles them."""

_CAUTION = {"never": 0, "": 1, "always": 2}
_FOREIGN = "it was not built with nri.skel"

log = logging.getLogger("nri.client")
_log_debug = log.debug  # where a parameter is called `log`


class _Known(NamedTuple):
    """The state of a plugin."""

    files: Files
    """The files that it was made of, its executable first: only that one while there is no helper."""
    helper: ServerHandle | Standby | None = None
    retry_at: float = math.inf
    """When a helper may be tried again where there is none, on the monotonic clock."""
    attempts: int = 0
    seen: Seen | None = None
    """The files at the last attempt."""
    said: frozenset[str] = frozenset()
    """The kinds of reasons that the log has for this executable."""

    def failed(self) -> _Known:
        """Return what is known after attempts that gave no helper: when there may be another."""
        return self._replace(
            files=dict(list(self.files.items())[:1]),
            helper=None,
            retry_at=time.monotonic() + min(RETRY_AT_MOST, RETRY * 2 ** min(self.attempts, 10)),
            attempts=self.attempts + 1,
        )


class _Attempt(NamedTuple):
    """A helper that was started, or was not."""

    helper: ServerHandle | Standby | None
    files: Files
    why_not: str = ""
    """Why the helper can't be used, or why there is none; "" also for a plugin that needs none."""
    seen: Seen | None = None
    """The plugin's files, where they are the reason."""


class Pool:
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
        """As :func:`nri.process.launch.launch`, by a child of the plugin's helper where there is one."""
        helper = self._find(path, argv[0])
        if helper is not None:
            try:
                output = helper.launch(stdin, deadline, Lines(max_output, log), max_output)
            except NoWorkerError:
                pass
            except ServerGoneError:
                self._drop(path, helper, argv[0])
            else:
                _log_debug("%s: a preloaded process has got this request", argv[0])
                return output
            finally:
                if helper.is_suspect:
                    self._drop(path, helper, argv[0])
                    self.prepare(path, argv[0])
        _log_debug("%s: starting a process for this request", argv[0])
        return launch.launch(path, argv, stdin, deadline, max_output=max_output, log=log)

    def prepare(self, path: str, plugin: str) -> None:
        """Have a helper started, where there can be one, so that the first request finds it. Nothing waits for it."""
        self._find(path, plugin)

    def tidy(self) -> None:
        """Do what was left for when nobody waits: see :meth:`nri.prefork.pool.server_handle.ServerHandle.tidy`."""
        for known in list(self._known.values()):
            if known.helper is not None:
                known.helper.tidy()

    def keep(self, plugins: Iterable[tuple[str, str]]) -> None:
        """Take note of what is configured; what is so no more ends.

        :param plugins: their types, each with the word of its configuration: ``always``, ``never`` or "".
        """
        wanted: dict[str, str] = {}
        for plugin, word in plugins:  # a type that stands there several times has the most careful word of all
            wanted[plugin] = min(wanted.get(plugin, word), word, key=lambda word: _CAUTION.get(word, 1))
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

    def _find(self, path: str, plugin: str) -> ServerHandle | Standby | None:
        """Return the helper for the file that ``path`` is now; None where there is none, or none yet."""
        known = self._known.get(path)
        changed = ""
        if known is not None:
            changed = first_changed(known.files)
            if not changed and (known.helper is not None or time.monotonic() < known.retry_at):
                return known.helper
        try:
            new = _Known({path: identity(path)})
        except OSError:
            return None
        if known is not None and known.files[path] == new.files[path]:
            new = self._again(plugin, known, changed)
        with self._lock:
            if self._closed or self._known.get(path) is not known:  # another thread was here before
                return None
            self._known[path] = new
        if known is not None and known.helper is not None:
            known.helper.retire()
        if new.retry_at == math.inf and not in_background(self._prepare, path, plugin, new):
            self._replace(path, new, new.failed())
        return None

    @staticmethod
    def _again(plugin: str, known: _Known, changed: str) -> _Known:
        """Return what is known of a plugin whose executable is the same, when another attempt is due."""
        failed = known.failed()
        if known.helper is not None:
            if known.helper.has_answered:
                return _Known(failed.files)
            if failed.attempts >= AT_ONCE:
                return _say(plugin, failed, f"its files change again and again: {changed}")
            return failed._replace(retry_at=math.inf)
        return known._replace(retry_at=math.inf)

    def _prepare(self, path: str, plugin: str, known: _Known) -> None:
        """Start a helper, and put it in the place of ``known``."""
        attempt = self._attempt(path, plugin, known)
        for _ in range(AT_ONCE - 1):
            if attempt.seen is None:
                break
            # All is well but for the files, which may be at rest by now.
            newer = known._replace(seen=attempt.seen)
            if not self._replace(path, known, newer):
                return
            known = newer
            time.sleep(PAUSE)
            attempt = self._attempt(path, plugin, known)
        if attempt.why_not:
            self._replace(path, known, _say(plugin, known._replace(seen=attempt.seen).failed(), attempt.why_not))
            return
        is_placed = self._replace(path, known, known._replace(files=attempt.files, helper=attempt.helper))
        if attempt.helper is not None and not is_placed:
            attempt.helper.retire()

    def _attempt(self, path: str, plugin: str, known: _Known) -> _Attempt:
        """Start a helper, and wait until it is ready. One that can't be used is ended."""
        helper: ServerHandle | Standby | None = None
        seen = None
        try:
            prefork = self._wanted.get(plugin, "")
            why = _FOREIGN if prefork == "never" else _why_not(path, plugin)
            wait_until_settled(known.files[path])
            look = Look(known.seen)
            if why == "":
                helper = ServerHandle(path, plugin)
            elif why == _FOREIGN:
                helper = Standby(path, plugin) if prefork == "always" else None
                return _Attempt(helper, known.files)
            if helper is not None:
                why = helper.prepare(ANSWER_WITHIN)
                if why == "":
                    found = {each: identity(each) for each in helper.files}
                    # The executable may have two names; a look at one is enough.
                    files = known.files | {each: one for each, one in found.items() if one != known.files[path]}
                    why = look.changed(files)
                    if why == "":
                        return _Attempt(helper, files)
                    seen = Seen(files, time.monotonic_ns())
        except FileNotFoundError as error:
            why = f"a file is not there: {error.filename or path}"
            seen = Seen(known.files, time.monotonic_ns())
        except OSError as error:
            why = f"it cannot be started: {error.strerror}"
        if helper is not None:
            helper.retire()
        return _Attempt(None, known.files, why, seen)

    def _replace(self, path: str, old: _Known, new: _Known | None) -> bool:
        """Put ``new`` in the place of ``old``, None for nothing; return whether that was still there."""
        with self._lock:
            if self._closed or self._known.get(path) is not old:
                return False
            if new is None:
                del self._known[path]
            else:
                self._known[path] = new
            return True

    def _drop(self, path: str, helper: ServerHandle | Standby, plugin: str) -> None:
        """End a helper that is not as it should be. If it has ever answered, the next request makes a new one."""
        known = self._known.get(path)
        if known is not None and known.helper is helper:
            new = None if helper.has_answered else _say(plugin, known.failed(), "its helper ends, or what it forks")
            self._replace(path, known, new)
        helper.retire()


def try_prefork(path: str, plugin: str) -> str:
    """Start a plugin ahead as a host does, and end it; return "" or why it is started for each request.

    A plugin that was not built with :mod:`nri.skel` is not run; the answer is "".
    """
    try:
        why = _why_not(path, plugin)
        if why == "":
            helper = ServerHandle(path, plugin)
            try:
                why = helper.prepare(ANSWER_WITHIN)
            finally:
                helper.retire(wait=True)
    except OSError as error:
        return f"it cannot be started: {error.strerror}"
    return "" if why == _FOREIGN else why


def _say(plugin: str, known: _Known, why: str) -> _Known:
    """Log a reason, once for each kind and version of the executable; return what is known after that."""
    kind = why.partition(": ")[0]
    if kind not in known.said:
        log.warning("%s is started for each request: %s", plugin, why)
    return known._replace(said=known.said | {kind})


def _why_not(path: str, plugin: str) -> str:
    """Return why a plugin can't be started ahead; "" if it says that it can. Only one with nri.skel is asked."""
    if not is_built_with_skel(path):
        return _FOREIGN
    about = _ask(path, plugin, "version")
    try:
        found = gojson.loads(about.stdout)
        number = found.get("prefork") if isinstance(found, dict) else None
    except ValueError:
        return "it does not answer 'version'" + (f": {shorten(about.stderr, 200)}" if about.stderr else "")
    if number == VERSION:
        return ""
    if number is not None:
        what = gojson.describe(number)
        return f"it was built with another version of nri.skel: its prefork is {what}, expected {VERSION}"
    # It says why it can't, if it is not older than this question.
    lines: list[str] = []
    _ask(path, plugin, "prefork", lines.append)
    return (
        reason("\n".join(lines).encode(), f"{plugin} prefork: ")
        or "it was built with a version of nri.skel that can't"
    )


def _ask(path: str, plugin: str, verb: str, log: Callable[[str], None] = lambda _line: None) -> launch.Output:
    until = time.monotonic() + ANSWER_WITHIN
    return launch.launch(path, [plugin, verb], b"", until, log=log)
