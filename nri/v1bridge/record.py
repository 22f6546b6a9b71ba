"""The bridge's files of the record, in a directory that may be away, another one, or full.

``ID.json`` has the facts about a pod or container (``nri.node.record``). A directory that cannot be used is reported
once, and in the status; it is never the error of an event.
"""

from __future__ import annotations

import logging
import os
import re

from nri import trust
from nri.errors import NRIError, escape, reason_of
from nri.files import identity
from nri.node.record import Facts, read_facts, remove_file, write_file
from nri.types import gojson

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_NAME = re.compile(rf"({_ID.pattern})\.json")

log = logging.getLogger("nri.v1bridge")


class Record:
    """The files. Its owner calls one method at a time; none raises for the directory's sake.

    Before the first ``load`` there is no directory, and nothing is written.

    :ivar fault: why the directory cannot be used, "" if it can be.
    :ivar unwritten: the ids whose files may not be as they should be.
    """

    def __init__(self) -> None:
        self.directory = ""
        self.fault = ""
        self.unwritten: set[str] = set()
        self._names: set[str] = set()  # of files that are there
        self._written: dict[str, int] = {}  # hashes of what was written to them
        self._identity: object = None  # of the directory

    def load(self, directory: str) -> dict[str, Facts]:
        """Use this directory from now on; return what is in it, by id."""
        self.directory = directory
        self._names = set()
        self._written = {}
        try:
            trust.make_private(directory)
            names = sorted(os.listdir(directory))
        except (OSError, NRIError) as error:
            self._failed(error)
            return {}
        self.fault = ""
        self._identity = identity(directory)[:2]
        loaded: dict[str, Facts] = {}
        for name in names:
            match = _NAME.fullmatch(name)
            if match is None:
                continue
            self._names.add(name)
            facts = self.read(match[1])
            if facts is not None:
                loaded[match[1]] = facts
        return loaded

    def read(self, id_: str) -> Facts | None:
        """Return what is on record for an id; None if it has no file that can be used."""
        if not self.directory or not _ID.fullmatch(id_):
            return None
        facts, faults = read_facts(self._path(id_))
        for fault in faults:
            log.warning("the record of %s: %s; ignored", id_, escape(fault))
        return facts

    def look(self) -> None:
        """If the directory was removed or replaced, have all files count as unwritten."""
        if self.directory and not self.fault and identity(self.directory)[:2] != self._identity:
            try:
                trust.make_private(self.directory)
            except (OSError, NRIError) as error:
                self._failed(error)
                return
            self._identity = identity(self.directory)[:2]
            self.unwritten |= {name.rpartition(".")[0] for name in self._names}
            self._names.clear()

    def put(self, id_: str, facts: Facts | None) -> None:
        """Have the file of an id hold these facts; None for no file. Ids that are no names have none."""
        if not self.directory or not _ID.fullmatch(id_):
            return
        name = f"{id_}.json"
        is_kept = facts is not None and not facts.is_empty
        try:
            if facts is not None and is_kept:
                self._write(id_, name, gojson.dumps(facts.to_value()))
            elif name in self._names:
                remove_file(self._path(id_))
                self._names.discard(name)
                self._written.pop(name, None)
        except (OSError, NRIError) as error:
            self.unwritten.add(id_)
            self._failed(error)
            return
        self.unwritten.discard(id_)
        if not self.unwritten:
            self.fault = ""

    def _write(self, id_: str, name: str, document: bytes) -> None:
        """Write a file, if it has another content: a container that starts again has had the same."""
        digest = hash(document)
        if id_ in self.unwritten or name not in self._names or self._written.get(name) != digest:
            write_file(self._path(id_), document, is_checked=not self.fault)
            self._names.add(name)
            self._written[name] = digest

    def _path(self, id_: str) -> str:
        return f"{self.directory}/{id_}.json"

    def _failed(self, error: Exception) -> None:
        """Log a fault, once until it changes or is over."""
        fault = f"the record {self.directory} cannot be used: {escape(reason_of(error))}"
        if fault != self.fault:
            self.fault = fault
            log.warning("%s; what containers have had is known only until the bridge ends", fault)
