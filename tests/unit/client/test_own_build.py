"""Which executables are plugins of this build: all others are started."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nri import build_mark
from nri.client import own_build
from nri.process.spawn import PLUGIN_ENVIRONMENT

if TYPE_CHECKING:
    from nri.process.afresh import LoadedProgram

BUILD, OTHER = "a" * 32, "b" * 32
MODULE = "nri.plugins.clearcfs.__main__"
LOADER = ("LD_LIBRARY_PATH", "_PYI_ARCHIVE_FILE", "_PYI_LINUX_PROCESS_NAME", "_PYI_PARENT_PROCESS_LEVEL")


def executable(path: Path, build: str = BUILD, module: str = MODULE, *, mode: int = 0o755) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"\x7fELF" + bytes(1000) + build_mark.encode(build, module))
    path.chmod(mode)
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that this process was started from, as it seems."""
    folder = tmp_path / "lib"
    own = executable(folder / "nri", module="nri.cli.entry")
    monkeypatch.setattr(build_mark, "OWN", str(own))
    monkeypatch.setattr(own_build, "_STATEFUL", ())  # pytest loads them
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    return folder


def found(path: Path, type_: str = "clearcfs") -> LoadedProgram | None:
    return own_build.find_program(str(path), [type_, "invoke"])


def test_a_plugin_of_this_build_is_loaded(folder: Path) -> None:
    program = found(executable(folder / "clearcfs"))
    assert program is not None
    assert program.module is sys.modules[MODULE]
    assert program.main is program.module.main
    assert program.argv == ["clearcfs", "invoke"]
    assert program.executable == str(folder / "clearcfs")


def test_a_link_from_another_folder_is_followed(folder: Path, tmp_path: Path) -> None:
    executable(folder / "clearcfs")
    (tmp_path / "current").symlink_to("lib")
    link = tmp_path / "clearcfs2"
    link.symlink_to("current/clearcfs")
    program = found(link, "clearcfs2")
    assert program is not None
    assert (program.path, program.executable) == (str(link), str(folder / "clearcfs"))
    assert program.argv == ["clearcfs2", "invoke"]


def test_a_copy_in_another_folder_is_started(folder: Path, tmp_path: Path) -> None:
    assert found(executable(tmp_path / "bin/clearcfs")) is None


def test_a_plugin_of_another_build_is_started(folder: Path) -> None:
    assert found(executable(folder / "clearcfs", OTHER)) is None


def test_a_plugin_without_a_mark_is_started(folder: Path) -> None:
    script = folder / "clearcfs"
    for text in ("", "#!/bin/sh\nexit 1\n", "#!/bin/sh\n" + "#" * 500):
        script.write_text(text)
        assert found(script) is None


def test_without_a_mark_of_its_own_a_host_starts_all(folder: Path) -> None:
    (folder / "nri").write_bytes(bytes(1000))
    plain = folder / "clearcfs"
    plain.write_bytes(bytes(1000))
    assert found(plain) is None
    assert found(executable(folder / "clearcfs")) is None


@pytest.mark.parametrize("module", ["nri.cli.entry", "os.path", "nri.plugins.missing.__main__"])
def test_what_is_no_plugin_of_ours_is_started(folder: Path, module: str) -> None:
    assert found(executable(folder / "clearcfs", module=module)) is None


@pytest.mark.parametrize("mode", [0o4755, 0o2755])
def test_an_executable_that_changes_the_user_is_started(folder: Path, mode: int) -> None:
    assert found(executable(folder / "clearcfs", mode=mode)) is None


def test_an_executable_that_is_gone_is_started_for_its_error(folder: Path) -> None:
    assert found(folder / "clearcfs") is None


def test_a_fifo_does_not_block(folder: Path) -> None:
    os.mkfifo(folder / "clearcfs")
    assert found(folder / "clearcfs") is None


def test_from_the_source_all_are_started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys, "frozen")
    assert found(executable(folder / "clearcfs")) is None


def test_a_process_with_state_that_a_fork_shares_starts_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_build, "_STATEFUL", ("threading",))
    import threading  # noqa: F401

    assert found(executable(folder / "clearcfs")) is None


def test_an_environment_that_cannot_be_emptied_starts_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"": "x"})
    assert found(executable(folder / "clearcfs")) is None


def test_the_environment_is_a_plugins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    for name in LOADER:
        monkeypatch.delenv(name, raising=False)
    program = found(executable(folder / "clearcfs"))
    assert program is not None
    assert program.environment == PLUGIN_ENVIRONMENT


def test_the_loaders_variables_are_the_plugins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LOADER:
        monkeypatch.setenv(name, "of the host")
    program = found(executable(folder / "clearcfs"))
    assert program is not None
    assert program.environment == PLUGIN_ENVIRONMENT | {
        "LD_LIBRARY_PATH": str(folder / "_internal"),
        "_PYI_ARCHIVE_FILE": str(folder / "clearcfs"),
        "_PYI_LINUX_PROCESS_NAME": "clearcfs",
        "_PYI_PARENT_PROCESS_LEVEL": "1",
    }
