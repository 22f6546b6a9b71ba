"""A file that is replaced while a hook or nri-runc reads it; tests/unit/config/test_loading.py has other edits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.integration.runtime.conftest import Runtime
from tests.support.host import OCI_CONFIG, Host
from tests.support.processes import MEASURED

ROOT = Path(__file__).parents[3]

EDITOR = """
import os, sys

class Editor:
    '''Moves the configuration away when it is first opened, and back when the directory is listed again.'''

    begun = ended = False

    def see(self, event, arguments):
        name = os.path.basename(str(arguments[0])) if arguments else ""
        if event == "open" and name == "10-test.conf" and not self.begun:
            self.begun = True
            open({root!r} + "/begun", "w").close()
            os.rename({conf!r} + "/10-test.conf", {root!r} + "/away")
        elif self.begun and not self.ended and event == "os.listdir":
            self.ended = True
            os.rename({root!r} + "/away", {conf!r} + "/10-test.conf")

sys.addaudithook(Editor().see)
"""


def editing(host: Host) -> str:
    """Install and configure a plugin that notes its runs; return code that makes a program edit what it reads."""
    host.script("noting", f"#!/bin/sh\ncat >/dev/null\necho ran >>{host.root}/ran\necho '{{}}'\n")
    host.configure_text('{"version": "0.1", "plugins": [{"type": "noting"}]}')
    return EDITOR.format(conf=str(host.conf), root=str(host.root))


def has_run(host: Host) -> bool:
    return (host.root / "ran").exists()


def test_hook_runs_plugins_during_an_edit(host: Host) -> None:
    code = editing(host) + "\nfrom nri.cli.entry import main\nmain()"
    host.bundle(OCI_CONFIG)
    command = [sys.executable, "-c", code, "hook", "create", *host.options]
    environment = {"PYTHONPATH": str(ROOT), **MEASURED}
    ran = subprocess.run(command, input=host.state(), env=environment, capture_output=True, check=False)
    assert ran.returncode == 0 and (host.root / "begun").exists(), ran.stderr.decode()
    assert has_run(host)


def test_nri_runc_runs_plugins_during_an_edit(runtime: Runtime) -> None:
    code = editing(runtime.host)
    runtime.exists(status="created")
    ran = runtime.run("create", "--bundle", "bundle", "web", code=code, cwd=runtime.host.root)
    assert ran.returncode == 0 and (runtime.host.root / "begun").exists(), ran.stderr
    assert has_run(runtime.host)
