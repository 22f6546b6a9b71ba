"""What a container was made with: its spec after ``setup``, kept in the hosts' record until its ``delete``.

The bundle does not say it: its config.json is put back when the real runtime has read it, and may be edited while the
container lives. Until the plugins have done ``create`` the file has another name, and ``start`` is refused: if
``nri-runc`` is killed meanwhile, the real runtime may have made a container that has not had its plugins.

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
        self._directory = f"{record_dir}/.runc"
        path = f"{self._directory}/{crc32(os.fsencode(root)):08x}.{id_}"
        self._unfinished, self._path = f"{path}.creating", f"{path}.json"

    @property
    def is_unfinished(self) -> bool:
        """Whether ``create`` has begun, and its plugins have not ended."""
        return os.path.lexists(self._unfinished)

    @property
    def is_finished(self) -> bool:
        """Whether a container of that id has had its plugins; it may be gone."""
        return os.path.lexists(self._path)

    def begin(self, spec: Spec, bundle: str) -> bool:
        """Keep the spec of a container that will be made; return whether that can be done."""
        is_kept = self._write(self._unfinished, spec, bundle)
        if not is_kept:
            self.remove()  # what is there is of an earlier container
        return is_kept

    def finish(self) -> None:
        """Take note that the container has had its plugins.

        :raises OSError: if that cannot be done; then it cannot be started.
        """
        if self.is_unfinished:
            os.rename(self._unfinished, self._path)

    def update(self, spec: Spec, bundle: str) -> None:
        """Keep another spec, if one is kept."""
        if self.is_finished:
            self._write(self._path, spec, bundle)

    def spec(self, bundle: str) -> Spec | None:
        """Return the spec; None if none is kept, or the container of that id has another bundle."""
        path = self._unfinished if self.is_unfinished else self._path
        if not os.path.lexists(path):
            return None
        from nri import files
        from nri.errors import NRIError
        from nri.types import gojson
        from nri.types.v1 import Spec

        try:
            value = gojson.loads(files.read_regular(path, _MAX)[0])
            if not isinstance(value, dict) or value.get("bundle") != _named(bundle):
                return None
            return Spec.from_value(value.get("spec"), "spec")
        except (OSError, NRIError):  # it cannot be read, or is damaged
            return None

    def abandon(self) -> None:
        """Take ``begin`` back: no container was made."""
        _remove(self._unfinished)

    def remove(self) -> None:
        """Keep nothing of the container."""
        _remove(self._unfinished)
        _remove(self._path)

    def _write(self, path: str, spec: Spec, bundle: str) -> bool:
        from nri import files, trust
        from nri.errors import NRIError
        from nri.types import gojson

        document = gojson.dumps({"bundle": _named(bundle), "spec": spec.to_value()})
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


def _named(bundle: str) -> str:
    return os.fsencode(os.path.realpath(bundle)).decode("latin-1")
