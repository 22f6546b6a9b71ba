"""Files that are edited while a hook or nri-runc reads them: the old set or the new one counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.runtime.conftest import Runtime
from tests.support.host import OCI_CONFIG, Host
from tests.support.processes import MEASURED

ROOT = Path(__file__).parents[3]
FOLLOW = ROOT / "deploy/kubernetes/follow-configuration"

EDITOR = """
import os, sys

class Editor:
    '''Edits the configuration when its file is first opened; the edit ends when the directory is listed again.'''

    begun = ended = False

    def see(self, event, arguments):
        name = os.path.basename(str(arguments[0])) if arguments else ""
        if event == "open" and name == "10-test.conf" and not self.begun:
            self.begun = True
            begin()
        elif self.begun and not self.ended and event == "os.listdir":
            self.ended = True
            end()

sys.addaudithook(Editor().see)
"""

REPLACED = """
def begin():
    open({root!r} + "/begun", "w").close()
    os.rename({conf!r} + "/10-test.conf", {root!r} + "/away")

def end():
    os.rename({root!r} + "/away", {conf!r} + "/10-test.conf")
"""
"""A file is moved away and written anew."""

EXCHANGED = """
def begin():
    open({root!r} + "/begun", "w").close()
    os.rename({conf!r}, {root!r} + "/old")
    os.rename({root!r} + "/new", {conf!r})

def end():
    pass
"""
"""The directory is exchanged for one whose file has another name."""

EDITS = {"a file is replaced": REPLACED, "the directory is exchanged": EXCHANGED}


def editing(host: Host, edit: str) -> str:
    """Install and configure a plugin that notes its runs; return code that makes a program edit what it reads."""
    host.script("noting", f"#!/bin/sh\ncat >/dev/null\necho ran >>{host.root}/ran\necho '{{}}'\n")
    text = json.dumps({"version": "0.1", "plugins": [{"type": "noting"}]})
    host.configure_text(text)
    (host.folder("new") / "20-new.conf").write_text(text)
    return EDITOR + edit.format(conf=str(host.conf), root=str(host.root))


def has_run(host: Host) -> bool:
    return (host.root / "ran").exists()


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_hook_runs_plugins_during_an_edit(host: Host, edit: str) -> None:
    code = editing(host, edit) + "\nfrom nri.cli.entry import main\nmain()"
    host.bundle(OCI_CONFIG)
    command = [sys.executable, "-c", code, "hook", "create", *host.options]
    environment = {"PYTHONPATH": str(ROOT), **MEASURED}
    ran = subprocess.run(command, input=host.state(), env=environment, capture_output=True, check=False)
    assert ran.returncode == 0 and (host.root / "begun").exists(), ran.stderr.decode()
    assert has_run(host)


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_nri_runc_runs_plugins_during_an_edit(runtime: Runtime, edit: str) -> None:
    code = editing(runtime.host, edit)
    runtime.exists(status="created")
    ran = runtime.run("create", "--bundle", "bundle", "web", code=code, cwd=runtime.host.root)
    assert ran.returncode == 0 and (runtime.host.root / "begun").exists(), ran.stderr
    assert has_run(runtime.host)
