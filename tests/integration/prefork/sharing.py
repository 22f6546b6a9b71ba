"""A host whose plugins share one server, and do what a test tells them to."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from nri import build_mark
from nri.client import ChainError
from nri.config.entries import PluginEntry
from nri.prefork.pool.pool import Pool
from nri.prefork.pool.shared_server import Command, SharedServer
from tests.integration.prefork.preforked import SOURCE, is_pool_idle
from tests.support.host import request
from tests.support.processes import has_zombie
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.support.host import Host

MODULE = """
import os, sys, time
from nri import skel
LOADS

class Told(skel.Plugin):
    type = "TYPE"

    def invoke(self, request):
        result = request.new_result(self.type)
        result.extra["id"] = {"pid": os.getpid(), "parent": os.getppid()}
        exec((request.conf or {}).get("do", ""), globals(), {"request": request, "result": result})
        return result
"""

EXECUTABLE = """#!PYTHON
import sys
sys.path[:0] = [SOURCE, MODULES]
from nri import skel
from NAME import Told

if __name__ == "__main__":
    skel.main(Told())
"""


class SharingHost:
    """A host whose plugins count as its own build, the pool of their servers, and the modules of the plugins.

    :ivar modules: the module of each plugin of the build, by the name of its executable.
    :ivar command: starts the shared server.
    """

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host = host
        self.folder = host.folder("modules")
        self.modules: dict[str, str] = {}
        paths = f"import sys; sys.path[:0] = [{SOURCE!r}, {str(self.folder)!r}]"
        code = f"{paths}; from nri.skel import shared; shared.serve()"
        self.command: Command | None = Command(sys.executable, [sys.executable, "-c", code])
        self.shared = SharedServer(lambda: self.command)
        self.pool = Pool(self.shared)
        monkeypatch.setattr(build_mark, "read_own_plugin", self._read)

    def _read(self, path: str) -> tuple[str, str]:
        module = self.modules.get(os.path.basename(path), "")
        return (os.path.realpath(path), module) if module else ("", "")

    def install(self, *types: str, loads: str = "") -> None:
        """Install plugins of the build.

        :param loads: what the module does when it is loaded.
        """
        for type_ in types:
            module = f"told_{type_}"
            self.modules[type_] = module
            self.module(type_).write_text(MODULE.replace("LOADS", loads).replace("TYPE", type_))
            names = {
                "PYTHON": sys.executable,
                "SOURCE": repr(SOURCE),
                "MODULES": repr(str(self.folder)),
                "NAME": module,
            }
            text = EXECUTABLE
            for name, value in names.items():
                text = text.replace(name, value)
            self.host.script(type_, text)

    def module(self, type_: str) -> Path:
        """Return the file of a plugin's module."""
        return self.folder / f"told_{type_}.py"

    def ask(self, type_: str, do: str = "", *, prefork: bool = True, timeout: float = SOON) -> Any:
        """Return what the plugin adds to its result."""
        options: dict[str, Any] = {"pool": self.pool} if prefork else {}
        client = self.host.client(PluginEntry(type=type_, conf={"do": do}), timeout=timeout, **options)
        (result,) = client.invoke(request(labels={}), "create")
        return result.extra

    def fails(self, type_: str, do: str, *, timeout: float = SOON) -> str:
        """Return the error of a plugin that fails."""
        try:
            self.ask(type_, do, timeout=timeout)
        except ChainError as error:
            return str(error)
        return ""

    def server(self, type_: str) -> int:
        """Return the process id of the plugin's server, when it has one."""
        found: list[int] = []

        def is_served() -> bool:
            found.append(int(self.ask(type_)["id"]["parent"]))
            return found[-1] != os.getpid()

        assert wait_until(is_served, SOON), self.pool.standing(f"{self.host.bin}/{type_}")
        return found[-1]

    def servers(self, *types: str) -> list[int]:
        """Return the server of each of these plugins, once all are loaded."""
        for type_ in types:
            self.pool.prepare(f"{self.host.bin}/{type_}", type_)
        assert self.pool.wait_until_loaded(SOON)
        return [self.server(type_) for type_ in types]

    def is_alone(self, server: int) -> bool:
        """Return whether the server is one of a single plugin."""
        with open(f"/proc/{server}/cmdline", "rb") as file:
            return b"\0prefork\0" in file.read()

    def close(self) -> None:
        self.pool.close()
        assert wait_until(lambda: not self.host.processes(), 5)
        assert wait_until(is_pool_idle, 5)
        assert wait_until(lambda: not has_zombie(), 5)
