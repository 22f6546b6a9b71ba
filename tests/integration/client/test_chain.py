"""A chain of real plugins; tests/unit/client/test_chain.py has the rest of its contract."""

from __future__ import annotations

import time

import pytest

from nri.client import ChainError
from nri.types.v1 import Result
from tests.support.host import Host, plugin, request


def test_result_without_a_plugins_name_is_accepted(host: Host) -> None:
    host.install("a", do=[["write", "{}"], ["nothing"]])
    assert host.client(plugin("a")).invoke(request(), "create") == [Result(plugin="", version="")]


def test_deadline_of_the_chain_starts_no_other_plugin(host: Host) -> None:
    host.install("a", "b", "c")
    notes = host.root / "notes"
    note = ["note", str(notes), "it was run"]
    plugins = plugin("a", ["hang"], timeout=1000), plugin("b", note), plugin("c", note)
    with pytest.raises(ChainError) as caught:
        host.client(*plugins).invoke(request(), "delete", deadline=time.monotonic() + 0.3)
    first, *others = [error.reason for error in caught.value.errors]
    assert first.startswith("killed: no result after 0.")
    assert others == ["not started: no time is left"] * 2
    assert not notes.exists()
