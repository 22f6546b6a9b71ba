"""Files that are edited while they are read: the old set or the new one counts, never a part of one."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.v1bridge.bridge_process import START, start_container
from tests.known_faults.node import require
from tests.support.host import OCI_CONFIG
from tests.support.processes import MEASURED
from tests.support.waiting import SOON, until

if TYPE_CHECKING:
    from tests.integration.runtime.conftest import Runtime
    from tests.integration.v1bridge.bridge_process import BridgeProcess
    from tests.support.host import Host

ROOT = Path(__file__).parents[2]
FOLLOW = ROOT / "deploy/kubernetes/follow-configuration"

EDITOR = """
import os, sys

class Editor:
    '''Edits the configuration when its file is first opened; the edit ends when it is looked at again.'''

    begun = ended = False

    def see(self, event, arguments):
        name = os.path.basename(str(arguments[0])) if arguments else ""
        if event == "open" and name == "10-test.conf" and not self.begun:
            self.begun = True
            begin()
        elif self.begun and not self.ended and (event in ("os.listdir", "os.scandir") or name == "10-test.conf"):
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
BARE = "a container starts without plugins if a file is gone between listing and reading it"


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
@pytest.mark.xfail(strict=True, raises=AssertionError, reason=BARE)
def test_hook_runs_the_plugins_of_a_configuration_that_is_edited_meanwhile(host: Host, edit: str) -> None:
    code = editing(host, edit) + "\nfrom nri.cli.entry import main\nmain()"
    host.bundle(OCI_CONFIG)
    command = [sys.executable, "-c", code, "hook", "create", *host.options]
    environment = {"PYTHONPATH": str(ROOT), **MEASURED}
    ran = subprocess.run(command, input=host.state(), env=environment, capture_output=True, check=False)
    require(ran.returncode == 0 and (host.root / "begun").exists(), ran.stderr.decode())
    assert has_run(host)


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.xfail(strict=True, raises=AssertionError, reason=BARE)
def test_nri_runc_runs_the_plugins_of_a_configuration_that_is_edited_meanwhile(runtime: Runtime, edit: str) -> None:
    code = editing(runtime.host, edit)
    runtime.exists(status="created")
    ran = runtime.run("create", "--bundle", "bundle", "web", code=code, cwd=runtime.host.root)
    require(ran.returncode == 0 and (runtime.host.root / "begun").exists(), ran.stderr)
    assert has_run(runtime.host)


# Time stamps

WHOLE_SECONDS = """
import os

def coarse(call):
    def status(*arguments, **options):
        status = call(*arguments, **options)
        stamps = {name: getattr(status, name) for name in ("st_atime", "st_mtime", "st_ctime")}
        whole = {f"{name}_ns": int(stamp) * 10**9 for name, stamp in stamps.items()}
        return os.stat_result((*status[:7], *map(int, stamps.values())), whole)
    return status

os.stat, os.fstat, os.lstat = map(coarse, (os.stat, os.fstat, os.lstat))
"""
"""Every file system has time stamps of whole seconds."""


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="an edit of the same size within a second is not noticed on a file system with time stamps of a second",
)
def test_an_edit_within_a_second_counts_on_a_file_system_with_time_stamps_of_a_second(bridge: BridgeProcess) -> None:
    host = bridge.host
    for type_ in ("a", "b"):
        host.script(type_, f"#!/bin/sh\ncat >/dev/null\necho {type_} >>{host.root}/ran\necho '{{}}'\n")
    (host.root / "settings.json").write_text(bridge.settings())
    bridge.listen()
    words = ("--socket", "nri.sock", "--config", "settings.json")
    bridge.start(sys.executable, "-c", WHOLE_SECONDS + START, *words)
    runtime = bridge.accept()
    runtime.start()

    def second_of_an_edit(type_: str) -> int:
        """Configure this plugin, and start a container; return the second of the edit."""
        host.configure_text(json.dumps({"version": "0.1", "plugins": [{"type": type_}]}))
        (host.root / "ran").unlink(missing_ok=True)
        second = int((host.conf / "10-test.conf").stat().st_ctime)
        start_container(runtime)
        return second

    def edit_twice_within_a_second() -> bool:
        until(lambda: 0.2 < time.time() % 1 < 0.5)
        return second_of_an_edit("a") == second_of_an_edit("b")

    until(edit_twice_within_a_second, seconds=SOON)
    assert (host.root / "ran").read_text().split() == ["b"]
