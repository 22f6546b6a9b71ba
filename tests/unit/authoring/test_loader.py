"""The reader of an executable's modules: archives of any compression, within a file or alone, and damaged ones."""

import marshal
import zlib
from importlib.util import MAGIC_NUMBER
from pathlib import Path

import pytest

from nri.authoring.loader import archive, no_ctypes

SOURCES = {"a": "x = 1", "a.b": "x = 'ü' * 100000", "c": ""}
CODE = {name: marshal.dumps(compile(source, name, "exec")) for name, source in SOURCES.items()}


def packed(level: int = 0, *, magic: bytes = MAGIC_NUMBER) -> bytes:
    """An archive as PyInstaller writes it: the modules, a namespace, and their table."""
    data, table = b"PYZ\0" + magic + bytes(4), [("space", (archive.PYZ_ITEM_NSPKG, 0, 0))]
    for name in SOURCES:
        module = zlib.compress(CODE[name], level)
        table.append((name, (archive.PYZ_ITEM_MODULE, len(data), len(module))))
        data += module
    return data[:8] + len(data).to_bytes(4, "big") + data[12:] + marshal.dumps(table)


@pytest.mark.parametrize(
    ("level", "before", "after", "start"),
    [(0, b"", b"", 0), (9, b"\x7fELF" * 100, b"the rest of an executable", None)],
    ids=["alone", "in an executable"],
)
def test_modules_are_read(tmp_path: Path, level: int, before: bytes, after: bytes, start: int | None) -> None:
    path = tmp_path / "what?"
    path.write_bytes(before + packed(level) + after)
    reader = archive.ZlibArchiveReader(f"{path}?{len(before)}" if before else str(path), start, check_pymagic=True)
    assert set(reader.toc) == {*SOURCES, "space"}
    for name in SOURCES:
        assert reader.extract(name) == marshal.loads(CODE[name])
        assert reader.extract(name, raw=True) == CODE[name]
    assert reader.extract("space") is None
    with pytest.raises(KeyError):
        reader.extract("missing")


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    path.write_bytes(packed(magic=b"\0\0\r\n"))
    archive.ZlibArchiveReader(str(path))
    with pytest.raises(archive.ArchiveReadError, match="another Python version"):
        archive.ZlibArchiveReader(str(path), check_pymagic=True)
    path.write_bytes(b"#!/bin/sh\n")
    with pytest.raises(archive.ArchiveReadError, match="no archive"):
        archive.ZlibArchiveReader(str(path))


def test_damaged_module_and_removed_executable_are_named(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    path.write_bytes(packed())
    reader = archive.ZlibArchiveReader(str(path))
    data = bytearray(packed())
    data[reader.toc["c"][1] + 10] ^= 255
    path.write_bytes(data)
    with pytest.raises(ImportError, match=r"the module 'c' in .* is damaged"):
        reader.extract("c")
    path.unlink()
    with pytest.raises(SystemExit, match="was moved or removed while it runs"):
        reader.extract("a")


def test_ctypes_is_left_alone() -> None:
    no_ctypes.install()
    import ctypes

    assert ctypes.CDLL.__module__ == "ctypes"
