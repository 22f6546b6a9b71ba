"""Why an executable cannot be started."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from nri.process.unstartable import WINDOWS, explain, has_windows_ends

if TYPE_CHECKING:
    from pathlib import Path


def explained(path: Path, number: int) -> str:
    return explain(str(path), OSError(number, os.strerror(number)))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("#!/nowhere/python3 -I\n", "its interpreter '/nowhere/python3' does not exist"),
        ("#! \t/nowhere/sh\n", "its interpreter '/nowhere/sh' does not exist"),
        ("#!/bin/sh\r\n", f"its interpreter '/bin/sh\\r' does not exist; {WINDOWS}"),
        ("\x7fELF", "No such file or directory: where the file exists, the loader that it names does not"),
        ("", "No such file or directory: where the file exists, the loader that it names does not"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "plugin"
    path.write_text(text, newline="")
    assert explained(path, errno.ENOENT) == f"cannot be started: {path}: {why}"


def test_a_file_that_is_no_program_is_told(tmp_path: Path) -> None:
    expected = "expected a program for this machine, or a script with an interpreter in its first line"
    assert explained(tmp_path, errno.ENOEXEC) == f"cannot be started: {tmp_path}: Exec format error; {expected}"


def test_any_other_error_is_the_systems(tmp_path: Path) -> None:
    assert explained(tmp_path, errno.ENOMEM) == f"cannot be started: {tmp_path}: Cannot allocate memory"


@pytest.mark.parametrize(
    ("text", "expected"), [("#!/bin/sh\r\n", True), ("#!/bin/sh\n", False), ("a\r\n", False), ("", False)]
)
def test_windows_line_ends_are_those_of_a_scripts_first_line(tmp_path: Path, text: str, expected: bool) -> None:
    path = tmp_path / "plugin"
    path.write_text(text, newline="")
    assert has_windows_ends(str(path)) is expected


def test_a_file_that_is_gone_has_no_line_ends(tmp_path: Path) -> None:
    assert not has_windows_ends(str(tmp_path / "nothing"))
