"""Replacement of a small file as a whole."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from nri.small_file import replace_file

if TYPE_CHECKING:
    from pathlib import Path


def test_a_write_that_takes_only_some_bytes_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr("nri.small_file.os.write", lambda fd, data: write(fd, data[:3]))

    replace_file(str(tmp_path / "file"), b"0123456789", part=str(tmp_path / "part"), mode=0o600)

    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"0123456789")]


def test_what_cannot_be_removed_in_the_place_of_the_part_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"before")
    (tmp_path / "part").mkdir()

    with pytest.raises(OSError, match=str(tmp_path / "part")):
        replace_file(str(tmp_path / "file"), b"after", part=str(tmp_path / "part"), mode=0o600)

    assert (tmp_path / "file").read_bytes() == b"before"
    assert (tmp_path / "part").is_dir()
