"""The files of CDI specifications: ``*.json`` and ``*.yaml`` in some directories.

What a specification says is done as root on the node (hooks, device nodes, mounts), so a file is read only if root
and our own user alone can change it. A file that cannot be used is no error here: it breaks only its own devices.
"""

from __future__ import annotations

import os
import stat

from nri import filekind, trust
from nri.adjust.cdi_document import read_specification
from nri.errors import escape
from nri.types import DecodeError, gojson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

MAX_SIZE = 4 * 1024 * 1024
"""Bytes of a file at most; a real one has some ten thousands."""

SUFFIXES = (".json", ".yaml")


class Specification:
    """A CDI specification: the devices of one kind, in one file.

    :ivar path: the file.
    :ivar kind: ``VENDOR/CLASS``.
    :ivar edits: ``containerEdits`` that go with each of the devices.
    :ivar devices: ``containerEdits`` of each device, by its name.
    """

    __slots__ = ("devices", "edits", "kind", "path")

    def __init__(self, path: str, document: dict[str, Any]) -> None:
        self.path, self.kind = path, str(document["kind"])
        self.edits: dict[str, Any] = document.get("containerEdits", {})
        self.devices: dict[str, dict[str, Any]] = {
            device["name"]: device["containerEdits"] for device in document["devices"]
        }


class Directories:
    """The specifications of some directories, and what cannot be used there.

    :ivar specifications: those of each directory, in the order of the directories and of the names of the files.
    :ivar broken: the reason for each file or directory that cannot be used; it begins with the path.
    """

    def __init__(self, directories: Sequence[str], *, check_owner: bool) -> None:
        self.specifications: list[list[Specification]] = []
        self.broken: list[str] = []
        for directory in directories:
            found = []
            for path in self._files(directory):
                try:
                    found.append(Specification(path, read_specification(_read(path, check_owner=check_owner))))
                except (OSError, DecodeError) as error:
                    if os.path.lexists(path):  # it was not removed after the directory was listed
                        self.broken.append(_broken(path, error))
            self.specifications.append(found)

    def _files(self, directory: str) -> list[str]:
        try:
            names = [name for name in os.listdir(directory) if name.endswith(SUFFIXES)]
        except FileNotFoundError:
            return []
        except OSError as error:
            self.broken.append(_broken(directory, error))
            return []
        paths = [os.path.join(directory, name) for name in sorted(names, key=os.fsencode)]
        return [path for path in paths if not os.path.isdir(path)]


def _broken(path: str, error: OSError | DecodeError) -> str:
    reason = f"cannot be read: {error.strerror or error}" if isinstance(error, OSError) else str(error)
    return escape(reason if reason.startswith(path) else f"{path}: {reason}")


def _read(path: str, *, check_owner: bool) -> object:
    """Return the value of a file."""
    _require_regular(os.stat(path))  # before opening: a FIFO would block, a device might do something
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY), "rb") as file:
        status = os.fstat(file.fileno())
        _require_regular(status)
        if check_owner and (wrong := trust.judge_path(path, status)):
            raise DecodeError(wrong)
        document = file.read(MAX_SIZE + 1)
    if len(document) > MAX_SIZE:
        raise DecodeError(f"found more than {MAX_SIZE} bytes, expected at most that many")
    if path.endswith(".json"):
        return gojson.loads(document, pairs_hook=_object)
    from nri.adjust.cdi_yaml import loads

    return loads(document)


def _require_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise DecodeError(f"is {filekind.describe(status.st_mode)}, expected a regular file")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        again = next(name for index, name in enumerate(names) if name in names[:index])
        raise DecodeError(f"found the key {gojson.shorten(repr(again))} again, expected it once")
    return found
