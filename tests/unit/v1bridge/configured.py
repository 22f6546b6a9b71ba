"""A directory of configuration that a test changes, and the configuration that the bridge makes of it."""

import importlib
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from nri.config.site import Site
from nri.v1bridge.configuration import Configuration

BROKEN = '{"version": "0.1", "plugins": ['

diagnostics = importlib.import_module("nri.config.diagnostics")
loading = importlib.import_module("nri.config.loading")


def text(*types: str, **options: Any) -> str:
    return json.dumps({"version": "0.1", "plugins": [{"type": each, **options} for each in types]})


class Configured:
    """A directory of configuration, the file that is read instead, and the configuration that is read."""

    def __init__(self, root: Path, caplog: pytest.LogCaptureFixture) -> None:
        self.root, self._caplog = root, caplog
        self.directory, self.file = root / "resource.d", root / "conf.json"
        self.directory.mkdir()
        self.configuration = Configuration(
            Site(conf_dir=str(self.directory), conf_file=str(self.file), record_dir="")
        )

    @property
    def plugins(self) -> list[str]:
        """The plugins in use."""
        return [plugin.type for plugin in self.configuration.current().plugins]

    def start(self, *types: str) -> None:
        """Have each plugin in a file of its own (10.conf, 20.conf), in use, and nothing in the log."""
        for number, each in enumerate(types, 1):
            self.put(f"{number}0.conf", each)
        assert self.plugins == list(types)
        self._caplog.clear()

    def put(self, name: str, *types: str) -> None:
        """Write a file in one step."""
        part = self.directory / f".{name}.part"
        part.write_text(text(*types))
        part.rename(self.directory / name)

    def spoil(self, name: str = "10.conf", content: str = BROKEN) -> None:
        """Write a file over in place."""
        (self.directory / name).write_text(content)

    def logged(self, level: int = logging.DEBUG) -> list[str]:
        """The lines of the log since the last call."""
        lines = [record.getMessage() for record in self._caplog.records if record.levelno >= level]
        self._caplog.clear()
        return lines

    def faults(self) -> list[str]:
        return self.logged(logging.ERROR)
