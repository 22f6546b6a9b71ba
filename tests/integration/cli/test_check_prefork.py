"""nri check: it tries whether a plugin can be forked ahead of requests, and notes why not."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nri.config.entries import PluginEntry
from tests.integration.cli.running import command
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from tests.support.host import Host

TEXT = """#!{python}
import sys
sys.path.insert(0, {source!r})
import time
{loads}
from nri import skel

class Tried(skel.Plugin):
    type = "tried"

    def invoke(self, request):
        return request.new_result(self.type)

if __name__ == "__main__":
    skel.main(Tried())
"""


def install(host: Host, loads: str) -> str:
    text = TEXT.format(python=sys.executable, source=str(Path(__file__).parents[3]), loads=loads)
    return str(host.script("tried", text))


CASES = {
    "fit": ("", ""),
    "unfit": (
        "import tempfile; D = tempfile.TemporaryDirectory()",
        "it has a weakref.finalize when it is loaded: temp",
    ),
    "without sockets": ("sys.modules['_socket'] = None", "a module is missing in the executable: _socket"),
    "ends": ("if 'prefork' in sys.argv: sys.exit('no licence')", "it ends while it is loaded: no licence"),
    "hangs": ("if 'prefork' in sys.argv: time.sleep(1000)", "it does not become ready"),
}


@pytest.mark.parametrize("name", CASES)
def test_why_a_plugin_is_started_for_each_request_is_a_note_and_no_fault(
    host: Host, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "hangs":
        monkeypatch.setattr("nri.prefork.pool.eligibility.ANSWER_WITHIN", 1.0)
        monkeypatch.setattr("nri.prefork.pool.server_process.END_WITHIN", 0.1)
    loads, why = CASES[name]
    path = install(host, loads)
    host.configure(PluginEntry(type="tried"))
    ran = command(host, "check", "--json")
    assert (ran.status, ran.json["ok"]) == (0, True)
    (entry,) = ran.json["plugins"]
    assert entry["note"].startswith(f"{path} is started for each request: {why}" if why else "")
    assert bool(entry["note"]) == bool(why)
    assert entry["version"] is not None
    assert not [thread for thread in threading.enumerate() if thread.name == "prefork"]
    assert wait_until(lambda: not host.processes(), SOON)


def test_one_with_prefork_never_is_not_tried(host: Host) -> None:
    install(
        host,
        "if 'prefork' in sys.argv: open(__file__ + '.tried', 'w').close()\nimport tempfile; D = open('/dev/null')",
    )
    host.configure(PluginEntry(type="tried", prefork="never"))
    (entry,) = command(host, "check", "--json").json["plugins"]
    assert entry["note"] == ""
    assert not (host.bin / "tried.tried").exists()


def test_a_file_that_a_plugin_starts_when_it_is_loaded_is_ended_with_it(host: Host) -> None:
    install(host, "import os\nif 'prefork' in sys.argv: os.spawnv(os.P_NOWAIT, '/bin/sleep', [__file__, '1000'])")
    host.configure(PluginEntry(type="tried"))
    (entry,) = command(host, "check", "--json").json["plugins"]
    assert entry["note"].endswith("it has a child process when it is loaded")
    assert wait_until(lambda: not host.processes(), SOON)
