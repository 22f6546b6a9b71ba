"""Which executables are plugins of this build: all others are started."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nri.client import build_mark, forking

BUILD, OTHER = "a" * 32, "b" * 32
MODULE = "nri.plugins.clearcfs"


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
    monkeypatch.setattr(forking, "STATEFUL", ())  # pytest loads them
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    return folder


def found(path: Path) -> Callable[[], object] | None:
    return forking.own_plugin(str(path))


def test_link_to_a_plugin_of_this_build_is_loaded(folder: Path, tmp_path: Path) -> None:
    executable(folder / "clearcfs")
    (tmp_path / "current").symlink_to("lib")
    link = tmp_path / "clearcfs2"
    link.symlink_to("current/clearcfs")
    assert found(link) is sys.modules[MODULE].main


def test_file_without_a_mark_is_started(folder: Path, tmp_path: Path) -> None:
    assert found(executable(tmp_path / "bin/clearcfs")) is None  # a copy in another folder
    script = folder / "clearcfs"
    assert found(script) is None
    for text in ("", "#!/bin/sh\nexit 1\n", "#!/bin/sh\n" + "#" * 500):
        script.write_text(text)
        assert found(script) is None
    script.unlink()
    os.mkfifo(script)
    assert found(script) is None


def test_host_without_a_mark_or_not_compiled_starts_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = executable(folder / "clearcfs")
    with monkeypatch.context() as patch:
        patch.delattr(sys, "frozen")
        assert found(plugin) is None
    (folder / "nri").write_bytes(bytes(1000))
    assert found(plugin) is None
    plugin.write_bytes(bytes(1000))
    assert found(plugin) is None


@pytest.mark.parametrize(
    "options",
    [
        {"build": OTHER},
        *({"module": module} for module in ("nri.cli.entry", "os.path", "nri.plugins.missing")),
        *({"mode": mode} for mode in (0o4755, 0o2755)),
    ],
    ids=str,
)
def test_foreign_and_setuid_executables_are_started(folder: Path, options: dict[str, Any]) -> None:
    assert found(executable(folder / "clearcfs", **options)) is None


def test_host_with_state_that_a_fork_shares_starts_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forking, "STATEFUL", ("threading",))
    import threading  # noqa: F401

    assert found(executable(folder / "clearcfs")) is None
