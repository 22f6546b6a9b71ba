"""The config.json of a bundle, which is replaced in one step, or not at all.

The new file is written beside the old one, with its owner and mode, and takes its name by a rename: the real runtime
reads the one or the other. A file that another program has changed since it was read is left alone. The content is
not synced: a bundle does not outlive the machine's containers.
"""

from __future__ import annotations

import os

from nri import files, trust
from nri.client.oci import MAX_CONFIG, parse_config
from nri.errors import NRIError, escape
from nri.types import DecodeError, gojson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ConfigFile:
    """The file at *path*, as it was read when this was made.

    :ivar config: the OCI configuration in it.
    :raises DecodeError: if it cannot be read, or is no OCI configuration.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._where = escape(path)
        try:
            self._document, self._status = self._read()
            self.config: dict[str, Any] = parse_config(self._document)
        except DecodeError as error:
            raise DecodeError(f"{self._where}: {error}") from error
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            raise DecodeError(
                f"{self._where}: cannot be read: {getattr(error, 'strerror', None) or error}"
            ) from error
        self._original: bytes | None = None

    def write(self, config: dict[str, Any]) -> None:
        """Replace the file by one with this configuration; do nothing if it is the same.

        :raises NRIError: if that cannot be done; then the file is as it was.
        """
        if config != self.config:
            original = self._document if self._original is None else self._original
            self._replace(gojson.dumps(config))
            self.config, self._original = config, original

    def put_back(self) -> None:
        """Replace the file by one with the content that was read at first.

        :raises NRIError: if that cannot be done, or another program has changed the file.
        """
        if self._original is not None:
            self._replace(self._original)
            self._original = None

    def _replace(self, document: bytes) -> None:
        try:
            os.close(files.replace(self._end_of_links(), document, self._finish))
        except OSError as error:
            raise NRIError(f"{self._where}: cannot be replaced: {error.strerror}") from error
        self._document = document

    def _end_of_links(self) -> str:
        """Return the path of the file itself, which must be safe to replace if a link leads to it."""
        if not os.path.islink(self.path):
            return self.path
        end = trust.follow(self.path)[0]
        if wrong := trust.judge_path(self.path, os.stat(end)):
            raise NRIError(f"{self._where}: is a link and not replaced: {escape(wrong)}")
        return end

    def _finish(self, fd: int) -> None:
        """Give the new file the owner and mode of the old one, if that is the one which was read."""
        os.fchown(fd, self._status.st_uid, self._status.st_gid)
        os.fchmod(fd, self._status.st_mode & 0o7777)
        if self._read()[0] != self._document:
            raise NRIError(
                f"{self._where}: another program has changed it meanwhile, expected the file as it was read"
            )

    def _read(self) -> tuple[bytes, os.stat_result]:
        return files.read_regular(self.path, MAX_CONFIG)
