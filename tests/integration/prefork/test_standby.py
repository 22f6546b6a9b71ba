"""Foreign plugins that wait for their request, because their configuration says that they may."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from nri.client import ChainError
from nri.config.entries import PluginEntry
from nri.prefork.pool import pool
from nri.prefork.pool.pool import Pool
from tests.integration.prefork.preforked import is_pool_idle, nothing_is_left
from tests.support.host import request
from tests.support.processes import is_running
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.host import Host

# It notes when it begins; what it does with its request is in the conf.
FOREIGN = """#!/bin/sh
echo $$ >> {notes}
read -r request
eval "$(printf '%s' "$request" | sed -n 's/.*"do":"\\([^"]*\\)".*/\\1/p')"
echo '{{"plugin": "foreign", "version": "0.1", "metadata": {{"pid": "'$$'"}}}}'
"""


class Foreign:
    def __init__(self, host: Host) -> None:
        self.host = host
        self.notes = host.root / "notes"
        self.pool = Pool()
        self.path = self.install()
        self.say("always")

    def install(self) -> Path:
        return self.host.script("foreign", FOREIGN.format(notes=self.notes))

    def say(self, prefork: str) -> None:
        self.pool.keep([("foreign", prefork)])

    def pids(self) -> list[int]:
        return [int(pid) for pid in self.notes.read_text().split()] if self.notes.exists() else []

    def run(self, do: str = "", **options: Any) -> int:
        """The pid of the process that has answered."""
        client = self.host.client(
            PluginEntry(type="foreign", conf={"do": do}), pool=self.pool, log=lambda *_: None, **options
        )
        (result,) = client.invoke(request(labels={}), "create")
        return int(result.metadata["pid"])

    def is_waiting(self) -> bool:
        """Whether one has answered that had begun before it was asked."""
        before = self.pids()
        return self.run() in before


@pytest.fixture
def foreign(host: Host) -> Iterator[Foreign]:
    foreign = Foreign(host)
    yield foreign
    foreign.pool.close()
    nothing_is_left(host)


def test_one_that_may_is_started_before_it_is_asked_and_each_time_anew(foreign: Foreign) -> None:
    assert not foreign.is_waiting()
    assert wait_until(foreign.is_waiting)
    answered = [foreign.run() for _ in range(5)]
    assert len(set(answered)) == 5


def test_two_wait_so_that_requests_in_a_row_wait_for_no_start(foreign: Foreign) -> None:
    assert wait_until(foreign.is_waiting)
    for _ in range(3):
        foreign.pool.tidy()  # as the host does when a request has its answer
        assert wait_until(lambda: len([pid for pid in foreign.pids() if is_running(pid)]) == 2)
        waiting = [pid for pid in foreign.pids() if is_running(pid)]
        assert {foreign.run(), foreign.run()} == set(waiting)


@pytest.mark.parametrize("words", [("",), ("never",), ("always", "never"), ("", "always")])
def test_one_is_started_before_its_request_only_if_all_its_entries_say_so(
    foreign: Foreign, words: tuple[str, ...]
) -> None:
    foreign.pool.keep([("foreign", word) for word in words])
    for number in range(1, 4):
        foreign.run()
        assert wait_until(is_pool_idle)
        assert len(foreign.pids()) == number
    assert wait_until(lambda: not foreign.host.processes())


def test_when_it_may_no_longer_what_waits_ends(foreign: Foreign) -> None:
    assert wait_until(foreign.is_waiting)
    foreign.say("never")
    assert wait_until(lambda: not foreign.host.processes())
    assert not foreign.is_waiting()


def test_one_that_hangs_is_killed_at_its_deadline_and_one_that_fails_is_told(foreign: Foreign) -> None:
    assert wait_until(foreign.is_waiting)
    with pytest.raises(ChainError, match=r"killed: no result after 0\.3 s"):
        foreign.run("sleep 1000", timeout=0.3)
    assert wait_until(foreign.is_waiting)
    with pytest.raises(ChainError, match="exit status 7"):
        foreign.run("exit 7")
    assert wait_until(foreign.is_waiting)


def test_one_that_was_replaced_counts_at_once(foreign: Foreign) -> None:
    assert wait_until(foreign.is_waiting)
    waiting = foreign.pids()
    foreign.path.unlink()
    foreign.install()
    assert foreign.run() not in waiting
    assert wait_until(lambda: not any(is_running(pid) for pid in waiting))


def test_those_that_were_killed_while_they_waited_cost_no_request(foreign: Foreign) -> None:
    assert wait_until(foreign.is_waiting)
    foreign.pool.tidy()
    assert wait_until(lambda: len([pid for pid in foreign.pids() if is_running(pid)]) == 2)
    waiting = [pid for pid in foreign.pids() if is_running(pid)]
    for pid in waiting:
        os.kill(pid, 9)
    assert wait_until(lambda: not any(is_running(pid) for pid in waiting))
    for _ in range(3):
        assert foreign.run()


def test_one_that_does_not_wait_is_started_for_each_request(
    foreign: Foreign, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "RETRY", SOON * 10)  # else it is tried again while the test counts
    answer = json.dumps({"plugin": "foreign", "version": "0.1", "metadata": {"pid": "1"}})
    foreign.host.script("foreign", f"#!/bin/sh\necho $$ >> {foreign.notes}\necho '{answer}'\n")
    assert wait_until(lambda: foreign.run() == 1 and "does not wait for its request" in caplog.text)
    began = len(foreign.pids())
    for number in range(1, 5):
        assert foreign.run() == 1
        assert len(foreign.pids()) == began + number
