"""A made-up host: its plugin directories, its configuration and its processes.

Shared by the tests of client, hook and command. Everything is below one temporary directory, whose name
identifies the processes of its plugins.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nri.client import Client, Invoker, Step, results_of
from nri.config.entries import ConfigList, PluginEntry
from nri.types.v1 import Request, Result, Spec
from tests.support.processes import command_lines
from tests.support.waiting import SOON

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nri.client.resident import Residents

SCRIPTED = Path(__file__).parent.parent / "plugins/scripted.py"


class Host:
    """A host below ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = self.folder("bin")
        self.conf = self.folder("resource.d")
        self.closing: list[Callable[[], object]] = []
        """To be called when the test is over."""

    def folder(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        return folder

    # Plugins

    def install(self, *types: str, into: Path | None = None, do: list[Any] | None = None) -> None:
        """Install the scripted plugin under these names; ``do`` replaces the steps in its conf."""
        text = SCRIPTED.read_text().replace("| None = None", f"| None = {do!r}")
        for type_ in types:
            self.script(type_, f"#!{sys.executable} -IS\n{text}", into=into)

    def script(self, type_: str, text: str, *, mode: int = 0o755, into: Path | None = None) -> Path:
        """Install an executable with this text."""
        path = (into or self.bin) / type_
        path.write_text(text)
        path.chmod(mode)
        return path

    def compiled(self, module: str) -> str:
        """Install a plugin of this project from its source; returns its type."""
        type_ = module.rpartition(".")[2]
        source = str(Path(__file__).parents[2])
        code = f"import sys\nsys.path.insert(0, {source!r})\nfrom {module} import main\nmain()\n"
        self.script(type_, f"#!{sys.executable}\n{code}")
        return type_

    # Configuration

    def client(
        self,
        *plugins: PluginEntry,
        bin_dirs: Sequence[str] = (),
        check_owner: bool = True,
        residents: Residents | None = None,
        log: Callable[[str, str], None] | None = None,
        **options: Any,
    ) -> HostClient:
        """A client for these plugins."""
        dirs = bin_dirs or [str(self.bin)]
        invoker = residents or Invoker(dirs, check_owner=check_owner)
        return HostClient(
            Client(ConfigList(plugins=plugins), invoker, **{"timeout": SOON, **options}), log
        )

    def configure(self, *plugins: PluginEntry, name: str = "10-test.conf") -> None:
        """Write a configuration with these plugins."""
        self.configure_text(ConfigList(plugins=plugins).to_json().decode(), name)

    def configure_text(self, text: str, name: str = "10-test.conf") -> None:
        self.folder("resource.d")
        (self.conf / name).write_text(text)

    @property
    def options(self) -> list[str]:
        """The options that keep a command on this host."""
        places = {"conf-dir": self.conf, "conf-file": f"{self.root}/conf.json", "bin-dir": self.bin}
        return [
            f"--{name}={place}"
            for name, place in {**places, "record-dir": f"{self.root}/record"}.items()
        ]

    # A container

    def bundle(self, config: dict[str, Any] | str, name: str = "bundle") -> Path:
        """A bundle with this config.json."""
        text = config if isinstance(config, str) else json.dumps(config)
        (self.folder(name) / "config.json").write_text(text)
        return self.root / name

    def state(self, **changes: Any) -> bytes:
        """A container's state as an OCI runtime writes it; a change to None leaves the key out."""
        state = {
            "ociVersion": "1.0.2",
            "id": "redis",
            "status": "created",
            "pid": 4711,
            "bundle": str(self.root / "bundle"),
        }
        return json.dumps(
            {key: value for key, value in (state | changes).items() if value is not None}
        ).encode()

    # Processes

    def processes(self) -> list[int]:
        """The processes of this host's plugins, by their command lines; zombies have none."""
        mark = os.fsencode(self.root) + b"/"
        return [pid for pid, command_line in command_lines() if mark in command_line]


class HostClient:
    """A client with a log function."""

    def __init__(self, client: Client, log: Callable[[str, str], None] | None) -> None:
        self._client = client
        self._log = log

    def steps(self, *what: Any, **options: Any) -> list[Step]:
        """Run the chain, as ``nri.client.Client.invoke`` does."""
        return self._client.invoke(*what, log=self._log, **options)

    def invoke(self, *what: Any, **options: Any) -> list[Result]:
        """Run the chain; return the results of its plugins."""
        return results_of(self.steps(*what, **options))


def plugin(type_: str, *do: list[Any], **options: Any) -> PluginEntry:
    """An entry for the scripted plugin; an entry without steps has no conf."""
    return PluginEntry(type=type_, conf={"do": list(do)} if do else None, **options)


def request(**changes: Any) -> Request:
    """A request as a runtime makes it."""
    spec = Spec(
        resources={"cpu": {"shares": 1024}},
        namespaces={"pid": "", "network": "/proc/1/ns/net"},
        cgroups_path="/kubepods/podabc/redis",
        annotations={"qos.class": "ls"},
    )
    return Request(
        **{
            "state": "create",
            "id": "redis",
            "sandbox_id": "pod",
            "pid": 4711,
            "spec": spec,
            **changes,
        }
    )


OCI_CONFIG = {
    "ociVersion": "1.0.2",
    "process": {"args": ["redis"], "env": ["SECRET=1"]},
    "annotations": {"qos.class": "ls"},
    "linux": {
        "cgroupsPath": "/kubepods/podabc/redis",
        "namespaces": [{"type": "pid"}, {"type": "network", "path": "/proc/1/ns/net"}],
        "resources": {"cpu": {"shares": 1024}},
    },
}
"""A container's config.json, with the keys that tests need."""
