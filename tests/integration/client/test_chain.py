"""A chain of real plugins; tests/unit/client/test_chain.py has the rest of its contract."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from nri.client import ChainError
from nri.config.entries import PluginEntry
from nri.types.v1 import Result
from tests.support.host import Host, plugin, request

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


def test_result_without_a_plugins_name_is_accepted(host: Host) -> None:
    host.install("a", do=[["write", "{}"], ["nothing"]])
    assert host.client(plugin("a")).invoke(request(), "create") == [Result(plugin="", version="")]


def test_deadline_of_the_chain_kills_a_plugin_and_starts_no_other(host: Host, notes: Path) -> None:
    plugins = plugin("a", ["hang"], timeout=1000), noting(notes, "b"), noting(notes, "c")
    with pytest.raises(ChainError) as caught:
        host.client(*plugins).invoke(request(), "delete", deadline=time.monotonic() + 0.3)
    first, *others = [error.reason for error in caught.value.errors]
    assert first.startswith("killed: no result after 0.")
    assert others == ["not started: no time is left"] * 2
    assert not notes.exists()
