"""A chain of real plugins; tests/unit/client/test_chain.py has the rest of its contract."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from nri.client import ChainError, results_of
from nri.config.entries import PluginEntry
from nri.types.v1 import Result
from tests.support.host import Host, plugin, request
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


def test_each_plugin_gets_its_request_with_the_results_of_those_before_it(host: Host, notes: Path) -> None:
    plugins = noting(notes, "b", ["put", "x-vendor", {"deep": [1, None]}]), noting(notes, "a"), plugin("c", ["echo"])
    before = Result(plugin="earlier", extra={"k": 1})
    results = host.client(*plugins).invoke(request(results=[before]), "create")
    assert notes.read_text().split() == ["b", "a"]
    assert [result.plugin for result in results] == ["b", "a", "c"]
    sent = results[2].extra["echo"]["request"]
    assert [result["plugin"] for result in sent["results"]] == ["earlier", "b", "a"]
    assert sent["results"][0]["k"] == 1
    assert sent["results"][1]["x-vendor"] == {"deep": [1, None]}
    assert sent | {"results": [], "conf": None} == {
        "conf": None,
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
        "results": [],
    }


def test_first_error_stops_the_chain_except_on_delete(host: Host, notes: Path) -> None:
    host.script("broken", "#!/nowhere\n")
    failing = noting(notes, "a", ["error", "no"]), plugin("missing"), plugin("broken")
    client = host.client(*failing, noting(notes, "b"), noting(notes, "c", ["exit", 3]))
    with pytest.raises(ChainError, match=r"^plugin a: no$"):
        client.invoke(request(), "create")
    assert notes.read_text().split() == ["a"]
    with pytest.raises(ChainError) as caught:
        client.invoke(request(), "delete")
    assert notes.read_text().split() == ["a", "a", "b", "c"]
    assert [error.plugin for error in caught.value.errors] == ["a", "missing", "broken", "c"]
    assert [result.plugin for result in results_of(caught.value.steps)] == ["b"]
    assert "plugin a: no; plugin missing: not found: " in str(caught.value)
    a, missing, broken, b, _ = caught.value.steps
    assert [step.binary for step in (a, missing, broken)] == [f"{host.bin}/a", "", f"{host.bin}/broken"]
    assert b"no" in a.stdout
    assert broken.stdout == b""
    assert b.seconds > 0


def test_every_failure_can_be_ignored(host: Host) -> None:
    host.install("a", "b")
    lines: list[str] = []
    faults: list[list[Any]] = [["hang"], ["exit", 1], ["write", "?"]]
    bad = [plugin("a", fault, failure_policy="ignore", timeout=0.3) for fault in faults]
    missing = plugin("missing", failure_policy="ignore")
    client = host.client(missing, *bad, plugin("b"), log=lambda _plugin, line: lines.append(line))
    assert [result.plugin for result in client.invoke(request(), "create")] == ["b"]
    ignored = "failed, ignored (failurePolicy: ignore): "
    assert [line.startswith(ignored) for line in lines] == [True] * 4
    assert lines[1] == f"{ignored}killed: no result after 0.3 s"


def test_result_without_a_plugins_name_is_accepted(host: Host) -> None:
    host.install("a", do=[["write", "{}"], ["nothing"]])
    assert host.client(plugin("a")).invoke(request(), "create") == [Result(plugin="", version="")]


# Time


def reasons(host: Host, *plugins: PluginEntry, deadline: float | None = None, **options: Any) -> list[str]:
    """The reasons of the plugins that fail on delete."""
    with pytest.raises(ChainError) as caught:
        host.client(*plugins, **options).invoke(request(), "delete", deadline=deadline)
    return [error.reason for error in caught.value.errors]


def test_hanging_plugin_is_killed_after_its_own_or_the_clients_timeout(host: Host) -> None:
    host.install("a", "b")
    plugins = plugin("a", ["hang"], timeout=0.1), plugin("b", ["hang"]), plugin("a", timeout=SOON)
    found = reasons(host, *plugins, timeout=0.2)
    assert found == ["killed: no result after 0.1 s", "killed: no result after 0.2 s"]


def test_deadline_of_the_chain_kills_a_plugin_and_starts_no_other(host: Host, notes: Path) -> None:
    plugins = plugin("a", ["hang"], timeout=1000), noting(notes, "b"), noting(notes, "c")
    first, *others = reasons(host, *plugins, deadline=time.monotonic() + 0.3)
    assert first.startswith("killed: no result after 0.")
    assert others == ["not started: no time is left"] * 2
    assert not notes.exists()
