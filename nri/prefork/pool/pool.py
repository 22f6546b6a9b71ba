"""The pool: the plugins of a host that are loaded before a request comes.

The contract of a plugin does not change; only the process of a request comes from a server, which forked it
(:mod:`nri.prefork.protocol`). A plugin that was built with :mod:`nri.skel` has one, and gets a new one when its files
have changed. With ``"prefork": "always"`` in its entry, another plugin waits for its request as ``TYPE invoke``.

In every other case, and whenever a server fails, the plugin is started for the request. No request waits for a server
to become ready. The log has one line with the reason why a plugin that was built with :mod:`nri.skel` has no server.
A failed attempt is repeated later, at growing intervals. A server whose worker was killed during a request is
replaced. All servers end with this process.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from nri.prefork.pool import in_background
from nri.prefork.pool.eligibility import attempt
from nri.prefork.pool.shared_server import SharedServer
from nri.prefork.pool.watched_files import AT_ONCE, PAUSE, Files, Seen, first_changed, identity
from nri.prefork.pool.workers import NoWorkerError, ServerGoneError
from nri.process.launch import MAX_OUTPUT, Output, launch
from nri.process.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nri.prefork.pool.eligibility import Server
    from nri.process.lines import Log

RETRY, RETRY_AT_MOST = 1.0, 600.0  # seconds until a request causes another attempt: at first (then doubled), at most
_CAUTION = {"never": 0, "": 1, "always": 2}
_logger = logging.getLogger("nri.client")


class Standing(NamedTuple):
    """What became of the attempt to load a plugin ahead."""

    state: str  # ready, loading, foreign (not built with nri.skel), failed (started for each request)
    reason: str = ""
    build: str = ""  # the version that the plugin reports


class _Known(NamedTuple):
    """The state of the plugin at a path."""

    plugin: str  # its type
    files: Files  # the files that it was loaded from, its executable first; only that while there is no server
    server: Server | None = None
    retry_at: float = math.inf  # the time of the next attempt if there is no server, on the monotonic clock
    attempts: int = 0
    seen: Seen | None = None  # the files at the last attempt
    logged: frozenset[str] = frozenset()  # the kinds of reasons that were logged for this executable
    standing: Standing = Standing("loading")

    def failed(self) -> _Known:
        """Return the state after a failed attempt."""
        return self._replace(
            files=dict(list(self.files.items())[:1]),
            server=None,
            retry_at=time.monotonic() + min(RETRY_AT_MOST, RETRY * 2 ** min(self.attempts, 10)),
            attempts=self.attempts + 1,
            standing=self.standing if self.server is None else Standing("loading"),
        )

    def failed_because(self, why: str) -> _Known:
        """Log the reason, once for each kind and version of the executable; return the state after the attempt."""
        kind = why.partition(": ")[0]
        if kind not in self.logged:
            _logger.warning("%s is started for each request: %s", self.plugin, why)
        return self.failed()._replace(logged=self.logged | {kind}, standing=Standing("failed", why))

    def again(self, changed: str) -> _Known:
        """Return the state before another attempt with the same executable.

        :param changed: the file that has changed, if there was a server.
        """
        if self.server is None:
            return self._replace(retry_at=math.inf)
        failed = self.failed()
        if self.server.has_answered:
            return _Known(self.plugin, failed.files)
        if failed.attempts >= AT_ONCE:
            return self.failed_because(f"its files change again and again: {changed}")
        return failed._replace(retry_at=math.inf)


class Pool:
    """The servers of a host's plugins. All methods may be called from any thread.

    :param shared: the server that plugins of the host's own build share.
    """

    def __init__(self, shared: SharedServer | None = None) -> None:
        self._shared = SharedServer() if shared is None else shared
        self._known: dict[str, _Known] = {}
        self._wanted: dict[str, str] = {}
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._closed = False

    def launch(
        self, path: str, argv: list[str], stdin: bytes, deadline: float, *, max_output: int = MAX_OUTPUT, log: Log
    ) -> Output:
        """Do the same as :func:`nri.process.launch.launch`, with a preforked process if there is one."""
        plugin = argv[0]
        server = self.prepare(path, plugin)
        if server is not None:
            try:
                output = server.launch(stdin, deadline, Lines(max_output, log), max_output)
            except NoWorkerError:
                pass
            except ServerGoneError:
                self._drop(path, server)
            else:
                _logger.debug("%s: a waiting process takes this request", plugin)
                return output
            finally:
                if server.is_suspect:
                    self._drop(path, server)
                    self.prepare(path, plugin)
        _logger.debug("%s: starting a process for this request", plugin)
        return launch(path, argv, stdin, deadline, max_output=max_output, log=log)

    def prepare(self, path: str, plugin: str) -> Server | None:
        """Return the server if its files have not changed; start another in the background if one is due."""
        known = self._known.get(path)
        changed = ""
        if known is not None:
            changed = first_changed(known.files)
            if not changed and (known.server is not None or time.monotonic() < known.retry_at):
                return known.server
        try:
            new = _Known(plugin, {path: identity(path)})
        except OSError:
            return None
        if known is not None and known.files[path] == new.files[path]:
            new = known.again(changed)
        with self._lock:
            if self._closed or self._known.get(path) is not known:  # another thread was faster
                return None
            self._known[path] = new
        if known is not None and known.server is not None:
            known.server.retire()
        if new.retry_at == math.inf and not in_background(self._start, path, new):
            self._replace(path, new, new.failed())
        return None

    def wait_until_loaded(self, within: float) -> bool:
        """Wait until no plugin is being loaded, at most so many seconds; return whether that is so."""
        with self._lock:
            return self._changed.wait_for(
                lambda: all(known.standing.state != "loading" for known in self._known.values()), within
            )

    def standing(self, path: str) -> Standing:
        """Return what is known of the plugin at a path."""
        known = self._known.get(path)
        return Standing("loading") if known is None else known.standing

    def tidy(self) -> None:
        """Do the work that no request waits for: see :meth:`nri.prefork.pool.server_handle.ServerHandle.tidy`."""
        for known in list(self._known.values()):
            if known.server is not None:
                known.server.tidy()

    def keep(self, plugins: Iterable[tuple[str, str]]) -> None:
        """Keep the servers of these plugins only, and prefork by their entries.

        :param plugins: their types, each with ``prefork`` of its entry: ``always``, ``never`` or "". The most
            cautious entry of a type counts.
        """
        wanted: dict[str, str] = {}
        for plugin, prefork in plugins:
            wanted[plugin] = min(wanted.get(plugin, prefork), prefork, key=lambda each: _CAUTION.get(each, 1))
        with self._lock:
            before, self._wanted = self._wanted, wanted
            every = list(self._known.items())
            gone = [path for path, known in every if wanted.get(known.plugin) != before.get(known.plugin, "")]
            servers = [self._known.pop(path).server for path in gone]
            self._changed.notify_all()
        for server in servers:
            if server is not None:
                server.retire()

    def close(self) -> None:
        """End all servers; from now on every plugin is started for each request."""
        self._closed = True
        self.keep(())

    def _start(self, path: str, known: _Known) -> None:
        """Start a server, and replace ``known`` by the outcome."""
        for left in reversed(range(AT_ONCE)):
            wanted = self._wanted.get(known.plugin, "")
            # A single plugin has none to share with, and a fork of a server of its own takes less time.
            shared = None if len(self._wanted) == 1 else self._shared
            outcome = attempt(path, known.plugin, wanted, known.files, known.seen, shared)
            if outcome.seen is None or not left:
                break
            # Only the files are at fault, and they may no longer change.
            old, known = known, known._replace(seen=outcome.seen)
            if not self._replace(path, old, known):
                return
            time.sleep(PAUSE)
        if outcome.why_not:
            new = known._replace(seen=outcome.seen).failed_because(outcome.why_not)
            new = new._replace(standing=new.standing._replace(build=outcome.build))
        else:
            standing = Standing("foreign" if outcome.server is None else "ready", build=outcome.build)
            new = known._replace(files=outcome.files, server=outcome.server, standing=standing)
        if not self._replace(path, known, new) and outcome.server is not None:
            outcome.server.retire()

    def _replace(self, path: str, old: _Known, new: _Known | None) -> bool:
        """Replace ``old`` by ``new``, or remove it; return False if it was replaced by another thread."""
        with self._lock:
            if self._closed or self._known.get(path) is not old:
                return False
            if new is None:
                del self._known[path]
            else:
                self._known[path] = new
            self._changed.notify_all()
        return True

    def _drop(self, path: str, server: Server) -> None:
        """End a server that does not work. If it has answered before, the next request starts another."""
        known = self._known.get(path)
        if known is not None and known.server is server:
            new = None if server.has_answered else known.failed_because("its server or a worker ends by itself")
            self._replace(path, known, new)
        server.retire()
