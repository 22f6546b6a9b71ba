"""Plugins one after the other: who is run, what each is sent, and what a failure means."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from nri.client import ChainError, Sandbox, Task, results_of
from nri.config.entries import PluginEntry
from nri.types.v1 import STATES, Result, Spec
from tests.support.host import OCI_CONFIG, Host, plugin, request
from tests.support.waiting import SOON

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def notes(host: Host) -> Path:
    """A file where plugins note that they were run."""
    host.install("a", "b", "c")
    return host.root / "notes"


def noting(notes: Path, type_: str, *do: list[Any], **options: Any) -> PluginEntry:
    return plugin(type_, ["note", str(notes), type_], *do, **options)


def ran(notes: Path) -> list[str]:
    return notes.read_text().split() if notes.exists() else []


# Who is run


@pytest.mark.parametrize("state", STATES)
def test_create_and_delete_go_to_all_the_others_to_those_that_list_them(host: Host, notes: Path, state: str) -> None:
    client = host.client(noting(notes, "a"), noting(notes, "b", states=[state]), noting(notes, "c", states=["setup"]))
    results = client.invoke(request(), state)
    expected = {"create": ["a", "b", "c"], "delete": ["a", "b", "c"], "setup": ["b", "c"]}.get(state, ["b"])
    assert ran(notes) == [result.plugin for result in results] == expected


def test_a_plugin_that_stands_twice_is_run_twice(host: Host, notes: Path) -> None:
    host.client(noting(notes, "a"), noting(notes, "b"), noting(notes, "a")).invoke(request(), "create")
    assert ran(notes) == ["a", "b", "a"]


def test_no_plugins_no_results(host: Host) -> None:
    assert host.client().invoke(request(), "create") == []


# What each is sent


def sent(host: Host, *plugins: PluginEntry, **options: Any) -> list[dict[str, Any]]:
    """The requests that went out when all went well."""
    what, state = options.pop("what", None) or request(), options.pop("state", "create")
    return [json.loads(step.request) for step in host.client(*plugins).steps(what, state, **options)]


def test_each_is_sent_its_own_conf_the_version_and_the_state(host: Host) -> None:
    host.install("a", "b", "c", do=[])
    what = request(version="9.9", state="delete", conf={"somebody": "else's"})
    requests = sent(
        host,
        PluginEntry(type="a", conf={"x": [1, None]}),
        PluginEntry(type="b"),
        PluginEntry(type="c", conf=0),
        what=what,
    )
    assert [one.get("conf", "none") for one in requests] == [{"x": [1, None]}, "none", 0]
    assert {(one["version"], one["state"]) for one in requests} == {("0.1", "create")}


def test_each_is_sent_the_results_of_those_before_with_keys_that_nobody_knows(host: Host) -> None:
    host.install("a", "b", "c")
    requests = sent(host, plugin("a", ["put", "x-vendor", {"deep": [1, None]}]), plugin("b"), plugin("c"))
    results = [one.get("results", []) for one in requests]
    assert [[result["plugin"] for result in before] for before in results] == [[], ["a"], ["a", "b"]]
    assert results[2][0]["x-vendor"] == {"deep": [1, None]}


def test_results_that_a_request_comes_with_are_kept_in_front(host: Host) -> None:
    host.install("a", "b")
    before = Result(plugin="earlier", extra={"k": 1})
    results = sent(host, plugin("a"), plugin("b"), what=request(results=[before]))[1]["results"]
    assert Result.from_value(results[0], "") == before
    assert [result["plugin"] for result in results] == ["earlier", "a"]


def test_a_task_becomes_the_request_that_go_makes(host: Host) -> None:
    host.install("a")
    sandbox = Sandbox("pod", {"app": "redis"})
    (one,) = sent(host, plugin("a", ["echo"]), what=Task("redis", 4711, OCI_CONFIG), sandbox=sandbox)
    assert one == {
        "conf": {"do": [["echo"]]},
        "version": "0.1",
        "state": "create",
        "id": "redis",
        "sandboxID": "pod",
        "pid": 4711,
        "spec": {
            "resources": {"cpu": {"shares": 1024}},
            "namespaces": {"pid": "", "network": "/proc/1/ns/net"},
            "cgroupsPath": "/kubepods/podabc/redis",
            "annotations": {"qos.class": "ls"},
        },
        "labels": {"app": "redis"},
    }


def test_a_task_may_have_a_spec_as_plugins_see_it(host: Host) -> None:
    host.install("a")
    (one,) = sent(host, plugin("a"), what=Task("redis", 0, Spec(cgroups_path="/x")))
    assert one["spec"] == {"resources": None, "cgroupsPath": "/x"}
    assert "pid" not in one
    assert "sandboxID" not in one


def test_a_request_may_be_sent_to_another_sandbox(host: Host) -> None:
    host.install("a")
    (one,) = sent(host, plugin("a"), sandbox=Sandbox("other"))
    assert one["sandboxID"] == "other"


def test_there_is_a_step_for_each_plugin_also_for_one_that_failed(host: Host) -> None:
    host.install("a")
    host.script("b", "#!/nowhere\n")
    client = host.client(plugin("a"), plugin("b"), plugin("missing"))
    with pytest.raises(ChainError) as caught:
        client.invoke(request(), "delete")
    a, b, missing = caught.value.steps
    assert (a.binary, a.error, a.result and a.result.plugin) == (f"{host.bin}/a", None, "a")
    assert json.loads(a.stdout)["plugin"] == "a"
    assert a.seconds > 0
    assert (b.binary, b.result, b.stdout) == (f"{host.bin}/b", None, b"")
    assert b.error is not None
    assert (missing.binary, str(missing.error)[:20]) == ("", "missing: not found: ")


# What a failure means


@pytest.mark.parametrize("state", ["setup", "create", "resize", "update", "pause", "resume"])
def test_an_error_stops_the_chain(host: Host, notes: Path, state: str) -> None:
    states = {"states": [state]}
    client = host.client(
        noting(notes, "a", **states), noting(notes, "b", ["error", "no"], **states), noting(notes, "c", **states)
    )
    with pytest.raises(ChainError) as caught:
        client.invoke(request(), state)
    assert ran(notes) == ["a", "b"]
    assert str(caught.value) == "plugin b: no"
    assert [(error.plugin, error.reason) for error in caught.value.errors] == [("b", "no")]
    assert [result.plugin for result in results_of(caught.value.steps)] == ["a"]


def test_on_delete_all_are_run_and_the_errors_reported_together(host: Host, notes: Path) -> None:
    client = host.client(
        noting(notes, "a", ["error", "no"]), plugin("missing"), noting(notes, "b"), noting(notes, "c", ["exit", 3])
    )
    with pytest.raises(ChainError) as caught:
        client.invoke(request(), "delete")
    assert ran(notes) == ["a", "b", "c"]
    assert [error.plugin for error in caught.value.errors] == ["a", "missing", "c"]
    assert [result.plugin for result in results_of(caught.value.steps)] == ["b"]
    assert "plugin a: no; plugin missing: not found: " in str(caught.value)
    assert "; plugin c: " in str(caught.value)


IGNORED = "failed, ignored (failurePolicy: ignore): "


@pytest.mark.parametrize(
    ("default", "own", "passes"),
    [("fail", "", False), ("fail", "ignore", True), ("ignore", "", True), ("ignore", "fail", False)],
)
def test_a_failure_is_passed_over_where_the_policy_says_so(
    host: Host, notes: Path, default: str, own: str, passes: bool
) -> None:
    lines: list[tuple[str, str]] = []
    client = host.client(
        noting(notes, "a", ["error", "no"], failure_policy=own),
        noting(notes, "b"),
        failure_policy=default,
        log=lambda *line: lines.append(line),
    )
    if passes:
        assert [result.plugin for result in client.invoke(request(), "create")] == ["b"]
        assert lines == [("a", IGNORED + "no")]
    else:
        with pytest.raises(ChainError, match=r"^plugin a: no$"):
            client.invoke(request(), "create")
        assert ran(notes) == ["a"]


@pytest.mark.parametrize("fault", ["missing", "hang", "exit", "garbage"])
def test_every_kind_of_failure_can_be_passed_over(host: Host, fault: str) -> None:
    host.install("a", "b")
    lines: list[str] = []
    do: dict[str, list[Any]] = {"missing": [], "hang": ["hang"], "exit": ["exit", 1], "garbage": ["write", "?"]}
    steps = [do[fault]] if do[fault] else []
    bad = plugin("nowhere" if fault == "missing" else "a", *steps, failure_policy="ignore", timeout=0.5)
    results = host.client(bad, plugin("b"), log=lambda _plugin, line: lines.append(line)).invoke(request(), "create")
    assert [result.plugin for result in results] == ["b"]
    assert [line.startswith(IGNORED) for line in lines] == [True]


def test_a_result_without_a_plugins_name_is_passed_on(host: Host) -> None:
    host.install("a", do=[["write", "{}"], ["nothing"]])
    (result,) = host.client(plugin("a")).invoke(request(), "create")
    assert result == Result(plugin="", version="")


# Time


def killed_after(host: Host, *plugins: PluginEntry, deadline: float | None = None, **options: Any) -> list[str]:
    """The reasons of the plugins that failed on delete."""
    started = time.monotonic()
    with pytest.raises(ChainError) as caught:
        host.client(*plugins, **options).invoke(
            request(), "delete", deadline=None if deadline is None else started + deadline
        )
    assert time.monotonic() - started < SOON
    return [error.reason for error in caught.value.errors]


def test_a_plugins_own_time_goes_before_the_clients(host: Host) -> None:
    host.install("a", "b")
    reasons = killed_after(host, plugin("a", ["hang"], timeout=0.2), plugin("b", ["hang"]), timeout=0.4)
    assert reasons == ["killed: no result after 0.2 s", "killed: no result after 0.4 s"]


def test_a_plugins_own_time_may_be_longer(host: Host) -> None:
    host.install("a")
    results = host.client(plugin("a", timeout=SOON), timeout=0.000001).invoke(request(), "create")
    assert len(results) == 1


def test_the_deadline_of_the_chain_cuts_all_others_short(host: Host) -> None:
    host.install("a")
    (reason,) = killed_after(host, plugin("a", ["hang"], timeout=1000), deadline=0.3)
    assert reason.startswith("killed: no result after 0.")


def test_when_the_deadline_of_the_chain_has_passed_no_plugin_is_started(host: Host, notes: Path) -> None:
    reasons = killed_after(host, plugin("a", ["hang"]), noting(notes, "b"), noting(notes, "c"), deadline=0.3)
    assert reasons[1:] == ["not started: no time is left"] * 2
    assert ran(notes) == []
