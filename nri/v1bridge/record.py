"""The record: which sandboxes and containers have had their ``create``, and which run without their plugins.

It is in memory, and in a file that outlives the bridge but not the machine. A line is appended with one write: the id
whose ``create`` ended without an error; or a JSON object, which has the plugins whose ``setup`` did, or is an entry
of ``withoutPlugins`` in docs/status.md. An id is written after its chain has succeeded, so a bridge that is killed
meanwhile leaves a container that counts as one without it. The file is read with suspicion: it is bounded, belongs to
root or to our user, and is no link; other lines are ignored. A file that cannot be read counts as empty, and one that
cannot be written is reported once, and in the status; neither is ever the error of an event.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import stat
import threading
import time
from typing import TYPE_CHECKING, Any

from nri import files, trust
from nri.errors import NRIError, bounded, escape, reason_of
from nri.v1bridge.ledger import MAX_ERROR, split_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from nri.types.v1 import Request

MAX_SIZE = 16 * 1024 * 1024
"""Bytes of a file that is read. It has 65 for each container, and is rewritten when most of them are gone."""

MAX_IDS = 100_000
"""Ids that are remembered; beyond that the oldest one is forgotten. A node has some thousands."""

MAX_WITHOUT = 1000
"""Pods and containers that run without their plugins; beyond that the oldest one is forgotten."""

SPARE = 5_000
"""Lines of ids that are forgotten, beyond which the file is rewritten."""

_Key = tuple[str, str, str | None]
_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY

log = logging.getLogger("nri.v1bridge")


class Record:
    """The ids that have had their ``create``. Any thread may call all methods; none raises for the file's sake.

    Before the first :meth:`load` there is no file, and ids are only in memory.
    """

    def __init__(self) -> None:
        self._path = ""
        self._ids: dict[str, None] = {}  # in the order of their creates
        self._setups: dict[str, list[str]] = {}  # types of plugins, by id
        self._without: dict[_Key, dict[str, Any]] = {}
        self._fd = -1
        self._lines = 0
        self._reported = self.fault = ""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._ids

    def load(self, path: str) -> None:
        """Use the file at ``path``: add its ids to those in memory, and append to it from now on.

        Another bridge may have replaced the file since it was opened, so the bridge calls this for each connection.
        """
        with self._lock:
            self._path = path
            self._close()
            lines = (self._attempt("read", self._read) or b"").split(b"\n")[:-1]  # the last one may be half of an id
            self._ids = _ids(lines) | self._ids
            entries = [entry for line in lines if line.startswith(b"{") and (entry := _entry(line))]
            self._setups = {entry["id"]: entry["setup"] for entry in entries if "setup" in entry} | self._setups
            self._without = {_key(entry): entry for entry in entries if "setup" not in entry} | self._without
            self._bound()
            self._attempt("written", self._rewrite)

    def add(self, id_: str) -> None:
        """Note that ``create`` ended without an error for the sandbox or container."""
        with self._lock:
            if id_ in self._ids:
                return
            self._ids[id_] = None
            self._bound()
            if _ID.fullmatch(os.fsencode(id_)):
                self._put(id_)

    def add_setup(self, id_: str, plugins: list[str]) -> None:
        """Note the plugins that a container's ``setup`` has asked, or left out for their conditions."""
        with self._lock:
            self._setups[id_] = plugins
            self._bound()
            self._put(json.dumps({"id": id_, "setup": plugins}))

    def setups(self, id_: str) -> list[str]:
        """Return the plugins of :meth:`add_setup`."""
        return self._setups.get(id_, [])

    def runs_without(self, name: str, request: Request, reason: str, plugin: str | None = None) -> None:
        """Note that a pod or container runs without a plugin; the first reason counts.

        :param name: ``NAMESPACE/POD[/CONTAINER]``.
        :param request: what was to be done for it.
        :param plugin: the plugin's type; None for all of them, unless one of them is noted.
        """
        pod, container = split_name(name)
        entry = {
            "id": request.id,
            "pod": pod,
            "container": container or None,
            "plugin": plugin,
            "state": str(request.state),
            "since": round(time.time(), 3),
            "why": bounded(escape(reason), MAX_ERROR),
        }
        key = _key(entry)
        with self._lock:
            if not any(other == key or (plugin is None and other[:2] == key[:2]) for other in self._without):
                self._without[key] = entry
                self._bound()
                self._put(json.dumps(entry))

    def has_run(self, request: Request, plugins: Collection[str]) -> None:
        """Note which plugins have done what was to be done for a pod or container."""
        with self._lock:
            done = {(request.id, str(request.state), plugin) for plugin in (None, *plugins)}
            self._drop_without(lambda key: key in done)

    def describe(self) -> dict[str, Any]:
        """Return what the status says of the record, and of what runs without plugins: docs/status.md."""
        with self._lock:
            record = {"file": self._path or None, "fault": self.fault or None}
            return {"record": record, "withoutPlugins": [*self._without.values()]}

    def retry(self) -> None:
        """Write the file again if it could not be written."""
        if self.fault:
            with self._lock:
                self._attempt("written", self._rewrite)

    def discard(self, id_: str) -> None:
        """Forget an id: its ``delete`` has run. Its line remains until the file is rewritten."""
        with self._lock:
            self._ids.pop(id_, None)
            self._setups.pop(id_, None)
            self._drop_without(lambda key: key[0] == id_)

    def keep(self, existing: Collection[str]) -> None:
        """Forget all ids but the *existing* ones, and rewrite the file."""
        with self._lock:
            self._ids = {id_: None for id_ in self._ids if id_ in existing}
            self._setups = {id_: plugins for id_, plugins in self._setups.items() if id_ in existing}
            self._without = {key: entry for key, entry in self._without.items() if key[0] in existing}
            if self._path:
                self._attempt("written", self._rewrite)

    def tidy(self) -> None:
        """Rewrite the file if most of its lines are forgotten ids. It needs no answer's time."""
        if self._lines <= 2 * (len(self._ids) + len(self._setups)) + SPARE or self._fd < 0:
            return
        with self._lock:
            self._attempt("written", self._rewrite)

    def close(self) -> None:
        """Close the file; the ids stay in memory."""
        with self._lock:
            self._close()

    def _bound(self) -> None:
        _drop_oldest(self._ids, MAX_IDS)
        _drop_oldest(self._setups, MAX_IDS)
        _drop_oldest(self._without, MAX_WITHOUT)

    def _drop_without(self, is_over: Callable[[_Key], bool]) -> None:
        """Drop entries; the file is rewritten, as a bridge that is not synchronized would find them again."""
        left = {key: entry for key, entry in self._without.items() if not is_over(key)}
        if len(left) < len(self._without):
            self._without = left
            if self._path:
                self._attempt("written", self._rewrite)

    def _put(self, line: str) -> None:
        if self.fault and self._path:  # the file lacks lines before this one, and may end in half of one
            self._attempt("written", self._rewrite)
        elif self._fd >= 0:
            self._attempt("written", lambda: self._append(line))

    def _append(self, line: str) -> None:
        if os.fstat(self._fd).st_nlink == 0:  # another bridge has replaced the file: one of both is about to end
            self._ids = _ids(self._read().split(b"\n")[:-1]) | self._ids
            self._bound()
            self._rewrite()
            return
        data = line.encode() + b"\n"
        if os.write(self._fd, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._lines += 1

    def _read(self) -> bytes:
        """Return the content of the file, "" if there is none.

        :raises OSError: it cannot be opened or read.
        :raises NRIError: it is not a file that can be relied on.
        """
        try:
            self._require_file()
            with open(os.open(self._path, _READ), "rb") as file:
                if wrong := trust.judge_path(self._path, os.fstat(file.fileno())):
                    raise NRIError(wrong)
                data = file.read(MAX_SIZE + 1)
        except FileNotFoundError:
            return b""
        if len(data) > MAX_SIZE:
            raise NRIError(f"it has more than {MAX_SIZE} bytes, expected fewer")
        return data

    def _require_file(self) -> None:
        mode = os.lstat(self._path).st_mode
        if not stat.S_ISREG(mode):  # such as /dev/null, which a rename would replace
            raise NRIError(f"it is {files.describe(mode)}, expected a regular file")

    def _rewrite(self) -> None:
        """Replace the file by one with what is in memory.

        :raises OSError: it cannot be written; the old file stays.
        :raises NRIError: others can write to its directory, or the path is something else's.
        """
        trust.make_private(os.path.dirname(self._path))
        with contextlib.suppress(FileNotFoundError):
            self._require_file()
        lines = [line for id_ in self._ids if _ID.fullmatch(line := os.fsencode(id_))]
        entries = [{"id": id_, "setup": plugins} for id_, plugins in self._setups.items()]
        lines += [json.dumps(entry).encode() for entry in (*entries, *self._without.values())]
        fd = files.replace(self._path, b"".join([line + b"\n" for line in lines]))
        self._close()
        self._fd, self._lines = fd, len(lines)

    def _attempt(self, done: str, function: Callable[[], bytes | None]) -> bytes | None:
        """Return the function's result, None if it fails; log a failure once until it changes or is over."""
        try:
            result = function()
        except (OSError, NRIError) as error:
            reason = reason_of(error)
            if reason != self._reported:
                self._reported = reason
                means = "which containers have had their create is known only until the bridge ends"
                self.fault = f"the record {self._path} cannot be {done}: {escape(reason)}"
                log.warning("%s; %s", self.fault, means)
            return None
        if done == "written":
            self._reported = self.fault = ""
        return result

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def _ids(lines: list[bytes]) -> dict[str, None]:
    return {line.decode(): None for line in lines if _ID.fullmatch(line)}


def _drop_oldest(table: dict[Any, Any], most: int) -> None:
    while len(table) > most:
        del table[next(iter(table))]


def _key(entry: dict[str, Any]) -> _Key:
    return entry["id"], entry["state"], entry["plugin"]


def _entry(line: bytes) -> dict[str, Any] | None:
    """Return what a line of the file has of ``setup`` or ``withoutPlugins``, None if it has neither."""
    try:
        entry = json.loads(line)
        if "setup" in entry:
            names = [entry["id"], *entry["setup"]]
            return {"id": names[0], "setup": names[1:]} if all(isinstance(text, str) for text in names) else None
        texts = {key: entry[key] for key in ("id", "pod", "state", "why")}
        maybe = {key: entry[key] for key in ("container", "plugin")}
        since = float(entry["since"])
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    is_right = all(isinstance(text, str) for text in [*texts.values(), *filter(None, maybe.values())])
    return {**texts, **maybe, "since": since} if is_right else None
