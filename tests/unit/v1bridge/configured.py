"""A directory of configuration that a test changes, and the configuration that the bridge makes of it."""

from __future__ import annotations

import importlib
import json
import logging
from typing import TYPE_CHECKING, Any

from nri.v1bridge.configuration import GRACE, Configuration
from tests.support.waiting import SOON

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

BROKEN = '{"version": "0.1", "plugins": ['

diagnostics = importlib.import_module("nri.config.diagnostics")
loading = importlib.import_module("nri.config.loading")


def text(*types: str, **options: Any) -> str:
    return json.dumps({"version": "0.1", "plugins": [{"type": each, **options} for each in types]})


def logged(caplog: pytest.LogCaptureFixture, level: int = logging.DEBUG) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


class Node:
    """A directory of configuration, the file that is read instead, and the configuration that is read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.directory, self.file = root / "resource.d", root / "conf.json"
        self.directory.mkdir()
        self.now = 1000.0
        self.configuration = Configuration(str(self.directory), str(self.file), lambda: self.now)

    @property
    def plugins(self) -> list[str]:
        """The plugins in use; all faults are logged when it returns."""
        plugins = self.configuration.current().plugins
        self.configuration.explain()
        assert self.configuration.is_explained(SOON)
        return [plugin.type for plugin in plugins]

    def wait(self, seconds: float = GRACE) -> None:
        """Let time pass after missing files have been noticed."""
        self.configuration.current()
        self.now += seconds

    def put(self, name: str, *types: str) -> None:
        """Write a file in one step."""
        part = self.directory / f".{name}.part"
        part.write_text(text(*types))
        part.rename(self.directory / name)
