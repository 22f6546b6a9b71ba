"""What the bridge counts, and what it keeps of its exchanges with pods."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from nri.client import PluginError, Step
from nri.config.entries import PluginEntry
from nri.types.v1 import Request, Result
from nri.v1bridge import counts
from nri.v1bridge.counts import BOUNDS, MAX_PLUGINS, Histogram
from nri.v1bridge.exchanges import MAX_TEXT, MOST, PodExchange
from nri.v1bridge.ledger import MAX_WITHOUT, Ledger
from tests.support.node import call

if TYPE_CHECKING:
    from nri.v2.ttrpc import Call

CONF = "/etc/nri/resource.d/10.conf"


def step(plugin: str = "a", error: str = "", *, seconds: float = 0.002, source: str = CONF, **about: Any) -> Step:
    made = Step(PluginEntry(type=plugin, source=source), about.get("request", b'{"id": "c1"}'))
    made.seconds, made.binary, made.stdout = (
        seconds,
        f"/opt/nri/bin/{plugin}",
        about.get("stdout", b'{"plugin": "a"}'),
    )
    made.is_ignored = about.get("ignored", False)
    if error:
        made.error = PluginError(plugin, error, killed=about.get("killed", False))
    else:
        made.result = Result(plugin=plugin)
    return made


def ran(ledger: Ledger, *steps: Step, state: str = "create", name: str = "default/web/app", error: str = "") -> None:
    request = Request(state=state, id="c1", sandbox_id="p1")
    ledger.ran(name, request, "StartContainer", steps, 0.004, error)


def answered(event: str, begun: float, ended: float, *, seconds: float = 2.0) -> Call:
    made = call(seconds)
    made.event, made.begun, made.answered = event, made.received + begun, made.received + ended
    return made


def test_a_value_counts_below_the_bound_that_it_does_not_exceed() -> None:
    histogram = Histogram()
    for value in (0.0, 0.001, 0.0011, 5.0, 5.1):
        histogram.add(value)
    assert histogram.to_value() == {
        "bounds": [*BOUNDS],
        "counts": [2, 1, *[0] * (len(BOUNDS) - 3), 1, 1],
        "sum": 0.0 + 0.001 + 0.0011 + 5.0 + 5.1,
    }


def test_the_runs_of_a_plugin_are_counted_by_state_and_outcome() -> None:
    ledger = Ledger()
    ran(ledger, step(), step("b", "no cgroup", ignored=True))
    ran(ledger, step(error="no result after 2 s", killed=True), error="plugin a: killed")
    ran(ledger, step(error="exit status 3"), state="delete")
    ran(ledger, step(), state="delete")
    runs = ledger.runs("a", CONF)
    assert runs["runs"] == {
        "create": {"ok": 1, "error": 0, "killed": 1, "passedOver": 0},
        "delete": {"ok": 1, "error": 1, "killed": 0, "passedOver": 0},
    }
    assert (sum(runs["seconds"]["counts"]), runs["seconds"]["sum"], runs["last"]) == (4, 0.008, "ok")
    last = runs["lastError"]
    assert last.pop("time") > 0
    assert last == {"state": "delete", "pod": "default/web", "container": "app", "error": "exit status 3"}
    assert ledger.runs("b", CONF)["runs"]["create"]["passedOver"] == 1


def test_a_plugin_is_known_by_its_type_and_file() -> None:
    ledger = Ledger()
    ran(ledger, step(source="/etc/nri/resource.d/20.conf"))
    assert ledger.runs("a", CONF) == {"runs": {}, "seconds": Histogram().to_value(), "last": None, "lastError": None}
    assert ledger.runs("a", "/etc/nri/resource.d/20.conf")["last"] == "ok"


def test_the_plugins_that_ran_longest_ago_are_forgotten() -> None:
    ledger = Ledger()
    for number in range(MAX_PLUGINS):
        ran(ledger, step(f"p{number}"))
    ran(ledger, step("p0"))
    ran(ledger, step("new"))
    assert [ledger.runs(name, CONF)["last"] for name in ("p0", "p1", "p2", "new")] == ["ok", None, "ok", "ok"]


def test_an_error_is_bounded_and_fit_for_a_terminal() -> None:
    ledger = Ledger()
    ran(ledger, step(error="\x1b[31m" + "x" * 100_000))
    error = ledger.runs("a", CONF)["lastError"]["error"]
    assert len(error.encode()) <= counts.MAX_ERROR
    assert error.isprintable()


def test_events_are_counted_by_name() -> None:
    ledger = Ledger()
    ledger.answered(answered("StopContainer", 0.0, 0.0005))
    ledger.answered(answered("StartContainer", 0.002, 0.004))
    failed = answered("StartContainer", 0.0, 1.1)
    failed.has_failed = True
    late = answered("StartContainer", 0.0, 2.2)
    late.has_failed = late.is_late = True
    endless = answered("StartContainer", 0.0, 30.0, seconds=0)
    for each in (failed, late, endless):
        ledger.answered(each)
    start, stop = ledger.events()
    assert (start["event"], stop["event"]) == ("StartContainer", "StopContainer")
    assert {key: start[key] for key in ("answered", "errors", "late", "nearDeadline")} == {
        "answered": 4,
        "errors": 2,
        "late": 1,
        "nearDeadline": 2,
    }
    assert start["seconds"]["sum"] == pytest.approx(33.304)
    assert start["waiting"]["sum"] == pytest.approx(0.002)
    assert stop["answered"] == 1


def test_the_exchanges_with_a_pod_are_kept_in_order() -> None:
    ledger = Ledger()
    ran(ledger, step(), step("b", "no cgroup"), error="nri v0.1: plugin b: no cgroup")
    ran(ledger, step(), name="kube-system/web/app")
    ran(ledger)  # without plugins: no exchange
    ledger.ran("default/web", Request(state="delete", id="p1"), "", [step()], 0.001, "")
    found, forgotten = ledger.exchanges("default/web")
    assert forgotten == 0
    first, second = [each.to_value() for each in found]
    assert first.pop("time") <= second.pop("time")
    assert json.loads(first["plugins"][0]["request"]) == {"id": "c1"}
    assert [part["error"] for part in first.pop("plugins")] == [None, "no cgroup"]
    assert first == {
        "state": "create",
        "event": "StartContainer",
        "id": "c1",
        "container": "app",
        "late": False,
        "seconds": 0.004,
        "error": "nri v0.1: plugin b: no cgroup",
    }
    assert (second["event"], second["container"], second["state"]) == (None, None, "delete")


def exchange(pod: str = "web", **about: Any) -> PodExchange:
    request = Request(state="create", id="c1", sandbox_id="p1")
    return PodExchange.of(f"default/{pod}/app", request, "StartContainer", [step(**about)], 0.0, 0.0, "")


def test_the_number_of_exchanges_and_their_bytes_are_bounded_and_the_oldest_go_first() -> None:
    ledger = Ledger()
    for number in range(MOST + 10):
        ran(ledger, step(request=os.urandom(20_000), stdout=os.urandom(20_000), error=f"{number} " + "e" * 20_000))
    found, forgotten = ledger.exchanges("default/web")
    assert (len(found), forgotten) == (MOST, 10)
    (part,) = found[0].parts
    assert part.error.startswith("10 ")
    assert [len(text) for text in (part.request, part.result, part.error.encode())] == [MAX_TEXT] * 3


def test_who_runs_without_plugins_is_listed_until_the_end() -> None:
    ledger = Ledger()
    ran(ledger, step(), step("b", "no cgroup", ignored=True))
    ledger.ran("default/db", Request(state="create", id="p2", late=True), "", [step(error="no")], 0.1, "failed")
    ledger.ran("default/x", Request(state="create", id="p3"), "", [step(error="no")], 0.1, "it does not start")
    ledger.runs_without("default/db", Request(state="create", id="p2"), "another reason")
    found = {each["id"]: each for each in ledger.without()}
    assert found["c1"].pop("since") > 0
    assert found["c1"] == {
        "id": "c1",
        "pod": "default/web",
        "container": "app",
        "plugin": "b",
        "why": "its failure is ignored: no cgroup",
    }
    assert (found["p2"]["container"], found["p2"]["why"]) == (None, "the late create has failed: no")
    assert len(found) == 2
    ran(ledger, step())  # a create that succeeds
    ledger.keep({"c1"})
    assert ledger.without() == []
    ran(ledger, step(error="no", ignored=True))
    ledger.forget("c1")
    assert ledger.without() == []
    for number in range(MAX_WITHOUT + 5):
        ledger.runs_without("default/web", Request(state="create", id=str(number)), "it")
    assert [each["id"] for each in ledger.without()] == [str(number) for number in range(5, MAX_WITHOUT + 5)]


def test_a_text_that_is_cut_within_a_character_can_be_told() -> None:
    value = exchange(request="é".encode() * MAX_TEXT + b"\xff").to_value()
    assert json.loads(json.dumps(value)) == value
    value = exchange(request=b"x" + "é".encode() * MAX_TEXT).to_value()
    assert value["plugins"][0]["request"].endswith("é\ufffd")


def test_events_of_many_threads_are_all_counted() -> None:
    ledger = Ledger()

    def work() -> None:
        for _ in range(100):
            ran(ledger, step())
            ledger.answered(answered("StartContainer", 0.0, 0.001))
            ledger.enter()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.runs("a", CONF)["runs"]["create"]["ok"] == 800
    assert ledger.events()[0]["answered"] == 800


def test_no_event_waits_for_a_reader() -> None:
    ledger = Ledger()
    ran(ledger, step())
    with ledger._entering:  # a reader is at it
        ledger.enter()
        ran(ledger, step())
        ledger.enter()
    assert ledger.runs("a", CONF)["runs"]["create"]["ok"] == 2
