"""The fixtures of the tests of the bridge's configuration."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from nri import config
from nri.v1bridge import configuration as module
from tests.unit.v1bridge.configured import Node

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def node(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Node:
    caplog.set_level(logging.DEBUG, "nri.v1bridge")
    return Node(tmp_path)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The configurations that were loaded."""
    made: list[Any] = []
    load = config.load_files

    def counted(conf_dir: str, conf_file: str, *, check_owner: bool = True) -> Any:
        made.append((conf_dir, conf_file))
        return load(conf_dir, conf_file, check_owner=check_owner)

    monkeypatch.setattr(config, "load_files", counted)
    return made


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is recent."""
    monkeypatch.setattr(module, "RECENT_NS", -(10**12))
