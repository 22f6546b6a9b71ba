"""Plugins that a runtime launches."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nri

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
