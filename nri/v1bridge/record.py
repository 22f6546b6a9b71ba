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
        # The ids whose files are there, each with a hash of what was written to it; None if that is not known.
        self._written: dict[str, int | None] = {}
        self._identity: object = ()  # of the directory

    def load(self, directory: str) -> dict[str, Facts]:
        """Use this directory from now on; return what is in it, by id."""
        self.directory = directory
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
            self._written[match[1]] = None
            facts = self.read(match[1])
            if facts is not None:
                loaded[match[1]] = facts
        return loaded

    def read(self, id_: str) -> Facts | None:
        """Return what is on record for an id; None if it has no file that can be used."""
        if not self._has_file(id_):
            return None
        facts, faults = read_facts(self._path(id_))
        for fault in faults:
            log.warning("the record of %s: %s; ignored", id_, escape(fault))
        return facts

    def look(self) -> None:
        """If the directory was removed or replaced, have all files count as unwritten."""
        if not self.fault and identity(self.directory)[:2] != self._identity:
            try:
                trust.make_private(self.directory)
            except (OSError, NRIError) as error:
                self._failed(error)
                return
            self._identity = identity(self.directory)[:2]
            self.unwritten |= self._written.keys()
            self._written.clear()

    def put(self, id_: str, facts: Facts) -> None:
        """Have the file of an id hold these facts; there is none where nothing is to be remembered."""
        if not self._has_file(id_):
            return
        try:
            if not facts.is_empty:
                self._write(id_, gojson.dumps(facts.to_value()))
            elif id_ in self._written:
                remove_file(self._path(id_))
                del self._written[id_]
        except (OSError, NRIError) as error:
            self.unwritten.add(id_)
            self._written[id_] = None
            self._failed(error)
            return
        self.unwritten.discard(id_)
        if not self.unwritten:
            self.fault = ""

    def _has_file(self, id_: str) -> bool:
        """Return whether an id can have a file: it is a name, and there is a directory."""
        return self.directory != "" and _ID.fullmatch(id_) is not None

    def _write(self, id_: str, document: bytes) -> None:
        """Write a file, if it has another content: a container that starts again has had the same."""
        digest = hash(document)
        if self._written.get(id_) != digest:
            write_file(self._path(id_), document, is_checked=not self.fault)
            self._written[id_] = digest

    def _path(self, id_: str) -> str:
        return f"{self.directory}/{id_}.json"

    def _failed(self, error: Exception) -> None:
        """Log a fault, once until it changes or is over."""
        fault = f"the record {self.directory} cannot be used: {escape(reason_of(error))}"
        if fault != self.fault:
            self.fault = fault
            log.warning("%s; what containers have had is known only until the bridge ends", fault)
