"""Two bridges on a node: one is connected, the other follows at its end, and no plugin runs twice."""

from __future__ import annotations

import shutil
import signal

import pytest

from tests.integration.v1bridge.bridge_process import COMMAND, BridgeProcess, start_container
from tests.support.host import Host
from tests.support.status_asking import status_of
from tests.support.waiting import wait_until

IMPATIENT = [
    *COMMAND[:-1],
    "import functools\nfrom nri.v1bridge import serving\n"
    "serving.InstanceLock = functools.partial(serving.InstanceLock, grace=0.1)\n" + COMMAND[-1],
]
"""The executable, which reports another bridge soon."""


@pytest.mark.parametrize(
    ("number", "lock_is_removed"), [(signal.SIGTERM, False), (signal.SIGKILL, True)]
)
def test_second_bridge_stands_by_until_the_first_one_ends(
    host: Host, bridge: BridgeProcess, second: BridgeProcess, number: int, lock_is_removed: bool
) -> None:
    runtime = bridge.serve()
    if lock_is_removed:
        shutil.rmtree(host.root / "v1bridge.record")
    second.outside()
    said = f"info standing by: the bridge with pid {bridge.pid} serves this node; connecting when it ends\n"
    assert wait_until(lambda: said in second.log)
    host.configure(bridge.node.keeper())
    start_container(runtime)
    socket = host.root / "v1bridge.sock"
    assert status_of(socket)["bridge"]["pid"] == bridge.pid
    assert "connected as" not in second.log
    bridge.signal(number)  # SIGKILL leaves its socket
    bridge.wait()
    runtime = bridge.accept()
    runtime.start()
    assert wait_until(lambda: "info the other bridge has ended\n" in second.log)
    assert status_of(socket)["bridge"]["pid"] == second.pid
    start_container(runtime)
    assert bridge.node.steps == 2 * [("create", "1f92")]
    assert second.log.count("standing by") == 1


def test_a_bridge_that_stands_by_ends_at_sigterm(
    bridge: BridgeProcess, second: BridgeProcess
) -> None:
    bridge.serve()
    second.outside()
    assert wait_until(lambda: "standing by" in second.log)
    second.signal(signal.SIGTERM)
    assert second.wait() == 0
    assert "connected as" not in second.log


def test_a_launched_one_serves_and_says_that_there_is_another(
    bridge: BridgeProcess, second: BridgeProcess
) -> None:
    bridge.serve()
    launched = second.launch(command=IMPATIENT)
    # It is registered, configured and synchronized meanwhile.
    launched.start(config=second.settings())
    start_container(launched)
    said = f"error the bridge with pid {bridge.pid} runs on this node, beside this one, which the runtime has"
    assert wait_until(lambda: said in second.log)
    bridge.signal(signal.SIGKILL)
    assert wait_until(lambda: "info the other bridge has ended\n" in second.log)
    launched.close()
    assert second.wait() == 0
