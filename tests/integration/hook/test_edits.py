"""A file that is replaced while a hook reads it; tests/unit/config/test_loading.py has other edits."""

from __future__ import annotations

import subprocess
import sys

from tests.integration.hook.running import SOURCE
from tests.support.host import OCI_CONFIG, Host
from tests.support.processes import MEASURED

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
from nri.cli.entry import main
main()
"""


def test_hook_runs_plugins_during_an_edit(host: Host) -> None:
    host.script("noting", f"#!/bin/sh\ncat >/dev/null\necho ran >>{host.root}/ran\necho '{{}}'\n")
    host.configure_text('{"version": "0.1", "plugins": [{"type": "noting"}]}')
    host.bundle(OCI_CONFIG)
    code = EDITOR.format(conf=str(host.conf), root=str(host.root))
    command = [sys.executable, "-c", code, "hook", "create", *host.options]
    environment = {"PYTHONPATH": SOURCE, **MEASURED}
    ran = subprocess.run(command, input=host.state(), env=environment, capture_output=True, check=False)
    assert ran.returncode == 0 and (host.root / "begun").exists(), ran.stderr.decode()
    assert (host.root / "ran").exists()
