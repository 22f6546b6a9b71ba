"""``tools/needed-libc``: the version of glibc that the binaries need."""

import os
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
    folder: Path, version: str = "", library: str = "libc.so.6"
) -> subprocess.CompletedProcess[str]:
    """Run the tool; with a version, on binaries that import it by what objdump prints."""
    path = os.environ["PATH"]
    if version:
        (folder / "tools").mkdir(exist_ok=True)
        (folder / "tools/objdump").write_text(FAKE_OBJDUMP.format(version=version, library=library))
        (folder / "tools/objdump").chmod(0o755)
        path = f"{folder}/tools{os.pathsep}{path}"
    command: list[str | Path] = [sys.executable, TOOL, folder / "dist"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": path})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "dist/_internal").mkdir(parents=True)
    (tmp_path / "dist/nri").write_bytes(b"\x7fELF")
    (tmp_path / "dist/_internal/libown.so.1").write_bytes(b"\x7fELF")
    (tmp_path / "dist/_internal/data.json").write_text("{}")
    return tmp_path


def test_highest_imported_version_decides(folder: Path) -> None:
    assert said(folder, "GLIBC_2.17").stdout == "2.17\n"
    assert said(folder, "GLIBC_ABI_DT_RELR").stdout == "2.36\n"  # the release that brought it
    assert said(folder, "GLIBC_PRIVATE").stdout == "2.9\n"
    shutil.rmtree(folder / "dist")
    done = said(folder, "GLIBC_2.4")
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"tools/needed-libc: no executable or library in {folder}/dist, expected those of "
    )


def test_library_that_is_not_in_the_folder_is_an_error(folder: Path) -> None:
    assert said(folder, "GLIBC_2.4", "libown.so.1").returncode == 0
    done = said(folder, "GLIBC_2.4", "libssl.so.3")
    assert done.returncode == 1
    assert f"needs libssl.so.3, expected a library of glibc or of {folder}/dist\n" in done.stderr


def test_version_of_a_real_binary_is_one_that_this_machine_has(tmp_path: Path) -> None:
    if shutil.which("objdump") is None:
        pytest.skip("objdump is not installed (Debian's package binutils)")
    (tmp_path / "dist").mkdir()
    shutil.copy(shutil.which("env") or "/usr/bin/env", tmp_path / "dist")
    needs = [int(part) for part in said(tmp_path).stdout.split(".")]
    has = [int(part) for part in (os.confstr("CS_GNU_LIBC_VERSION") or "").split()[1].split(".")]
    assert [2, 2] <= needs <= has
