"""``tools/needed-libc``: on which distributions the binaries run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.installing import ROOT

TOOL = ROOT / "tools/needed-libc"
FAKE_OBJDUMP = """#!/bin/sh
cat <<'END'
Dynamic Section:
  NEEDED               {library}
  SONAME               libown.so.1

Version definitions:
1 0x01 0x0f GLIBC_9.99

Version References:
  required from libm.so.6:
    0x069691b5 0x00 16 GLIBC_2.9
  required from libc.so.6:
    0x069691b5 0x00 16 {version}
    0x09691a75 0x00 05 GLIBC_2.2.5
END
"""


def said(
    folder: Path, *words: str, version: str = "", library: str = "libc.so.6", path: str = os.environ["PATH"]
) -> subprocess.CompletedProcess[str]:
    """Run the tool; with a version, on binaries that import it by what objdump prints."""
    if version:
        (folder / "tools").mkdir(exist_ok=True)
        (folder / "tools/objdump").write_text(FAKE_OBJDUMP.format(version=version, library=library))
        (folder / "tools/objdump").chmod(0o755)
        path = f"{folder}/tools{os.pathsep}{path}"
    command: list[str | Path] = [sys.executable, TOOL, *words, folder / "dist"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": path})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "dist/_internal").mkdir(parents=True)
    (tmp_path / "dist/nri").write_bytes(b"\x7fELF")
    (tmp_path / "dist/_internal/libown.so.1").write_bytes(b"\x7fELF")
    (tmp_path / "dist/_internal/data.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize(
    ("version", "runs", "does_not"),
    [
        ("2.17", "Debian 10, Ubuntu 18.04, RHEL 8", ""),
        ("2.36", "Debian 12, Ubuntu 24.04, RHEL 10", "Debian 11 (2.31), Ubuntu 22.04 (2.35), RHEL 9 (2.34)"),
        ("2.40", "Debian 13", "Debian 12 (2.36), Ubuntu 24.04 (2.39), RHEL 10 (2.39)"),
        ("3.0", "no release that is listed here", "Debian 13 (2.41), Ubuntu 24.04 (2.39), RHEL 10 (2.39)"),
    ],
)
def test_highest_imported_version_decides(folder: Path, version: str, runs: str, does_not: str) -> None:
    lines = said(folder, version=f"GLIBC_{version}").stdout.splitlines()
    assert re.fullmatch(rf"needs glibc {version} or later, because of (nri|_internal/libown\.so\.1)", lines[0])
    assert lines[1] == f"runs on {runs}, and later releases"
    assert lines[2:] == ([f"does not run on {does_not}, and earlier releases"] if does_not else [])


def test_version_without_a_number_stands_for_the_release_that_brought_it(folder: Path) -> None:
    assert said(folder, "--short", version="GLIBC_ABI_DT_RELR").stdout == "2.36\n"
    wrong = "needs GLIBC_PRIVATE, expected a version such as GLIBC_2.36\n"
    assert said(folder, version="GLIBC_PRIVATE").stderr.endswith(wrong)


def test_library_that_is_not_in_the_folder_is_an_error(folder: Path) -> None:
    assert said(folder, version="GLIBC_2.4", library="libown.so.1").returncode == 0
    done = said(folder, version="GLIBC_2.4", library="libssl.so.3")
    assert done.returncode == 1
    assert f"needs libssl.so.3, expected a library of glibc or of {folder}/dist\n" in done.stderr


def test_missing_binaries_and_missing_objdump_are_errors(folder: Path) -> None:
    done = said(folder, path=str(folder))
    wrong = "objdump not found; install it (Debian: apt-get install binutils)"
    assert (done.returncode, done.stderr) == (1, f"tools/needed-libc: {wrong}\n")
    shutil.rmtree(folder / "dist")
    done = said(folder, version="GLIBC_2.4")
    assert done.returncode == 1
    assert done.stderr.startswith(f"tools/needed-libc: no executable or library in {folder}/dist, expected those of ")


def test_version_of_a_real_binary_is_one_that_this_machine_has(tmp_path: Path) -> None:
    if shutil.which("objdump") is None:
        pytest.skip("objdump is not installed (Debian's package binutils)")
    (tmp_path / "dist").mkdir()
    shutil.copy(shutil.which("env") or "/usr/bin/env", tmp_path / "dist")
    needs = [int(part) for part in said(tmp_path, "--short").stdout.split(".")]
    has = [int(part) for part in (os.confstr("CS_GNU_LIBC_VERSION") or "").split()[1].split(".")]
    assert [2, 2] <= needs <= has
