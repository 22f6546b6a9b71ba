"""The record of a container that ``nri-runc`` makes: its facts, and its spec after ``setup``, until its ``delete``.

The bundle does not have that spec: its config.json is put back when the real runtime has read it, and may be edited
while the container lives. The file has the suffix ``.creating`` until the plugins have ended ``create``; until then
``start`` is refused, since a killed ``nri-runc`` may leave a container that its plugins have not run for. Such a file
stays until a container of that id is made with its plugins, or deleted.

Each ``start`` looks for the file, so this module imports little before it reads or writes one.
"""

from __future__ import annotations

import os
from binascii import crc32

from nri.places import in_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.node.record import Facts
    from nri.types.v1 import Spec


class Made:
    """The record of one container.

    :param root: the directory in which the real runtime keeps its containers.
    :ivar path: the file of a container whose plugins have ended ``create``.
    :ivar unfinished: the file until then.
    """

    def __init__(self, record_dir: str, root: str, id_: str) -> None:
        self._directory = record_dir
        self._root = root
        self._id = id_
        stem = in_record(f"runc.{_number(root)}", id_)
        self.path = f"{record_dir}/{stem}.json"
        self.unfinished = f"{record_dir}/{stem}.creating"
        self._left = b""  # the unfinished record of a call that was killed
        self._is_begun = False

    @property
    def is_unfinished(self) -> bool:
        """True from the beginning of ``create`` until its plugins have ended."""
        return os.path.lexists(self.unfinished)

    @property
    def is_finished(self) -> bool:
        """True if the plugins have ended ``create``; the container may be gone."""
        return os.path.lexists(self.path) and not self.is_unfinished

    @property
    def is_kept(self) -> bool:
        """True if there is a record for the id; its container may be gone."""
        return os.path.lexists(self.current)

    @property
    def is_left(self) -> bool:
        """True if a killed call has left an unfinished record; the container may exist."""
        return bool(self._left)

    @property
    def current(self) -> str:
        """The path of the file."""
        return self.unfinished if self.is_unfinished else self.path

    def claim(self, config: str) -> None:
        """Keep other calls from making a container of that id or bundle, until this process ends.

        :param config: the path of the bundle's configuration.
        :raises NRIError: if another call does so.
        """
        from nri import files
        from nri.errors import NRIError, escape
        from nri.node.record import MAX_FILE, claim

        names = {f"the id {escape(self._id)}": self.path, escape(config): os.path.realpath(config)}
        for shown, name in names.items():
            if not claim(self._directory, name):
                wrong = "another nri-runc makes or runs a container of it, expected one at a time"
                raise NRIError(f"{shown}: {wrong}")
        try:
            self._left = files.read_regular(self.unfinished, MAX_FILE)[0]
        except OSError:
            pass  # nearly always: it is not there

    def facts(self, bundle: str) -> Facts:
        """Return what is known of the container; nothing if the record is of another bundle."""
        from nri.node.record import Facts, read_facts

        found, _ = read_facts(self.current)
        facts = found or Facts()
        if facts.made is None or set(_names(bundle)).intersection(facts.made["bundle"]):
            return facts
        return Facts()

    def begin(self, facts: Facts, spec: Spec, bundle: str) -> bool:
        """Write the unfinished record; return False if it cannot be written."""
        self._is_begun = self.write(self.unfinished, facts, spec, bundle)
        if not self._is_begun:
            _remove(self.path)  # of an earlier container
        return self._is_begun

    def finish(self) -> None:
        """Finish the record: the plugins have ended ``create``.

        :raises OSError: if it cannot be renamed; then the container cannot be started.
        """
        if self._is_begun:
            os.rename(self.unfinished, self.path)
        else:
            self.remove()

    def write(self, path: str, facts: Facts, spec: Spec, bundle: str) -> bool:
        """Write facts, and what the container is made with; return False if they cannot be written."""
        from nri.errors import NRIError
        from nri.node.record import write_facts

        facts.made = {"bundle": _names(bundle), "spec": spec.to_value()}
        try:
            write_facts(path, facts)
        except (OSError, NRIError):
            return False
        return True

    def abandon(self) -> None:
        """Undo ``begin``: this call has made no container. The record of a killed call is restored."""
        from nri.errors import NRIError
        from nri.node.record import write_file

        if self._left:
            try:
                write_file(self.unfinished, self._left)
                return
            except (OSError, NRIError):
                pass
        _remove(self.unfinished)

    def remove(self) -> None:
        """Remove the record."""
        _remove(self.unfinished)
        _remove(self.path)

    def others(self) -> list[str]:
        """Return the ids whose finished records are of containers that the root does not have any more.

        A killed ``delete`` leaves them.
        """
        if not os.path.isdir(self._root):
            return []
        begin = f".runc.{_number(self._root)}."
        end = ".json"
        ids = []
        for name in os.listdir(self._directory):
            id_ = name[len(begin) : -len(end)]
            if name.startswith(begin) and name.endswith(end) and "~" not in id_:
                ids.append(id_)
        return [id_ for id_ in ids if not os.path.lexists(os.path.join(self._root, id_))]


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:  # nearly always: it is not there
        pass


def _number(root: str) -> str:
    return f"{crc32(os.fsencode(root)):08x}"


def _names(bundle: str) -> list[str]:
    """Return a bundle's path as it is given, and without links, which may be gone at the end."""
    return [_latin(os.path.abspath(bundle)), _latin(os.path.realpath(bundle))]


def _latin(path: str) -> str:
    """Return a path of any bytes as a text of JSON."""
    return os.fsencode(path).decode("latin-1")
