"""What an author writes with nri.v2.stub and nri.v2.api, and the answers of the embedded runtime."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nri.adaptation import Runtime
from nri.v2 import api, stub
from nri.v2.stub.plugin import HANDLERS
from tests.support.v2_plugin import container, pod
from tests.support.waiting import SOON


class Listening(stub.V2Plugin):
    """Handles every event but the validation, and subscribes to its choice."""

    def __init__(self, *choice: int | str) -> None:
        self.choice = choice
        self.arrived: list[str] = []
        for name in HANDLERS.values():
            if name != "validate_container_adjustment":
                setattr(self, name, lambda request, call, name=name: self.arrived.append(name))

    def configure(self, config: str, runtime: stub.RuntimeInfo) -> tuple[int | str, ...]:
        return self.choice


class Answering(stub.V2Plugin):
    """Answers CreateContainer with an adjustment, and asks for updates."""

    def __init__(self, adjustment: api.ContainerAdjustment, *updates: api.ContainerUpdate) -> None:
        self.response = api.CreateContainerResponse(adjust=adjustment, update=updates)

    def create_container(self, request: Any, call: object) -> api.CreateContainerResponse:
        return self.response


@contextmanager
def attached(runtime: Runtime, plugin: stub.V2Plugin, index: str = "10") -> Iterator[stub.Runner]:
    ours, theirs = socket.socketpair()
    runner = stub.Runner(plugin, name="test", index=index, sock=theirs, environment={})
    serving = threading.Thread(target=runner.run)
    serving.start()
    try:
        runtime.attach(ours)
        yield runner
    finally:
        runner.stop()
        serving.join(SOON)
        assert not serving.is_alive()


def test_an_adjustment_and_an_update_do_what_they_say() -> None:
    first = api.ContainerAdjustment(
        env=[{"key": "GONE", "value": "1"}, {"key": "LEVEL", "value": "low"}],
        args=["", "sleep", "1"],
        mounts=[{"destination": "/gone", "type": "bind", "source": "/srv", "options": ["rbind"]}],
        linux={"resources": {"cpu": {"shares": {"value": 2}}}},
    )
    second = api.ContainerAdjustment(
        env=[{"key": "-GONE"}, {"key": "-LEVEL"}, {"key": "LEVEL", "value": "high"}],
        args=["", "sleep", "2"],
        mounts=[{"destination": "-/gone"}, {"destination": "-/own"}],
        linux={"resources": {"memory": {"limit": {"value": 2**20}}}},
    )
    update_other = api.ContainerUpdate(container_id="other", linux={"resources": {"cpu": {"cpus": "0-1"}}})
    with Runtime() as runtime, attached(runtime, Answering(first)):
        runtime.run_pod_sandbox(pod())
        runtime.create_container(pod(), container("other"))
        with attached(runtime, Answering(second, update_other), "20"):
            own = {"destination": "/own", "type": "bind", "source": "/own"}
            created = runtime.create_container(pod(), container(args=["sh"], env=["A=1"], mounts=[own]))
    assert created.container is not None
    assert list(created.container.args) == ["sleep", "2"]
    assert list(created.container.env) == ["A=1", "LEVEL=high"]
    assert list(created.container.mounts) == []
    assert created.container.linux.resources.cpu.shares.value == 2
    assert created.container.linux.resources.memory.limit.value == 2**20
    (update,) = created.updates
    assert (update.container_id, update.linux.resources.cpu.cpus) == ("other", "0-1")


def test_a_plugin_updates_containers_when_it_wants_to() -> None:
    resources = {"cpu": {"quota": {"value": 9}}, "unified": {"memory.high": "1"}}
    update = api.ContainerUpdate(container_id="app", linux={"resources": resources})
    with Runtime() as runtime, attached(runtime, Listening()) as runner:
        runtime.run_pod_sandbox(pod())
        runtime.create_container(pod(), container())
        assert runner.update_containers([update], timeout=SOON) == []
        assert runtime.store.containers["app"].linux.resources == update.linux.resources
        assert runner.request_timeout == 2.0
