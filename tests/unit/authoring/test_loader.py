"""The reader of an executable's modules: archives of any compression, within a file or alone, and damaged ones."""

from __future__ import annotations

import marshal
import zlib
from importlib.util import MAGIC_NUMBER
from typing import TYPE_CHECKING

import pytest

from nri.authoring.loader import archive, no_ctypes

if TYPE_CHECKING:
    from pathlib import Path

SOURCES = {"a": "x = 1", "a.b": "x = 'ü' * 100000", "c": ""}


CODE = {name: marshal.dumps(compile(source, name, "exec")) for name, source in SOURCES.items()}


def packed(level: int, *, magic: bytes = MAGIC_NUMBER) -> bytes:
    """An archive as PyInstaller writes it: the modules, a namespace, and their table."""
    data, table = b"PYZ\0" + magic + bytes(4), [("space", (archive.PYZ_ITEM_NSPKG, 0, 0))]
    for name in SOURCES:
        module = zlib.compress(CODE[name], level)
        table.append((name, (archive.PYZ_ITEM_MODULE, len(data), len(module))))
        data += module
    return data[:8] + len(data).to_bytes(4, "big") + data[12:] + marshal.dumps(table)


@pytest.mark.parametrize("level", [0, 1, 9])
@pytest.mark.parametrize(("before", "after"), [(b"", b""), (b"\x7fELF" * 100, b"the rest of an executable")])
def test_the_modules_are_read(tmp_path: Path, level: int, before: bytes, after: bytes) -> None:
    path = tmp_path / "what?"
    path.write_bytes(before + packed(level) + after)
    where = f"{path}?{len(before)}" if before else str(path)
    reader = archive.ZlibArchiveReader(where, 0 if not before else None, check_pymagic=True)
    assert set(reader.toc) == {*SOURCES, "space"}
    for name in SOURCES:
        assert reader.extract(name) == marshal.loads(CODE[name])
        assert reader.extract(name, raw=True) == CODE[name]
    assert reader.extract("space") is None
    with pytest.raises(KeyError):
        reader.extract("missing")


def test_an_archive_of_another_python_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    path.write_bytes(packed(0, magic=b"\0\0\r\n"))
    archive.ZlibArchiveReader(str(path))
    with pytest.raises(archive.ArchiveReadError, match="another Python version"):
        archive.ZlibArchiveReader(str(path), check_pymagic=True)


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    path.write_bytes(b"#!/bin/sh\n")
    with pytest.raises(archive.ArchiveReadError, match="no archive"):
        archive.ZlibArchiveReader(str(path))


def test_a_damaged_module_is_an_import_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    path.write_bytes(packed(0))
    reader = archive.ZlibArchiveReader(str(path))
    data = bytearray(packed(0))
    data[reader.toc["c"][1] + 10] ^= 255
    path.write_bytes(data)
    with pytest.raises(ImportError, match=r"the module 'c' in .* is damaged"):
        reader.extract("c")


def test_an_executable_that_is_gone_ends_the_process_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    path.write_bytes(packed(0))
    reader = archive.ZlibArchiveReader(str(path))
    path.unlink()
    with pytest.raises(SystemExit, match="was moved or removed while it runs"):
        reader.extract("a")


def test_ctypes_is_left_alone() -> None:
    no_ctypes.install()
    import ctypes

    assert ctypes.CDLL.__module__ == "ctypes"
