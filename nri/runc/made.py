"""What a container was made with: its spec after ``setup``, kept in the hosts' record until its ``delete``.

The bundle does not say it: its config.json is put back when the real runtime has read it, and may be edited while the
container lives. Until the plugins have done ``create`` the file has another name, and ``start`` is refused: if
``nri-runc`` is killed meanwhile, the real runtime may have made a container that has not had its plugins. Such a file
stays until a container of that id is made with its plugins, or deleted.

Each ``start`` looks here, so this imports next to nothing before there is something to read or write.
"""

from __future__ import annotations

import os
from binascii import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.types.v1 import Spec

_MAX = 16 * 1024 * 1024


class Made:
    """The file of one container.

    :param root: the directory in which the real runtime keeps its containers.
    """

    def __init__(self, record_dir: str, root: str, id_: str) -> None:
        self._directory, self._id = f"{record_dir}/.runc", id_
        self._name = f"{self._directory}/{crc32(os.fsencode(root)):08x}.{id_}"
        self._unfinished, self._path = f"{self._name}.creating", f"{self._name}.json"
        self._left = b""  # what a call that was killed has written
        self._is_begun = False

    @property
    def is_unfinished(self) -> bool:
        """Whether ``create`` has begun, and its plugins have not ended."""
        return os.path.lexists(self._unfinished)

    @property
    def is_kept(self) -> bool:
        """Whether something is kept of a container of that id, which may be gone."""
        return self.is_unfinished or os.path.lexists(self._path)

    @property
    def is_left(self) -> bool:
        """Whether a call was killed that made a container of that id, which may be there."""
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
            return  # nothing can be kept, either
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
        """Keep the spec of a container that will be made; return whether that can be done."""
        self._is_begun = self._write(self._unfinished, spec, bundle)
        if not self._is_begun:
            _remove(self._path)  # of an earlier container
        return self._is_begun

    def finish(self) -> None:
        """Take note that the container has had its plugins.

        :raises OSError: if that cannot be done; then it cannot be started.
        """
        if self._is_begun:
            os.rename(self._unfinished, self._path)
        else:
            self.remove()

    def update(self, spec: Spec, bundle: str) -> bool:
        """Keep another spec, if one is kept; return whether that can be done."""
        return not self.is_kept or self._write(self._current, spec, bundle)

    def spec(self, bundle: str) -> Spec | None:
        """Return the spec; None if none is kept, or the container of that id has another bundle."""
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
        """Take ``begin`` back: this call has made no container; what another one has left stays."""
        if not (self._left and self._put(self._unfinished, self._left)):
            _remove(self._unfinished)

    def remove(self) -> None:
        """Keep nothing of the container."""
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
