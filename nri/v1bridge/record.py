"""The record: which sandboxes and containers have had their ``create``, and which run without their plugins.

It is in memory, and in a directory that outlives the bridge but not the machine. An id whose ``create`` has ended
without an error has an empty file, ``ID.created``; a bridge that is killed meanwhile leaves a container that counts
as one without it. ``ID.notes`` has the plugins whose ``setup`` has run, and the id's ``withoutPlugins``, as
docs/status.md has them. Only root and our user can write to the directory. One that cannot be used is reported once,
and in the status; it is never the error of an event.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import threading
import time
from typing import TYPE_CHECKING, Any

from nri import files, trust
from nri.errors import NRIError, bounded, escape, reason_of
from nri.v1bridge.ledger import MAX_ERROR, split_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from nri.types.v1 import Request

MAX_WITHOUT = 1000
"""Pods and containers that run without their plugins; beyond that the oldest one is forgotten."""

MAX_NOTES = 1024 * 1024
"""Bytes of the notes of one id."""

_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,199})\.(created|notes)")
_NEW = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

log = logging.getLogger("nri.v1bridge")


class Record:
    """The ids that have had their ``create``. Any thread may call all methods; none raises for the directory's sake.

    Before the first :meth:`load` there is no directory, and ids are only in memory.
    """

    def __init__(self) -> None:
        self._directory = ""
        self._created: set[str] = set()
        self._notes: dict[str, dict[str, Any]] = {}  # by id, as in the files
        self._unwritten: dict[str, None] = {}  # files that may not be as the two above have them
        self.fault = ""
        """Why the directory cannot be used."""
        self._lock = threading.Lock()

    def __contains__(self, id_: object) -> bool:
        """Return whether an id has had its ``create``, perhaps by another bridge, which is about to end."""
        name = f"{id_}.created"
        return id_ in self._created or (_NAME.fullmatch(name) is not None and os.path.lexists(self._path(name)))

    def load(self, directory: str) -> None:
        """Use this directory from now on, and add what is in it to what is in memory."""
        with self._lock:
            self._directory = directory
            self._attempt(self._load)

    def add(self, id_: str) -> None:
        """Note that ``create`` ended without an error for the sandbox or container."""
        with self._lock:
            if id_ not in self._created:
                self._created.add(id_)
                self._put(f"{id_}.created")

    def add_setup(self, id_: str, plugins: list[str]) -> None:
        """Note the plugins that a container's ``setup`` has asked, or left out for their conditions."""
        with self._lock:
            self._note(id_)["setup"] = plugins
            self._put(f"{id_}.notes")

    def setups(self, id_: str) -> list[str]:
        """Return the plugins of :meth:`add_setup`."""
        return list(self._notes[id_]["setup"]) if id_ in self._notes else []

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
        with self._lock:
            entries = self._note(request.id)["without"]
            known = [other["plugin"] for other in entries if other["state"] == entry["state"]]
            if plugin not in known and (plugin is not None or not known):
                entries.append(entry)
                self._put(f"{request.id}.notes")
                listed = [notes["without"] for notes in self._notes.values() if notes["without"]]
                if sum(map(len, listed)) > MAX_WITHOUT:
                    oldest = listed[0].pop(0)
                    self._put(f"{oldest['id']}.notes")

    def has_run(self, request: Request, plugins: Collection[str]) -> None:
        """Note which plugins have done what was to be done for a pod or container."""
        with self._lock:
            if entries := self._notes.get(request.id, {}).get("without"):
                done = {(str(request.state), plugin) for plugin in (None, *plugins)}
                entries[:] = [entry for entry in entries if (entry["state"], entry["plugin"]) not in done]
                self._put(f"{request.id}.notes")

    def describe(self) -> dict[str, Any]:
        """Return what the status says of the record, and of what runs without plugins: docs/status.md."""
        with self._lock:
            entries = [entry for notes in self._notes.values() for entry in notes["without"]]
            record = {"directory": self._directory or None, "fault": self.fault or None}
        return {"record": record, "withoutPlugins": sorted(entries, key=lambda entry: entry["since"])}

    def retry(self) -> None:
        """Write again what could not be written."""
        if self.fault:
            with self._lock:
                self._put()

    def discard(self, id_: str) -> None:
        """Forget an id: its ``delete`` has run."""
        with self._lock:
            self._forget([id_])

    def keep(self, existing: Collection[str]) -> None:
        """Forget all ids but the *existing* ones."""
        with self._lock:
            self._forget((self._created | self._notes.keys()).difference(existing))

    def _note(self, id_: str) -> dict[str, Any]:
        return self._notes.setdefault(id_, {"setup": [], "without": []})

    def _forget(self, ids: Collection[str]) -> None:
        names = [f"{id_}.created" for id_ in ids if id_ in self._created]
        self._created.difference_update(ids)
        self._put(*names, *[f"{id_}.notes" for id_ in ids if self._notes.pop(id_, None)])

    def _put(self, *names: str) -> None:
        """Have files as the memory has them, and those that could not be written before."""
        if self._directory:
            self._unwritten.update(dict.fromkeys(names))
            self._attempt(self._write)

    def _load(self) -> None:
        self._unwritten = dict.fromkeys(self._names())
        trust.make_private(self._directory)
        for name in sorted(os.listdir(self._directory)):
            if (match := _NAME.fullmatch(name)) is None:
                continue
            if match[2] == "created":
                self._created.add(match[1])
            elif match[1] not in self._notes and (notes := _read(self._path(name), match[1])):
                self._notes[match[1]] = notes
        self._write()

    def _write(self) -> None:
        if self.fault:
            trust.make_private(self._directory)
        try:
            self._write_files()
        except FileNotFoundError:  # the directory was removed
            trust.make_private(self._directory)
            self._unwritten = dict.fromkeys(self._names())
            self._write_files()

    def _write_files(self) -> None:
        for name in [*self._unwritten]:
            if (match := _NAME.fullmatch(name)) is not None:  # other ids stay in memory
                self._write_file(self._path(name), match[1], match[2])
            del self._unwritten[name]

    def _write_file(self, path: str, id_: str, kind: str) -> None:
        if kind == "created" and id_ in self._created:
            os.close(os.open(path, _NEW, 0o600))
        elif kind == "notes" and id_ in self._notes:
            os.close(files.replace(path, json.dumps(self._notes[id_]).encode()))
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def _names(self) -> list[str]:
        return [f"{id_}.created" for id_ in self._created] + [f"{id_}.notes" for id_ in self._notes]

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _attempt(self, function: Callable[[], object]) -> None:
        """Call a function; log a failure once until it changes or is over."""
        try:
            function()
        except (OSError, NRIError) as error:
            fault = f"the record {self._directory} cannot be used: {escape(reason_of(error))}"
            if fault != self.fault:
                self.fault = fault
                log.warning("%s; which containers have had their create is known only until the bridge ends", fault)
        else:
            self.fault = ""


def _read(path: str, id_: str) -> dict[str, Any] | None:
    """Return the notes in a file, None if it does not have them; another build may have written it."""
    try:
        notes = json.loads(files.read_regular(path, MAX_NOTES)[0])
        plugins, entries = [str(plugin) for plugin in notes["setup"]], []
        for entry in notes["without"]:
            texts = {key: str(entry[key]) for key in ("pod", "state", "why")}
            maybe = {key: None if entry[key] is None else str(entry[key]) for key in ("container", "plugin")}
            entries.append({"id": id_, **texts, **maybe, "since": float(entry["since"])})
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return None
    return {"setup": plugins, "without": entries}
