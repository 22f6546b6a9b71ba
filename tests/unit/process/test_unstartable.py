"""Why an executable cannot be started."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from nri.client.unstartable import WINDOWS, explain, has_windows_ends

if TYPE_CHECKING:
    from pathlib import Path


def explained(path: Path, number: int) -> str:
    return explain(str(path), OSError(number, os.strerror(number)))


@pytest.mark.parametrize(
    ("text", "why", "has_ends"),
    [
        ("#! \t/nowhere/sh\t-I\n", "its interpreter '/nowhere/sh' does not exist", False),
        ("#!/bin/sh\r\n", f"its interpreter '/bin/sh\\r' does not exist; {WINDOWS}", True),
        ("\x7fELF\r\n", "No such file or directory: where the file exists, the loader that it names does not", False),
        ("", "No such file or directory: where the file exists, the loader that it names does not", False),
    ],
)
def test_missing_interpreter_or_loader_is_named(tmp_path: Path, text: str, why: str, has_ends: bool) -> None:
    path = tmp_path / "plugin"
    path.write_text(text, newline="")
    assert explained(path, errno.ENOENT) == f"cannot be started: {path}: {why}"
    assert has_windows_ends(str(path)) is has_ends


def test_other_errors_are_the_systems(tmp_path: Path) -> None:
    expected = "expected a program for this machine, or a script with an interpreter in its first line"
    assert explained(tmp_path, errno.ENOEXEC) == f"cannot be started: {tmp_path}: Exec format error; {expected}"
    assert explained(tmp_path, errno.ENOMEM) == f"cannot be started: {tmp_path}: Cannot allocate memory"


def test_missing_file_has_no_line_ends(tmp_path: Path) -> None:
    assert not has_windows_ends(str(tmp_path / "nothing"))
