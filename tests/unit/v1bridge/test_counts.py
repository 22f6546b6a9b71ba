"""What the bridge counts of its events and runs."""

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from nri.client import Client, PluginError, Step
from nri.config.entries import ConfigList, PluginEntry
from nri.files import identity
from nri.types.v1 import Request, Result
from nri.v1bridge.counts import (
    BOUNDS,
    MAX_ERROR,
    MAX_PLUGINS,
    MAX_REFUSALS,
    Counts,
)
from nri.v1bridge.runs import Run
from nri.v2.ttrpc import Call
from tests.support.node import call

CONF = "/etc/nri/resource.d/10.conf"
OK = {"create": "ok"}


def outcomes(runs: dict[str, Any]) -> dict[str, str]:
    return {state: run["outcome"] for state, run in runs["last"].items()}


def step(
    plugin: str = "a", error: str = "", *, seconds: float = 0.002, source: str = CONF, **about: Any
) -> Step:
    made = Step(PluginEntry(type=plugin, source=source), about.get("request", b'{"id": "c1"}'))
    made.seconds, made.binary, made.stdout = (
        seconds,
        f"/opt/nri/bin/{plugin}",
        about.get("stdout", b'{"plugin": "a"}'),
    )
    made.is_ignored = about.get("ignored", False)
    if error:
        how = {name: about.get(name, False) for name in ("killed", "refused", "abandoned")}
        made.error = PluginError(plugin, error, **how)
    else:
        made.result = Result(plugin=plugin)
    return made


def ran(
    counts: Counts,
    *steps: Step,
    state: str = "create",
    name: str = "default/web/app",
) -> None:
    run = Run(Client(ConfigList()), Request(state=state, id="c1", sandbox_id="p1"), name)
    run.steps += steps
    counts.ran(run)


def runs_of(counts: Counts, plugin: str, source: str = CONF) -> dict[str, Any]:
    return counts.runs(PluginEntry(type=plugin, source=source), f"/opt/nri/bin/{plugin}")


def answered(event: str, begun: float, ended: float, *, seconds: float = 2.0) -> Call:
    made = call(seconds)
    made.event, made.begun, made.answered = event, made.received + begun, made.received + ended
    return made


def test_a_value_counts_below_the_bound_that_it_does_not_exceed() -> None:
    counts = Counts()
    for value in (0.0, 0.001, 0.0011, 5.0, 5.1):
        ran(counts, step(seconds=value))
    assert runs_of(counts, "a")["seconds"] == {
        "bounds": BOUNDS,
        "counts": [2, 1, *[0] * (len(BOUNDS) - 3), 1, 1],
        "sum": 0.0 + 0.001 + 0.0011 + 5.0 + 5.1,
    }


def test_the_runs_of_a_plugin_are_counted_by_state_and_outcome() -> None:
    counts = Counts()
    ran(counts, step(), step("b", "no cgroup", ignored=True))
    ran(counts, step(error="no result after 2 s", killed=True))
    ran(counts, step(error="exit status 3"), state="delete")
    ran(counts, step(), state="delete")
    runs = runs_of(counts, "a")
    assert runs["runs"] == {
        "create": {"ok": 1, "error": 0, "killed": 1, "ignored": 0, "refused": 0},
        "delete": {"ok": 1, "error": 1, "killed": 0, "ignored": 0, "refused": 0},
    }
    assert (sum(runs["seconds"]["counts"]), runs["seconds"]["sum"], outcomes(runs)) == (
        4,
        0.008,
        {"create": "killed", "delete": "ok"},
    )
    last = runs["lastError"]
    assert last.pop("time") > 0
    assert last == {
        "state": "delete",
        "pod": "default/web",
        "container": "app",
        "error": "exit status 3",
    }
    assert runs_of(counts, "b")["runs"]["create"]["ignored"] == 1
    # Another entry of the type.
    assert runs_of(counts, "a", "/etc/nri/resource.d/20.conf")["runs"] == {}
    ran(counts, step(error="\x1b[31m" + "x" * 100_000))
    error = runs_of(counts, "a")["lastError"]["error"]
    assert len(error.encode()) <= MAX_ERROR
    assert error.isprintable()


def test_the_last_outcome_counts_for_the_same_executable_and_entry(tmp_path: Path) -> None:
    counts, binary = Counts(), tmp_path / "a"
    entry, other = (
        PluginEntry(type="a", source=CONF),
        PluginEntry(type="a", source=CONF, timeout=3.0),
    )

    def last(plugin: PluginEntry) -> dict[str, str]:
        return outcomes(counts.runs(plugin, str(binary)))

    def run(state: str, error: str = "") -> None:
        made = step(error=error)
        made.binary, made.identity = str(binary), identity(str(binary))
        ran(counts, made, state=state)

    binary.write_text("one")
    run("create", "no")
    run("delete")
    assert (last(entry), last(other)) == ({"create": "error", "delete": "ok"}, {})
    (tmp_path / "new").write_text("two")
    (tmp_path / "new").rename(binary)
    assert last(entry) == {}
    run("delete")
    assert last(entry) == {"delete": "ok"}


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by a second when it is read."""
    now = itertools.count(1)
    monkeypatch.setattr(time, "time", lambda: float(next(now)))


@pytest.mark.usefixtures("seconds")
def test_failure_counts_from_the_first_of_them_until_a_run_of_its_state_succeeds(
    tmp_path: Path,
) -> None:
    counts, binary = Counts(), tmp_path / "a"
    binary.write_text("one")

    def run(state: str = "create", error: str = "", **about: Any) -> dict[str, Any]:
        made = step(error=error, **about)
        made.binary, made.identity = str(binary), identity(str(binary))
        ran(counts, made, state=state, name=f"default/{error or 'web'}/app")
        return dict(counts.runs(made.plugin, str(binary))["last"][state])

    first, second = run(error="one"), run(error="two")
    about = {
        "outcome": "error",
        "since": first["time"],
        "time": first["time"] + 1,
        "state": "create",
    }
    assert second == about | {"pod": "default/two", "container": "app", "error": "two"}
    assert run(error="refused", refused=True)["outcome"] == "refused"  # it works
    assert run(error="three")["since"] > first["time"]
    run("update", "killed", killed=True)
    run("delete")
    # Which says nothing of it.
    assert run("delete", "gone", killed=True, abandoned=True)["outcome"] == "ok"
    last = counts.runs(PluginEntry(type="a", source=CONF), str(binary))
    assert outcomes(last) == {"create": "error", "update": "killed", "delete": "ok"}
    run()
    last = counts.runs(PluginEntry(type="a", source=CONF), str(binary))
    assert outcomes(last) == {"create": "ok", "update": "killed", "delete": "ok"}
    assert last["lastError"]["error"] == "killed: gone"


@pytest.mark.usefixtures("seconds")
def test_refusals_are_kept_until_the_container_is_admitted() -> None:
    counts = Counts()
    for name in ("default/a/app", "default/b", "default/a/app"):
        ran(counts, step(error="no CPU", refused=True, ignored=True), name=name)
    assert [
        (each["pod"], each["container"], each["plugin"], each["count"], each["error"])
        for each in counts.refusals()
    ] == [("default/b", None, "a", 1, "no CPU"), ("default/a", "app", "a", 2, "no CPU")]
    assert counts.refusals()[1]["since"] < counts.refusals()[1]["time"]
    runs = runs_of(counts, "a")
    assert (runs["runs"]["create"]["refused"], runs["lastError"]) == (3, None)
    ran(counts, step(), name="default/a/app")
    ran(counts, step(error="broken"), name="default/b")
    assert counts.refusals() == []
    for number in range(MAX_REFUSALS + 5):
        ran(counts, step(error="no CPU", refused=True), name=f"default/{number}")
    assert [each["pod"] for each in counts.refusals()][::63] == ["default/5", "default/68"]


def test_the_plugins_that_ran_longest_ago_are_forgotten() -> None:
    counts = Counts()
    for number in range(MAX_PLUGINS):
        ran(counts, step(f"p{number}"))
    ran(counts, step("p0"))
    ran(counts, step("new"))
    assert [outcomes(runs_of(counts, name)) for name in ("p0", "p1", "p2", "new")] == [
        OK,
        {},
        OK,
        OK,
    ]


def test_events_are_counted_by_name() -> None:
    counts = Counts()
    counts.answered(answered("StopContainer", 0.0, 0.0005))
    counts.answered(answered("StartContainer", 0.002, 0.004))
    failed = answered("StartContainer", 0.0, 1.1)
    failed.has_failed = True
    late = answered("StartContainer", 0.0, 2.2)
    late.has_failed = late.is_late = True
    endless = answered("StartContainer", 0.0, 30.0, seconds=0)
    for each in (failed, late, endless):
        counts.answered(each)
    start, stop = counts.events()
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


def test_events_of_many_threads_are_all_counted() -> None:
    counts = Counts()

    def work(_: int) -> None:
        for _ in range(100):
            ran(counts, step())
            counts.answered(answered("StartContainer", 0.0, 0.001))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert runs_of(counts, "a")["runs"]["create"]["ok"] == 800
    assert counts.events()[0]["answered"] == 800
