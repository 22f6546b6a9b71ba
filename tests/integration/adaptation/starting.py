"""Plugins that a runtime launches, and plugins that connect from outside."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Any

import nri
from tests.support.v2_plugin import Plugin
from tests.support.waiting import wait_until

SOURCE = os.path.dirname(os.path.dirname(nri.__file__))
STUB = f"""#!{sys.executable}
import os, sys
sys.path.insert(0, {SOURCE!r})
from nri.v2 import stub

class Plugin(stub.V2Plugin):
    def configure(self, config, runtime):
        print("config", repr(config), flush=True)

    def run_pod_sandbox(self, request, call):
        print("pod", request.pod.name, os.getpid(), flush=True)

"""
SERVE = "stub.run(Plugin())\n"


def install(folder: Path, name: str, text: str, mode: int = 0o755) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


def outside(path: Path, **options: Any) -> Plugin:
    sock = socket.socket(socket.AF_UNIX)
    assert wait_until(lambda: sock.connect_ex(str(path)) == 0), "no runtime listens"
    return Plugin(sock=sock, **options).start()
