"""A bridge whose own files are gone, as after two upgrades: it loads nothing any more, and needs nothing.

PyInstaller ends a program that loads a module from a file that is gone. Here a finder does it, as soon as a runtime
has configured the bridge; and none of the program's data can be opened.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nri import adaptation
from nri.adaptation.lifecycle import Replayer
from nri.config.entries import PluginEntry
from tests.integration.v1bridge.bridge_process import BridgeProcess, a_bridge
from tests.integration.v1bridge.site import SOURCE, entry, install, start_error
from tests.integration.v1bridge.test_misbehaving_plugins import CASES, KILLED
from tests.support.host import Host
from tests.support.listening import listening
from tests.support.pods import container, lives, pod
from tests.support.waiting import SOON, wait_until
from tests.unit.config.test_diagnostics import FAULTS

BRIDGE = """#!{python}
import sys
sys.path.insert(0, {source!r})
from nri.cli import bridge_entry
from nri.client import standing
from nri.v1bridge import bridge, serving

from tests.support import scripts
standing.is_built = scripts.is_plugin

class Gone:
    def find_spec(self, name, path=None, target=None):
        self.note("import " + name)
        raise SystemExit(name + " appears to have been moved or deleted since this application was launched")

    def see(self, event, arguments):
        if event == "open" and isinstance(arguments[0], str) and not arguments[0].endswith(".py"):
            if arguments[0].startswith(({source!r}, sys.prefix, sys.base_prefix)) and {root!r} not in arguments[0]:
                self.note("open " + arguments[0])
                raise FileNotFoundError(arguments[0])

    def note(self, what):
        frame, places = sys._getframe(2), []
        while frame is not None:
            if "importlib" not in frame.f_code.co_filename:
                places.append(frame.f_code.co_filename.rpartition("/")[2] + ":" + str(frame.f_lineno))
            frame = frame.f_back
        with open({root!r} + "/late", "a") as file:
            file.write(what + " from " + " ".join(places[:9]) + "\\n")

def configure(self, *arguments):
    real(self, *arguments)
    gone = Gone()
    sys.addaudithook(gone.see)
    sys.meta_path.insert(0, gone)
    open({root!r} + "/closed", "w").close()

real, bridge.Bridge.configure = bridge.Bridge.configure, configure
bridge_entry.main()
"""


def program(host: Host) -> str:
    return BRIDGE.format(python=sys.executable, source=SOURCE, root=str(host.root))


def loads_nothing(host: Host) -> None:
    late = host.root / "late"
    assert not late.exists(), late.read_text()


@contextmanager
def without_files(host: Host, way: str) -> Iterator[adaptation.Runtime]:
    """A runtime that has launched such a bridge, with one plugin that is started in a certain way."""
    install(host, way)
    host.configure(entry(way))
    host.script("10-v1bridge", program(host), into=host.folder("plugins"))
    settings = BridgeProcess(host).settings(logFile=f"{host.root}/log", resident=way == "warm")
    (host.folder("conf.d") / "10-v1bridge.conf").write_text(settings)
    with adaptation.Runtime(
        plugin_dir=f"{host.root}/plugins", config_dir=f"{host.root}/conf.d", request_timeout=SOON
    ) as runtime:
        assert wait_until((host.root / "closed").exists)
        yield runtime
        loads_nothing(host)
        assert runtime.plugins == ["10-v1bridge"]
    loads_nothing(host)  # also not at its end


def test_any_broken_configuration_is_explained(host: Host) -> None:
    log, broken = host.root / "log", host.conf / "20-broken.conf"
    kept = b"invalid configuration; still using the last valid one (rude): "
    with without_files(host, "cold") as runtime:
        for document, _ in FAULTS:
            before = log.stat().st_size
            broken.write_bytes(document if isinstance(document, bytes) else str(document).encode())
            assert start_error(runtime) == ""
            assert wait_until(lambda: kept in log.read_bytes()[before:]), document  # noqa: B023
            assert b"cannot be explained" not in log.read_bytes()[before:]
            broken.unlink()
        assert start_error(runtime) == ""


@pytest.mark.parametrize("way", ["cold", "warm", "foreign"])
def test_plugins_may_fail_in_every_way_and_pods_may_say_anything(host: Host, way: str) -> None:
    with without_files(host, way) as runtime:
        for name, case in CASES.items():
            if way not in case.ways or case.error == KILLED:
                continue
            host.configure(entry(way, case.do.replace("{root}", str(host.root))))
            (host.root / "child").unlink(missing_ok=True)
            error = start_error(runtime, annotations={"é": "\U0001f600\u2028\x85\x00"})
            assert bool(error) == bool(case.error), name
        said = json.dumps(
            {"plugin": "rude", "version": "0.1", "metadata": {"x": "\U0001f600"}}
        ).encode()
        do = (
            f"say({said!r}); os._exit(0)"
            if way == "foreign"
            else "result.metadata['x'] = '\U0001f600'"
        )
        host.configure(entry(way, do))
        assert start_error(runtime) == ""
        host.configure(entry(way))
        assert start_error(runtime, annotations={"é": "\ud7ff"}, labels={"☃": "\uffff"}) == ""


def test_pods_live_their_whole_lives(host: Host) -> None:
    with without_files(host, "warm") as runtime:
        say = (
            "result = result.replace(cgroups_path='/there') if request.state == 'setup' else result"
        )
        host.configure(entry("warm", say, states=("setup", "update")))
        player = Replayer(runtime)
        player.replay(lives(2, 2, annotations={"é": "\U0001f600"}))
        assert player.failed == 0


def test_one_from_outside_finds_another_runtime_and_ends(host: Host) -> None:
    host.install("fine", do=[])
    host.configure(PluginEntry(type="fine"))
    command = str(host.script("bridge", program(host)))
    with a_bridge(host) as bridge:
        (host.root / "settings.json").write_text(bridge.settings())
        bridge.start(
            command, "--socket", bridge.path, "--config", "settings.json", stderr=subprocess.PIPE
        )
        for _ in range(2):
            with listening(adaptation.Runtime(request_timeout=SOON), bridge.path) as runtime:
                assert wait_until(lambda: runtime.plugins)
                assert wait_until((host.root / "closed").exists)
                runtime.start_container(pod(), container())
        bridge.signal(signal.SIGTERM)
        assert bridge.wait() == 0
        assert bridge.output()[1] == ""
    loads_nothing(host)
