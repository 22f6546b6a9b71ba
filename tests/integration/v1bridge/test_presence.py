"""`nri bridge --probe` follows the bridge: its start, its connection, its end however it ends."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.integration.cli.running import inside
from tests.integration.v1bridge.bridge_process import BridgeProcess
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.support.host import Host


def probe(bridge: BridgeProcess) -> tuple[int, str]:
    """The probe's status, and its line."""
    file = bridge.host.root / "settings.json"
    file.write_text(bridge.settings())
    ran = inside("bridge", "--probe", "--config", str(file))
    assert ran.stderr == ""
    (line,) = ran.stdout.splitlines()
    return ran.status, line


def test_ready_means_connected(host: Host, bridge: BridgeProcess) -> None:
    state = host.root / "v1bridge.state"
    assert probe(bridge) == (1, f"not connected: no bridge runs here: {state} does not exist")
    bridge.outside()
    assert wait_until(lambda: "no runtime at " in bridge.log)
    status, line = probe(bridge)
    assert (status, line.partition(" since ")[0]) == (1, "not connected: the bridge looks for its runtime")
    bridge.listen()
    runtime = bridge.accept()
    runtime.start()
    assert wait_until(lambda: probe(bridge)[0] == 0)
    assert probe(bridge)[1].startswith("connected to fake 1.2 since ")
    runtime.close()
    assert wait_until(lambda: probe(bridge)[0] == 1)
    again = bridge.accept()
    again.start()
    assert wait_until(lambda: probe(bridge)[0] == 0)
    bridge.signal(signal.SIGTERM)
    assert bridge.wait() == 0
    assert not state.exists()


def test_one_that_stands_by_is_ready_as_the_nodes_bridge_is(host: Host, bridge: BridgeProcess) -> None:
    bridge.listen()
    bridge.outside()
    bridge.accept().start()
    second = BridgeProcess(host)
    second.log_file = host.root / "second.log"
    second.outside()
    try:
        assert wait_until(lambda: "standing by" in second.log)
        assert wait_until(lambda: probe(second)[0] == 0)
        assert bridge.child is not None
        pid = bridge.child.pid
        assert probe(second)[1].endswith(f": pid {pid}")
        bridge.signal(signal.SIGKILL)
        bridge.wait()
        bridge.accept().start()
        assert wait_until(lambda: probe(second)[0] == 0)
        assert not probe(second)[1].endswith(f": pid {pid}")
    finally:
        second.close()


def test_a_killed_one_is_not_connected(bridge: BridgeProcess) -> None:
    runtime = bridge.launch()
    runtime.configure(bridge.settings())  # containerd up to 1.7.25 does not synchronize it
    assert wait_until(lambda: probe(bridge)[0] == 0)
    assert bridge.child is not None
    bridge.signal(signal.SIGKILL)
    bridge.wait()
    assert probe(bridge) == (1, f"not connected: the bridge with pid {bridge.child.pid} has ended")
