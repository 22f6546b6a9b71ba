"""A configuration that can't be read, as the system has nothing left: a fault that names it, then it is read."""

from __future__ import annotations

import builtins
import importlib
import os
from pathlib import Path
from typing import Any

import pytest

from nri import config
from nri.config import ConfigError, load
from nri.v1bridge import configuration as bridge
from nri.v1bridge.configuration import GRACE
from tests.support.processes import open_fds
from tests.support.system_faults import ERRORS, Failing, name_of
from tests.support.waiting import SOON

loading = importlib.import_module("nri.config.loading")  # the package's `load` is the function
DIRECTORY, FILE = "a directory of *.conf files that can be read", "a file of JSON that can be read"
CALLS = [("listdir", DIRECTORY), ("stat", FILE), ("open", FILE), ("fstat", FILE)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    folder = tmp_path / "resource.d"
    folder.mkdir()
    (folder / "10-a.conf").write_text('{"version": "0.1", "plugins": [{"type": "a"}]}')
    return folder


def types(directory: Path) -> list[str]:
    return [plugin.type for plugin in load(str(directory), "/nonexistent").plugins]


@pytest.mark.parametrize("number", ERRORS, ids=name_of)
@pytest.mark.parametrize(("call", "expected"), CALLS, ids=[call for call, _ in CALLS])
def test_a_call_that_fails_is_a_fault_that_names_the_file(
    directory: Path, monkeypatch: pytest.MonkeyPatch, call: str, expected: Any, number: int
) -> None:
    before = open_fds()
    seen = Failing(os, call, number)
    with monkeypatch.context() as patch, pytest.raises(ConfigError) as caught:
        patch.setattr(loading, "os", seen)
        types(directory)
    assert seen.failed == 1
    path = directory if call == "listdir" else directory / "10-a.conf"
    why = os.strerror(number).lower()
    assert str(caught.value) == f"{path}:1:1: (document): cannot be read: {why}, expected {expected}"
    assert open_fds() == before
    assert types(directory) == ["a"]


@pytest.mark.parametrize("number", ERRORS, ids=name_of)
def test_a_read_that_fails_is_one_too(directory: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    class File:
        """A file that is closed, and can't be read."""

        def __init__(self, descriptor: int, mode: str) -> None:
            self._file = builtins.open(descriptor, mode)  # noqa: SIM115 - closed below

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *error: BaseException) -> None:
            self._file.close()

        def read(self, size: int) -> None:
            raise OSError(number, os.strerror(number))

    before = open_fds()
    with monkeypatch.context() as patch, pytest.raises(ConfigError, match="cannot be read: "):
        patch.setattr(loading, "open", File, raising=False)
        types(directory)
    assert open_fds() == before
    assert types(directory) == ["a"]


def test_a_directory_that_goes_while_it_is_looked_at_is_none(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone(Failing):
        """Between the listing, which says that there is none, and the look at why."""

        readlink = staticmethod(lambda path: os.readlink("/nonexistent"))

        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

    monkeypatch.setattr(loading, "os", Gone(os, "listdir", 2))
    assert types(directory) == []


@pytest.mark.parametrize("number", ERRORS, ids=name_of)
@pytest.mark.parametrize("call", ["listdir", "stat", "open"])
def test_the_bridge_keeps_its_last_good_one_says_why_once_and_goes_on(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, call: str, number: int
) -> None:
    configuration = bridge.Configuration(str(directory), "/nonexistent")
    assert [plugin.type for plugin in configuration.current().plugins] == ["a"]
    (directory / "20-b.conf").write_text('{"version": "0.1", "plugins": [{"type": "b"}]}')
    caplog.clear()
    with monkeypatch.context() as patch:
        patch.setattr(loading, "os", Failing(os, call, number, times=100))
        for _ in range(3):
            assert [plugin.type for plugin in configuration.current().plugins] == ["a"]
            configuration.explain()
            assert configuration.is_explained(SOON)
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert said
    assert len(said) == len(set(said))
    assert all("still using the last valid one (a): " in line for line in said)
    assert all(os.strerror(number).lower() in line for line in said)
    assert [plugin.type for plugin in configuration.current().plugins] == ["a", "b"]


@pytest.mark.parametrize("number", ERRORS, ids=name_of)
@pytest.mark.parametrize("call", ["list_files", "stat"])
def test_a_look_at_the_files_that_fails_loses_no_change(
    directory: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    now = [0.0]
    configuration = bridge.Configuration(str(directory), "/nonexistent", lambda: now[0])
    configuration.current()
    (directory / "20-b.conf").write_text('{"version": "0.1", "plugins": [{"type": "b"}]}')
    with monkeypatch.context() as patch:
        name, module = ("config", config) if call == "list_files" else ("os", os)
        seen = Failing(module, call, number, times=100)
        patch.setattr(bridge, name, seen)
        configuration.current()
    assert seen.failed
    assert [plugin.type for plugin in configuration.current().plugins] == ["a", "b"]
    (directory / "20-b.conf").unlink()
    configuration.current()
    now[0] += GRACE
    assert [plugin.type for plugin in configuration.current().plugins] == ["a"]
