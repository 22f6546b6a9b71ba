"""A node's life: containers, edits, failures, kills, builds and second lives in any order; what holds at rest.

A container that lacks a plugin's work is listed, or outdated, and no other is; work that is done is not done again.
The bridge has the containers of a runtime. Beside it, the hosts that run once have theirs: they start with all of
their plugins, or not at all, and each plugin gets its own last result at the end.
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
from nri.config import ConfigError
from nri.config.site import Site
from nri.errors import NRIError
from nri.node import in_use, short_lived
from nri.process.conversation import Output
from nri.process.deadline import Deadline
from nri.types.v1 import Request, Spec
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
    st.tuples(st.sampled_from(TYPES), st.integers(1, 2), st.booleans()),
    max_size=3,
    unique_by=lambda entry: entry[0],
)


class KilledError(BaseException):
    """The host is killed: nothing after it runs."""


class World:
    """The plugins, and what they have done for each container that runs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.broken: set[str] = set()
        self.kills = ""  # the plugin at which the host is killed
        self.done: dict[str, dict[str, int]] = {}
        self.pids: dict[str, int] = {}
        for type_ in TYPES:
            (root / type_).write_text("")

    def touch(self, type_: str) -> None:
        """Install the executable anew."""
        (self.root / f"{type_}.new").write_text("")
        (self.root / f"{type_}.new").rename(self.root / type_)

    def run(self, type_: str, request: dict[str, Any]) -> dict[str, Any]:
        if type_ == self.kills:
            self.kills = ""
            raise KilledError
        if type_ in self.broken:
            return {"plugin": type_, "version": "0.1", "error": "broken"}
        done = self.done.setdefault(request["id"], {})
        conf: Any = request.get("conf")
        if request["state"] == "delete" and not request.get("release"):
            last = request.get("prevResult", {}).get("metadata")
            assert last == ({"conf": str(done[type_])} if type_ in done else None)
        elif request["state"] == "create":
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
        super().__init__(check_owner=False)
        self._world = world

    def find(self, plugin: str) -> str:
        return str(self._world.root / plugin)

    def run(self, path: str, plugin: str, request: bytes, *_: Any, **__: Any) -> Output:
        output = Output()
        output.stdout = json.dumps(self._world.run(plugin, json.loads(request))).encode()
        output.stderr, output.stopped, output.status = "", "", 0
        return output


def as_newer(value: Any) -> Any:
    """A value with keys that no build knows yet, at each level that has keys."""
    if isinstance(value, list):
        return [as_newer(item) for item in value]
    if not isinstance(value, dict):
        return value
    known = {"states", "resources"}  # these have names of states and of OCI as keys
    more = {} if "create" in value or "setup" in value else {"x": 1, "y": {"z": []}}
    return {
        key: item if key in known and key == "resources" else as_newer(item)
        for key, item in value.items()
    } | more


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
        self.once: set[str] = set()  # the containers of the hosts that run once

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
                    row.attempts.stamp == stamp
                    for row in rows
                    if row.state in (memory.DONE, memory.FAILED)
                )

        assert wait_until(is_at_rest)

    def message(self, id_: str) -> api.Container:
        return container(
            id=id_, name=id_, pid=self.world.pids[id_], state=api.ContainerState.CONTAINER_RUNNING
        )

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
        self.bridge.synchronize(
            [pod(pid=POD_PID)], [self.message(id_) for id_ in self.world.pids if id_ != POD]
        )
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
                self.bridge.stop_container(
                    api.StopContainerRequest(pod=pod(pid=POD_PID), container=stopped), call()
                )
            except StatusError as error:
                assert "broken" in str(error)

    @precondition(lambda self: not self.is_connected)
    @rule(id_=st.sampled_from(IDS))
    def live_again(self, id_: str) -> None:
        """Its id is another container's now."""
        if id_ in self.world.pids:
            self.launch(id_)

    @precondition(lambda self: self.is_connected)
    @rule(id_=st.sampled_from(IDS), type_=st.sampled_from(TYPES), starts=st.booleans())
    def kill_in_the_middle(self, id_: str, type_: str, starts: bool) -> None:
        """The bridge is killed while a plugin runs for a start, which the runtime goes on with, or not."""
        if id_ in self.world.pids or type_ not in {entry[0] for entry in self.entries}:
            return
        self.settle()
        self.launch(id_)
        self.world.kills = type_
        assert self.bridge is not None
        request = api.StartContainerRequest(pod=pod(pid=POD_PID), container=self.message(id_))
        try:
            self.bridge.start_container(request, call())
        except KilledError:
            pass
        except StatusError:  # a plugin before it has refused
            starts = False
        self.world.kills = ""
        if not starts:
            self.world.pids.pop(id_, None)
            self.world.done.pop(id_, None)
        self.end()

    @precondition(lambda self: self.bridge is None)
    @rule()
    def be_of_a_newer_build(self) -> None:
        """The record is written as a newer build would, with more keys."""
        for path in (self.root / "run/v1bridge.record").glob("[!.]*.json"):
            path.write_text(json.dumps(as_newer(json.loads(path.read_text()))))

    # The hosts that run once

    def host(self, kind: str) -> short_lived.ShortHost:
        site = Site(
            conf_dir=str(self.root / "resource.d"),
            conf_file=str(self.root / "conf.json"),
            record_dir=str(self.root / "run/v1bridge.record"),
        )
        host = short_lived.ShortHost(
            site,
            Deadline(0.01),
            lambda line: None,
            sends_setup=kind == "runc",
        )
        host.client.invoker = Plugins(self.world)
        return host

    def known(self, kind: str) -> short_lived.Known:
        path = self.root / f"run/v1bridge.record/.{kind}.{kind}.json"
        return short_lived.Known(
            str(path),
            Request(state="create", id=kind, spec=Spec()),
            short_lived.facts_in(str(path), lambda line: None),
        )

    @rule(kind=st.sampled_from(["hook", "runc"]))
    def start_by_a_host_that_runs_once(self, kind: str) -> None:
        if kind in self.once:
            return
        self.world.done.pop(kind, None)
        try:
            host = self.host(kind)
        except ConfigError:  # a file is away for the moment, or there has been no valid one
            return
        wanted = {entry.type: entry.conf for entry in host.client.config.plugins}
        ignored = {
            entry.type for entry in host.client.config.plugins if entry.failure_policy == "ignore"
        }
        try:
            host.reconcile(self.known(kind), "create", Deadline(60.0))
            done = self.world.done.get(kind, {})
            assert done.items() <= wanted.items()
            assert wanted.keys() - done.keys() <= ignored & self.world.broken
            self.once.add(kind)
        except NRIError:
            assert (wanted.keys() - ignored) & self.world.broken
            self.delete(kind)

    @rule(kind=st.sampled_from(["hook", "runc"]))
    def end_by_a_host_that_runs_once(self, kind: str) -> None:
        if kind in self.once:
            self.once.remove(kind)
            self.delete(kind)

    def delete(self, kind: str) -> None:
        container = self.known(kind)
        try:
            self.host(kind).reconcile(container, "delete", Deadline(60.0))
        except ConfigError:
            pass
        except NRIError as error:
            assert "broken" in str(error)
        Path(container.path).unlink(missing_ok=True)

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
                all(done.get(type_) == conf for type_, conf in current.items())
                and done.keys() <= current.keys()
            )
            assert id_ in listed or all(type_ in done for type_ in current), (id_, done, current)
            # A reapply or release has failed.
            assert id_ not in listed or not is_well, (id_, done, current)
            for type_ in done:
                if type_ not in current:
                    outdated.setdefault(type_, {"reapply": 0, "release": 0})["release"] += 1
                elif done[type_] != current[type_]:
                    outdated.setdefault(type_, {"reapply": 0, "release": 0})["reapply"] += 1
        assert listed <= self.world.pids.keys()
        told = {entry["plugin"]: entry for entry in self.chains.describe()["outdated"]}
        assert {
            plugin: {key: told[plugin][key] for key in ("reapply", "release")} for plugin in told
        } == outdated

    def chains_entries(self) -> list[tuple[str, int, bool]]:
        """The configuration in use is the one that was valid last."""
        used = self.chains.client().config.plugins
        assert [(entry.type, entry.conf) for entry in used] == [
            (type_, conf) for type_, conf, _ in self.entries
        ]
        return self.entries


def test_each_container_has_had_its_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path.cwd())  # a hook in this process goes to another directory
    Life.place = tmp_path
    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=60,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
