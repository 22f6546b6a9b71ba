"""The record of a container that ``nri-runc`` makes: its spec after ``setup``, until its ``delete``.

The bundle does not have that spec: its config.json is put back when the real runtime has read it, and may be edited
while the container lives. The file has the suffix ``.creating`` until the plugins have ended ``create``; until then
``start`` is refused, since a killed ``nri-runc`` may leave a container that its plugins have not run for. Such a file
stays until a container of that id is made with its plugins, or deleted.

Each ``start`` looks for the file, so this module imports little before it reads or writes one.
"""

from __future__ import annotations

import os
from binascii import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.types.v1 import Spec

_MAX = 16 * 1024 * 1024


class Made:
    """The record of one container.

    :param root: the directory in which the real runtime keeps its containers.
    """

    def __init__(self, record_dir: str, root: str, id_: str) -> None:
        self._directory, self._id = f"{record_dir}/.runc", id_
        self._name = f"{self._directory}/{crc32(os.fsencode(root)):08x}.{id_}"
        self._unfinished, self._path = f"{self._name}.creating", f"{self._name}.json"
        self._left = b""  # the unfinished record of a call that was killed
        self._is_begun = False

    @property
    def is_unfinished(self) -> bool:
        """True from the beginning of ``create`` until its plugins have ended."""
        return os.path.lexists(self._unfinished)

    @property
    def is_kept(self) -> bool:
        """True if there is a record for the id; its container may be gone."""
        return self.is_unfinished or os.path.lexists(self._path)

    @property
    def is_left(self) -> bool:
        """True if a killed call has left an unfinished record; the container may exist."""
        return bool(self._left)

    def claim(self, config: str) -> None:
        """Keep other calls from making a container of that id or bundle, until this process ends.

        :param config: the path of the bundle's configuration.
        :raises NRIError: if another call does so.
        """
        import fcntl

        from nri import files, trust
        from nri.errors import NRIError, escape

        try:
            trust.make_private(self._directory)
            # Never closed: that would give up the locks.
            lock = os.open(f"{self._directory}/lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except (OSError, NRIError):
            return  # no record can be written, either
        real = os.path.realpath(config)
        for what, offset in (
            (f"the id {escape(self._id)}", crc32(os.fsencode(self._name))),
            (escape(config), crc32(os.fsencode(real)) + (1 << 32)),
        ):
            try:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
            except (BlockingIOError, PermissionError):
                raise NRIError(
                    f"{what}: another nri-runc makes or runs a container of it, expected one at a time"
                ) from None
            except OSError:
                pass  # a file system without locks
        if self.is_unfinished:
            try:
                self._left = files.read_regular(self._unfinished, _MAX)[0]
            except OSError:
                pass

    def begin(self, spec: Spec, bundle: str) -> bool:
        """Write the unfinished record; return False if it cannot be written."""
        self._is_begun = self._write(self._unfinished, spec, bundle)
        if not self._is_begun:
            _remove(self._path)  # of an earlier container
        return self._is_begun

    def finish(self) -> None:
        """Finish the record: the plugins have ended ``create``.

        :raises OSError: if it cannot be renamed; then the container cannot be started.
        """
        if self._is_begun:
            os.rename(self._unfinished, self._path)
        else:
            self.remove()

    def update(self, spec: Spec, bundle: str) -> bool:
        """Replace the spec, if there is a record; return False if it cannot be written."""
        return not self.is_kept or self._write(self._current, spec, bundle)

    def spec(self, bundle: str) -> Spec | None:
        """Return the spec; None without a record, or if the record is of another bundle."""
        if not self.is_kept:
            return None
        from nri import files
        from nri.errors import NRIError
        from nri.types import gojson
        from nri.types.v1 import Spec

        try:
            value = gojson.loads(files.read_regular(self._current, _MAX)[0])
            if not isinstance(value, dict) or not isinstance(known := value.get("bundle"), list):
                return None
            if not any(name in known for name in _names(bundle)):
                return None
            return Spec.from_value(value.get("spec"), "spec")
        except (OSError, NRIError):  # it cannot be read, or is damaged
            return None

    def abandon(self) -> None:
        """Undo ``begin``: this call has made no container. The record of a killed call is restored."""
        if not (self._left and self._put(self._unfinished, self._left)):
            _remove(self._unfinished)

    def remove(self) -> None:
        """Remove the record."""
        _remove(self._unfinished)
        _remove(self._path)

    @property
    def _current(self) -> str:
        return self._unfinished if self.is_unfinished else self._path

    def _write(self, path: str, spec: Spec, bundle: str) -> bool:
        from nri.types import gojson

        return self._put(path, gojson.dumps({"bundle": _names(bundle), "spec": spec.to_value()}))

    def _put(self, path: str, document: bytes) -> bool:
        from nri import files, trust
        from nri.errors import NRIError

        try:
            trust.make_private(self._directory)
            files.replace(path, document)
        except (OSError, NRIError):
            return False
        return True


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:  # nearly always: it is not there
        pass


def _names(bundle: str) -> list[str]:
    """Return a bundle's path as it is given, and without links, which may be gone at the end."""
    return [os.fsencode(name(bundle)).decode("latin-1") for name in (os.path.abspath, os.path.realpath)]
