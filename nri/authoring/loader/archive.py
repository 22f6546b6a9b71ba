"""Takes the place of ``pyimod01_archive``: the reader of the archive with the modules of an executable.

It does what PyInstaller's reader does with fewer calls: the table of contents is decoded from one piece of memory,
and a module is read without a file object. It needs no ``struct``, a library that would be loaded for it.

The format: ``PYZ``, a zero byte, the magic number of the interpreter's bytecode (4 bytes), the offset of the table of
contents (4 bytes, big endian), the modules, and the table, a marshalled list of names with (kind, offset, length).
Each module is marshalled code, compressed by zlib. All of it is trusted: it is a part of the running executable.
"""

import marshal
import os
import zlib
from _frozen_importlib_external import MAGIC_NUMBER

PYZ_ITEM_MODULE = 0
PYZ_ITEM_PKG = 1
PYZ_ITEM_DATA = 2
PYZ_ITEM_NSPKG = 3

_HEADER = 12
_MAGIC = b"PYZ\0"


class ArchiveReadError(RuntimeError):
    """The archive is not one of this interpreter."""


class ZlibArchiveReader:
    """The archive in a file.

    :param filename: the file's path, or ``PATH?OFFSET`` if the archive begins within it.
    :raises ArchiveReadError: if there is no archive.
    """

    def __init__(self, filename: str, start_offset: int | None = None, check_pymagic: bool = False) -> None:
        if start_offset is None:
            path, _, digits = filename.rpartition("?")
            filename, start_offset = (path, int(digits)) if path and digits.isdecimal() else (filename, 0)
        self._filename, self._start_offset = filename, start_offset
        fd = os.open(filename, os.O_RDONLY | os.O_CLOEXEC)
        try:
            header = os.pread(fd, _HEADER, start_offset)
            if header[:4] != _MAGIC:
                raise ArchiveReadError("found no archive of modules")
            if check_pymagic and header[4:8] != MAGIC_NUMBER:
                raise ArchiveReadError("found an archive of another Python version")
            table = start_offset + int.from_bytes(header[8:], "big")
            self.toc = dict(marshal.loads(os.pread(fd, os.fstat(fd).st_size - table, table)))  # noqa: S302
        finally:
            os.close(fd)

    def extract(self, name: str, raw: bool = False) -> object:
        """Return the code of a module, or with ``raw`` its marshalled form; None for a namespace.

        :raises KeyError: if there is none of that name.
        """
        kind, offset, length = self.toc[name]
        if kind == PYZ_ITEM_NSPKG:
            return None
        try:
            fd = os.open(self._filename, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise SystemExit(f"{self._filename} was moved or removed while it runs: expected it to stay") from None
        try:
            data = os.pread(fd, length, self._start_offset + offset)
        finally:
            os.close(fd)
        try:
            data = zlib.decompress(data)
            return data if raw else marshal.loads(data)  # noqa: S302
        except (EOFError, zlib.error) as error:
            raise ImportError(f"the module {name!r} in {self._filename} is damaged: {error}", name=name) from error
