"""The record: a file for each pod and container, in a directory that outlives the bridge but not the machine.

``ID.json`` has what ``nri.v1bridge.memory.Row.to_value`` makes. It is written in one step, and read as untrusted
input: a file that is damaged or missing counts as a container that has had nothing. Only root and our user can write
to the directory. One that cannot be used is reported once, and in the status; it is never the error of an event.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
from typing import TYPE_CHECKING, Any, TypeVar

from nri import files, trust
from nri.errors import NRIError, escape, reason_of
from nri.files import identity

if TYPE_CHECKING:
    from collections.abc import Callable

    Made = TypeVar("Made")

MAX_FILE = 64 * 1024 * 1024
"""Bytes of a file."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_NAME = re.compile(rf"({_ID.pattern})\.json")
_DAMAGED = (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError, NRIError)

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
        self._identity: object = None  # of the directory

    def load(self, directory: str, make: Callable[[str, Any], Made]) -> dict[str, Made]:
        """Use this directory from now on; return what is in it, by id.

        :param make: makes an item of an id and a value that is not trusted; it may raise what a damaged value raises.
        """
        self.directory, self._names = directory, set()
        try:
            trust.make_private(directory)
            names = [match for name in sorted(os.listdir(directory)) if (match := _NAME.fullmatch(name))]
        except (OSError, NRIError) as error:
            self._failed(error)
            return {}
        self.fault = ""
        self._identity = identity(directory)[:2]
        self._names = {match[0] for match in names}
        made = {id_: self.read(id_, make) for id_ in dict.fromkeys(match[1] for match in names)}
        return {id_: item for id_, item in made.items() if item is not None}

    def read(self, id_: str, make: Callable[[str, Any], Made]) -> Made | None:
        """Return what is on record for an id; None if it has no file that can be used."""
        if not self.directory or not _ID.fullmatch(id_):
            return None
        with contextlib.suppress(*_DAMAGED):
            return make(id_, json.loads(files.read_regular(self._path(f"{id_}.json"), MAX_FILE)[0]))
        return None

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

    def put(self, id_: str, value: object) -> None:
        """Have the file of an id hold this value; None for no file. Ids that are no names have none."""
        if self.directory and _ID.fullmatch(id_):
            try:
                self._write(id_, value)
                self.unwritten.discard(id_)
            except (OSError, NRIError) as error:
                self.unwritten.add(id_)
                self._failed(error)
            else:
                self.fault = "" if not self.unwritten else self.fault

    def _write(self, id_: str, value: object) -> None:
        if self.fault:
            trust.make_private(self.directory)
        name = f"{id_}.json"
        if value is not None:
            data = json.dumps(value).encode()
            try:
                files.replace(self._path(name), data)
            except FileNotFoundError:  # the directory was removed
                trust.make_private(self.directory)
                files.replace(self._path(name), data)
            self._names.add(name)
        elif name in self._names:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(name))
            self._names.discard(name)

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def _failed(self, error: Exception) -> None:
        """Log a fault, once until it changes or is over."""
        fault = f"the record {self.directory} cannot be used: {escape(reason_of(error))}"
        if fault != self.fault:
            self.fault = fault
            log.warning("%s; what containers have had is known only until the bridge ends", fault)
