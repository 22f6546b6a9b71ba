"""A node's life: containers, edits, failures, restarts and second lives in any order; what holds at each rest.

A container that lacks a plugin's work is listed, or outdated, and no other is; work that is done is not done again.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from nri.client import Invoker
from nri.node import in_use
from nri.process.conversation import Output
from nri.v1bridge import Bridge, BridgeOptions, late, memory
from nri.v2 import api
from nri.v2.stub import RuntimeInfo
from nri.v2.ttrpc import StatusError
from tests.support.node import call
from tests.support.pods import container, pod
from tests.support.waiting import wait_until

POD, POD_PID = "6efd", 100_000_000  # of no process
TYPES, IDS = ("a", "b", "c"), ("c1", "c2", "c3")
ENTRIES = st.lists(
    st.tuples(st.sampled_from(TYPES), st.integers(1, 2), st.booleans()), max_size=3, unique_by=lambda entry: entry[0]
)


class World:
    """The plugins, and what they have done for each container that runs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.broken: set[str] = set()
        self.done: dict[str, dict[str, int]] = {}
        self.pids: dict[str, int] = {}
        for type_ in TYPES:
            (root / type_).write_text("")

    def touch(self, type_: str) -> None:
        """Install the executable anew."""
        (self.root / f"{type_}.new").write_text("")
        (self.root / f"{type_}.new").rename(self.root / type_)

    def run(self, type_: str, request: dict[str, Any]) -> dict[str, Any]:
        if type_ in self.broken:
            return {"plugin": type_, "version": "0.1", "error": "broken"}
        done = self.done.setdefault(request["id"], {})
        conf: Any = request.get("conf")
        if request["state"] == "create":
            assert done.get(type_) != conf, "it has had this create"
            if type_ in done:
                last = request["prevResult"]["metadata"]
                assert request["late"] is True
                assert last == {"conf": str(done[type_])}
            done[type_] = conf
        elif request.get("release"):
            assert done.pop(type_) == conf
        return {"plugin": type_, "version": "0.1", "error": "", "metadata": {"conf": str(conf)}}


class Plugins(Invoker):
    """Runs the plugins of a world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def find(self, plugin: str) -> str:
        return str(self._world.root / plugin)

    def run(self, path: str, plugin: str, request: bytes, *_: Any, **__: Any) -> Output:
        output = Output()
        output.stdout = json.dumps(self._world.run(plugin, json.loads(request))).encode()
        output.stderr, output.stopped, output.status = "", "", 0
        return output


class Life(RuleBasedStateMachine):
    """One node."""

    place: Path  # where each has its directory

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(memory, "PAUSES", (0.0, 0.0, 0.0))
        self.patch.setattr(late, "PAUSES", (0.0, 0.0, 0.0))
        self.now = 100.0
        self.patch.setattr(in_use, "boottime", lambda: self.now)
        self.root = Path(tempfile.mkdtemp(dir=self.place))
        (self.root / "resource.d").mkdir()
        (self.root / "bin").mkdir()
        self.file = self.root / "resource.d/10.conf"
        self.world = World(self.root / "bin")
        self.entries: list[tuple[str, int, bool]] = []
        self.ignores: dict[str, bool] = {}
        self.pid = POD_PID
        self.world.pids[POD] = POD_PID
        self.bridge: Bridge | None = None
        self.is_connected = False

    def teardown(self) -> None:
        self.end()
        self.patch.undo()
        shutil.rmtree(self.root, ignore_errors=True)  # the thread may be at its last look

    def end(self) -> None:
        if self.bridge is not None:
            self.bridge.chains.stop(for_good=True)
            assert self.bridge.chains.wait_until_idle(60)
            self.bridge.close()
        self.bridge, self.is_connected = None, False

    @property
    def chains(self) -> Any:
        assert self.bridge is not None
        return self.bridge.chains

    def settle(self) -> None:
        """Wait until nothing is due, and all is compared."""

        def is_at_rest() -> bool:
            stamp = self.chains.late.judge()
            self.chains.late.start()
            with self.chains.memory.changed:
                rows = [row for row in self.chains.memory.rows.values() if row.subject is not None]
                return all(row.state not in (memory.DUE, memory.RUNNING) for row in rows) and all(
                    row.attempts.stamp == stamp for row in rows if row.state in (memory.DONE, memory.FAILED)
                )

        assert wait_until(is_at_rest)

    def message(self, id_: str) -> api.Container:
        return container(id=id_, name=id_, pid=self.world.pids[id_], state=api.ContainerState.CONTAINER_RUNNING)

    def launch(self, id_: str) -> None:
        self.pid += 1
        self.world.pids[id_] = self.pid
        self.world.done.pop(id_, None)

    # What an operator does

    @initialize(entries=ENTRIES)
    def begin(self, entries: list[tuple[str, int, bool]]) -> None:
        self.edit(entries)
        self.connect()

    @rule(entries=ENTRIES)
    def edit(self, entries: list[tuple[str, int, bool]]) -> None:
        plugins = [
            {"type": type_, "conf": conf, "failurePolicy": "ignore" if ignores else "fail"}
            for type_, conf, ignores in entries
        ]
        self.file.write_text(json.dumps({"version": "0.1", "plugins": plugins}))
        self.entries = entries

    @rule(content=st.sampled_from(["", "{", None]), later=st.sampled_from([0.0, 1.0, 5.0]))
    def spoil(self, content: str | None, later: float) -> None:
        """Away or invalid, also for a new bridge: the last valid set stays."""
        if self.bridge is not None:
            self.chains.client()  # it has been in use
            if content is None:
                self.file.unlink(missing_ok=True)
            else:
                self.file.write_text(content)
            self.now += later

    @rule(type_=st.sampled_from(TYPES))
    def break_plugin(self, type_: str) -> None:
        self.world.broken.add(type_)

    @rule(type_=st.sampled_from(TYPES))
    def upgrade_plugin(self, type_: str) -> None:
        self.world.broken.discard(type_)
        self.world.touch(type_)

    @precondition(lambda self: self.is_connected)
    @rule(plugin=st.sampled_from(["", *TYPES]))
    def reapply(self, plugin: str) -> None:
        self.settle()
        self.chains.reapply(plugin, "", "", is_dry=False)

    # What the bridge goes through

    @rule()
    def kill(self) -> None:
        """As far as the record tells it from an end: nothing runs now."""
        if self.bridge is not None:
            self.settle_if_connected()
            self.end()

    def settle_if_connected(self) -> None:
        if self.is_connected:
            self.settle()

    @precondition(lambda self: self.is_connected)
    @rule()
    def disconnect(self) -> None:
        assert self.bridge is not None
        self.bridge.disconnected()
        self.is_connected = False

    @precondition(lambda self: not self.is_connected)
    @rule()
    def connect(self) -> None:
        if self.bridge is None:
            options = BridgeOptions(
                conf_dir=str(self.root / "resource.d"),
                conf_file=str(self.root / "conf.json"),
                record_dir=str(self.root / "run/v1bridge.record"),
            )
            self.bridge = Bridge(options, invoker=Plugins(self.world))
        self.bridge.configure("", RuntimeInfo(name="containerd", version="2.1.0"))
        self.bridge.synchronize([pod(pid=POD_PID)], [self.message(id_) for id_ in self.world.pids if id_ != POD])
        self.bridge.idle()
        self.is_connected = True

    # What containers do

    @rule(id_=st.sampled_from(IDS))
    def start(self, id_: str) -> None:
        if id_ in self.world.pids:
            return
        self.launch(id_)
        if self.is_connected:
            assert self.bridge is not None
            request = api.StartContainerRequest(pod=pod(pid=POD_PID), container=self.message(id_))
            try:
                self.bridge.start_container(request, call())
            except StatusError:
                del self.world.pids[id_]

    @rule(id_=st.sampled_from(IDS))
    def stop(self, id_: str) -> None:
        if self.world.pids.pop(id_, None) and self.is_connected:
            assert self.bridge is not None
            stopped = container(id=id_, name=id_)
            try:
                self.bridge.stop_container(api.StopContainerRequest(pod=pod(pid=POD_PID), container=stopped), call())
            except StatusError as error:
                assert "broken" in str(error)

    @precondition(lambda self: not self.is_connected)
    @rule(id_=st.sampled_from(IDS))
    def live_again(self, id_: str) -> None:
        """Its id is another container's now."""
        if id_ in self.world.pids:
            self.launch(id_)

    # What holds

    @invariant()
    def nothing_is_silent(self) -> None:
        if not self.is_connected:
            return
        self.settle()
        listed = {entry["id"] for entry in self.chains.describe()["withoutPlugins"]}
        current = {type_: conf for type_, conf, _ in self.chains_entries()}
        outdated: dict[str, dict[str, int]] = {}
        for id_ in self.world.pids:
            done = self.world.done.get(id_, {})
            is_well = (
                all(done.get(type_) == conf for type_, conf in current.items()) and done.keys() <= current.keys()
            )
            assert id_ in listed or all(type_ in done for type_ in current), (id_, done, current)
            assert id_ not in listed or not is_well, (id_, done, current)  # a reapply or release has failed
            for type_ in done:
                if type_ not in current:
                    outdated.setdefault(type_, {"reapply": 0, "release": 0})["release"] += 1
                elif done[type_] != current[type_]:
                    outdated.setdefault(type_, {"reapply": 0, "release": 0})["reapply"] += 1
        assert listed <= self.world.pids.keys()
        told = {entry["plugin"]: entry for entry in self.chains.describe()["outdated"]}
        assert {plugin: {key: told[plugin][key] for key in ("reapply", "release")} for plugin in told} == outdated

    def chains_entries(self) -> list[tuple[str, int, bool]]:
        """The configuration in use is the one that was valid last."""
        used = self.chains.client().config.plugins
        assert [(entry.type, entry.conf) for entry in used] == [(type_, conf) for type_, conf, _ in self.entries]
        return self.entries


def test_each_container_has_had_its_plugins(tmp_path: Path) -> None:
    Life.place = tmp_path
    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
