"""The states of docs/architecture.md, walked at random: events, abandoned ones, kills, edits, upgrades, reconnects.

After each step every event has its answer, every plugin has run as often as it should, in order, and nothing runs.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import nri
from nri.errors import NRIError
from nri.v2 import api
from tests.integration.v1bridge.session import Connected
from tests.support.connected import at_work
from tests.support.host import Host, plugin
from tests.support.pods import container, pod
from tests.support.waiting import SOON, wait_until

SOURCE = str(Path(nri.__file__).parents[1])
ABANDONED = "the runtime has abandoned the event"

PLUGIN = """#!/bin/sh
[ "$1" = invoke ] || exit 1  # it may replace a plugin that was to be asked for its version
set -- $(sed 's/.*"state":"\\([a-z]*\\)".*"id":"\\([^"]*\\)".*/\\1 \\2/')
echo "$1 $2 {name}" >>{root}/begun
while [ -e {root}/hold ] && [ $1 != delete ]; do sleep 0.01; done
echo "$1 $2 {name}" >>{root}/done
echo '{{}}'
"""

RESIDENT = """#!{python}
import os, sys, time
sys.path.insert(0, {source!r})
from nri.skel import Plugin, main


def note(file, request):
    with open("{root}/" + file, "a") as out:
        out.write(f"{{request.state}} {{request.id}} {name}\\n")


class First(Plugin):
    type = "first"
    resident = True

    def invoke(self, request):
        note("begun", request)
        while os.path.exists("{root}/hold") and request.state != "delete":
            time.sleep(0.01)
        note("done", request)
        return request.new_result(self.type)


main(First())
"""


class Asked(threading.Thread):
    """An event, sent by a thread that waits for the answer."""

    def __init__(self, node: Connected, state: str, id_: str) -> None:
        super().__init__()
        self._node, self._state, self._id = node, state, id_
        self.answer: str | None = None
        self.start()

    def run(self) -> None:
        event, request = {
            "create": (api.Event.START_CONTAINER, api.StartContainerRequest),
            "delete": (api.Event.STOP_CONTAINER, api.StopContainerRequest),
            "update": (api.Event.POST_UPDATE_CONTAINER, api.PostUpdateContainerRequest),
        }[self._state]
        try:
            self._node.fake.event(event, request(pod=pod(), container=container(id=self._id)), timeout=SOON)
            self.answer = ""
        except NRIError as error:
            self.answer = str(error)

    def end(self) -> str:
        self.join(SOON)
        assert self.answer is not None, f"{self._state} {self._id} has no answer"
        return self.answer


class Bridge(RuleBasedStateMachine):
    """The bridge, and a model of what its plugins have to see."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.host = Host(self.root)
        for name in ("done", "begun"):
            (self.root / name).touch()
        self.build, self.is_resident, self.has_second = 0, False, False
        self.may_stay = False  # a resident, until an event finds that its file is another
        self.expected: list[str] = []  # lines of the file `done`
        self.alive: list[str] = []  # containers that run
        self.count = 0
        self.upgrade()
        self.edit()
        self.node = Connected(self.host)
        self.node.fake.start()
        self.node.fake.event(api.Event.RUN_POD_SANDBOX, api.RunPodSandboxRequest(pod=pod()))
        self.expected += self.chain("create", pod().id)

    # the model

    def new(self) -> str:
        self.count += 1
        return f"c{self.count}"

    def chain(self, state: str, id_: str) -> list[str]:
        names = [f"first{self.build}", *(["second"] if self.has_second else [])]
        return [f"{state} {id_} {name}" for name in names]

    def done(self) -> list[str]:
        return (self.root / "done").read_text().splitlines()

    def send(self, state: str, id_: str) -> Asked:
        return Asked(self.node, state, id_)

    def hold(self) -> None:
        (self.root / "hold").touch()

    def release(self) -> None:
        (self.root / "hold").unlink()

    def begins(self, line: str) -> None:
        begun = self.root / "begun"
        assert wait_until(lambda: f"{line}\n" in begun.read_text()), f"{line} does not begin"

    def begins_held(self, state: str, id_: str) -> Asked:
        asked = self.send(state, id_)
        self.begins(self.chain(state, id_)[0])
        return asked

    # what happens

    @rule()
    def create(self) -> None:
        id_ = self.new()
        assert self.send("create", id_).end() == ""
        self.may_stay = self.is_resident
        self.expected += self.chain("create", id_)
        self.alive.append(id_)

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), state=st.sampled_from(["update", "delete"]))
    def change(self, data: st.DataObject, state: str) -> None:
        id_ = data.draw(st.sampled_from(self.alive))
        assert self.send(state, id_).end() == ""
        self.expected += self.chain(state, id_)
        if state == "delete":
            self.alive.remove(id_)

    @rule(others=st.integers(0, 2))
    def abandon(self, others: int) -> None:
        """A create is abandoned, then others that come one after the other; the last event is answered."""
        self.hold()
        asked = [self.begins_held("create", self.new()) for _ in range(1 + others)]
        last = self.new()
        last_asked = self.begins_held("create", last)
        self.release()
        for each in asked:
            assert each.end().endswith(f"killed: {ABANDONED}")
        assert last_asked.end() == ""
        self.expected += self.chain("create", last)
        self.alive.append(last)

    @rule()
    def kill_the_plugin(self) -> None:
        self.hold()
        asked = self.begins_held("create", self.new())
        for pid in self.host.processes():
            os.kill(pid, signal.SIGKILL)
        assert "ended by signal 9" in asked.end()
        self.release()

    @rule(is_resident=st.booleans())
    def upgrade(self, is_resident: bool = False) -> None:
        self.build += 1
        self.may_stay, self.is_resident = self.may_stay or is_resident, is_resident
        text = RESIDENT if is_resident else PLUGIN
        text = text.format(root=self.root, name=f"first{self.build}", python=sys.executable, source=SOURCE)
        new = self.host.script("first.new", text)
        os.replace(new, self.host.bin / "first")

    @rule(has_second=st.booleans())
    def edit(self, has_second: bool = False) -> None:
        self.has_second = has_second
        self.host.script("second", PLUGIN.format(root=self.root, name="second"))
        entries = [plugin("first", states=["update"]), *([plugin("second", states=["update"])] if has_second else [])]
        self.host.configure(*entries, name="10-test.conf.new")
        os.replace(self.host.conf / "10-test.conf.new", self.host.conf / "10-test.conf")

    @rule(is_in_the_middle=st.booleans(), missed=st.integers(0, 2))
    def reconnect(self, is_in_the_middle: bool, missed: int) -> None:
        """The runtime ends, perhaps in the middle of an event; what starts meanwhile gets a late create."""
        if is_in_the_middle:
            id_ = self.new()
            self.hold()
            asked = self.begins_held("create", id_)
            self.node.fake.close()
            assert asked.end() == "the runtime ends"
            self.release()
            self.expected += self.chain("create", id_)  # it goes on, for a container that never starts
        self.node.close()
        found = [self.new() for _ in range(missed)]
        self.node.connect()
        self.node.fake.configure()
        self.alive += found
        running = api.ContainerState.CONTAINER_RUNNING
        containers = [container(id=each, state=running) for each in self.alive]
        self.node.fake.synchronize([pod()], containers)
        late = [line for id_ in found for line in self.chain("create", id_)]
        self.expected += late
        wait_until(lambda: self.done() == self.expected)
        assert self.done() == self.expected

    @invariant()
    def all_is_as_it_should_be(self) -> None:
        assert self.done() == self.expected
        assert self.node.bridge.wait_until_idle(SOON)
        assert wait_until(lambda: len(self.host.processes()) <= self.may_stay)
        assert at_work() == ["relief", "relief"]  # ours and the runtime's

    def teardown(self) -> None:
        self.node.close()
        for function in reversed(self.host.closing):
            function()
        shutil.rmtree(self.root)


TestBridge = Bridge.TestCase
TestBridge.settings = settings(
    max_examples=30, stateful_step_count=10, deadline=None, suppress_health_check=list(HealthCheck)
)
