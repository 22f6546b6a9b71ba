"""`nri status` of a bridge's process: well, degraded by each of its reasons, gone; and what was done to a pod."""

from __future__ import annotations

import signal

import pytest

from nri.status import client
from nri.v2.ttrpc import StatusError
from tests.integration.cli.running import Ran, inside
from tests.integration.v1bridge.bridge_process import BridgeProcess, start_container
from tests.support.host import Host, plugin
from tests.support.runtime import Runtime
from tests.support.waiting import wait_until


def status(bridge: BridgeProcess, *words: str) -> Ran:
    return inside("status", "--socket", str(bridge.host.root / "v1bridge.sock"), *words)


def check(bridge: BridgeProcess, *words: str) -> tuple[int, str]:
    ran = status(bridge, "--check", *words)
    assert ran.stderr == ""
    return ran.status, ran.stdout.rstrip("\n")


@pytest.fixture
def runtime(host: Host, bridge: BridgeProcess) -> Runtime:
    """The runtime of a bridge from outside, with a plugin."""
    host.configure(bridge.node.keeper(resident=False))
    bridge.listen()
    bridge.outside()
    runtime = bridge.accept()
    runtime.start()
    assert wait_until(lambda: check(bridge) == (0, "well: connected to fake 1.2, 1 plugin"))
    return runtime


def test_a_bridge_is_none_then_degraded_then_well_then_none(host: Host, bridge: BridgeProcess) -> None:
    (host.root / "settings.json").write_text(bridge.settings())
    socket = host.root / "v1bridge.sock"
    assert check(bridge) == (2, f"no bridge: {socket} does not exist")
    bridge.listen()
    bridge.outside()
    assert wait_until(lambda: check(bridge) == (1, "degraded: the bridge looks for its runtime"))
    bridge.accept().start()
    assert wait_until(lambda: check(bridge) == (0, "well: connected to fake 1.2, no plugins"))
    bridge.signal(signal.SIGKILL)
    bridge.wait()
    assert check(bridge) == (2, f"no bridge: {socket}: no process listens; the bridge that made it has ended")


def test_a_broken_file_degrades_it_until_it_is_mended(host: Host, bridge: BridgeProcess, runtime: Runtime) -> None:
    (host.conf / "20.conf").write_text('{"version": "0.1", "plugins": [{}]}')
    assert wait_until(lambda: "20.conf:1:" in check(bridge)[1])
    code, line = check(bridge)
    assert (code, line.partition(": /")[0]) == (
        1,
        "degraded: the configuration is not valid, the last valid one is in use",
    )
    page = status(bridge).stdout
    assert "configuration  NOT VALID since 20" in page
    (host.conf / "20.conf").unlink()
    assert wait_until(lambda: check(bridge)[0] == 0)


def test_a_plugin_that_is_missing_degrades_it(host: Host, bridge: BridgeProcess, runtime: Runtime) -> None:
    host.configure(plugin("absent"), name="20.conf")
    assert wait_until(lambda: check(bridge)[0] == 1)
    assert check(bridge)[1].startswith("degraded: absent: not found")


def test_a_plugin_that_cannot_be_a_resident_degrades_it(host: Host, bridge: BridgeProcess, runtime: Runtime) -> None:
    host.script("old", "#!/bin/sh\n# from nri import skel\n[ $1 = invoke ] && echo '{}'\n")
    host.configure(plugin("old"), name="20.conf")
    start_container(runtime)
    assert wait_until(lambda: check(bridge)[0] == 1)
    assert check(bridge)[1].startswith("degraded: old: started for each request: ")


def test_a_plugin_whose_last_run_failed_degrades_it(host: Host, bridge: BridgeProcess, runtime: Runtime) -> None:
    host.script("flaky", f"#!/bin/sh\n[ -e {host.root}/mended ] || exit 3\necho '{{}}'\n")
    host.configure(plugin("flaky"), name="20.conf")
    with pytest.raises(StatusError):
        start_container(runtime)
    assert wait_until(lambda: check(bridge)[0] == 1)
    assert check(bridge)[1].startswith("degraded: flaky: its last create failed: ")
    page = status(bridge).stdout
    assert "flaky: create of default/web/app:" in page
    (host.root / "mended").touch()
    start_container(runtime)
    assert wait_until(lambda: check(bridge)[0] == 0)


def test_the_page_and_the_exchanges_of_a_pod(host: Host, bridge: BridgeProcess, runtime: Runtime) -> None:
    start_container(runtime)
    assert wait_until(lambda: client.status(str(host.root / "v1bridge.sock"))["plugins"][0]["runs"])
    page = status(bridge)
    assert (page.status, page.stderr) == (0, "")
    assert max(len(line) for line in page.stdout.splitlines()) <= 80
    assert "runtime        fake 1.2, NRI 0.9" in page.stdout
    assert client.status(str(host.root / "v1bridge.sock"))["plugins"][0]["runs"]["create"]["ok"] == 1
    shown = status(bridge, "--pod", "default/web")
    assert (shown.status, shown.stderr) == (0, "")
    assert "create (StartContainer) of container app, " in shown.stdout
    assert "  keeper: ok, " in shown.stdout
    assert status(bridge, "--pod", "default/web", "--json").json["exchanges"][0]["event"] == "StartContainer"
    assert status(bridge, "--pod", "default/other").stdout == "default/other: no exchange is known\n"
