"""The pool: which plugins have a server, for how long, and many requests at once."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nri.prefork.pool import eligibility
from tests.integration.prefork.preforked import is_pool_idle
from tests.support.processes import is_running, open_fds
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import pytest

    from tests.integration.prefork.preforked import PreforkHost


def test_a_replaced_or_overwritten_or_removed_executable_counts_at_once(node: PreforkHost) -> None:
    path = node.install()
    node.wait_for_server()
    node.install(VERSION="2")
    assert node.run().metadata == {"version": "2"}
    node.wait_for_server()
    assert node.run().metadata == {"version": "2"}
    path.write_text(node.text(VERSION="3"))
    assert node.run().metadata == {"version": "3"}
    node.wait_for_server()
    path.unlink()
    assert "not found" in node.failure("")
    node.install()
    assert node.run().metadata == {"version": "1"}


def test_one_under_way_is_let_finish_when_its_executable_is_replaced(node: PreforkHost) -> None:
    node.install()
    node.wait_for_server()
    begun, go = node.host.root / "begun", node.host.root / "go"
    do = f"open({str(begun)!r}, 'w')\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)"
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(node.run(do)))
    thread.start()
    assert wait_until(begun.exists)
    for _ in range(5):  # nobody waits behind it
        assert node.run().metadata == {"version": "1"}
    node.install(VERSION="2")
    assert node.run().metadata == {"version": "2"}
    node.pool.keep([])
    go.touch()
    thread.join()
    assert [result.metadata for result in results] == [{"version": "1"}]


def test_one_can_wait_until_plugins_are_loaded(node: PreforkHost, monkeypatch: pytest.MonkeyPatch) -> None:
    path, pool = node.install(), node.pool
    hanging = node.host.script("hanging", f"#!{sys.executable} -IS\n# nri.skel\nimport time\ntime.sleep(1000)\n")
    assert pool.wait_until_loaded(0)
    assert pool.prepare(str(path), path.name) is None
    assert pool.wait_until_loaded(60)
    assert pool.standing(str(path)).state == "ready"
    monkeypatch.setattr(eligibility, "ANSWER_WITHIN", 0.5)
    pool.prepare(str(hanging), "hanging")
    assert not pool.wait_until_loaded(0.05)
    pool.close()
    assert pool.wait_until_loaded(60)


def test_foreign_plugins_are_only_ever_asked_to_invoke(node: PreforkHost) -> None:
    notes = node.host.root / "notes"
    answer = '{"plugin": "x", "version": "0.1"}'
    node.host.script("shell", f"#!/bin/sh\necho shell $1 >> {notes}\necho '{answer}'\n")
    node.host.bin.joinpath("binary").write_bytes(Path("/bin/true").read_bytes())
    node.host.bin.joinpath("binary").chmod(0o755)
    for _ in range(3):
        node.run(type_="shell")
        node.failure("", type_="binary")
        assert wait_until(is_pool_idle)
    assert notes.read_text().splitlines() == ["shell invoke"] * 3


def test_plugins_that_are_not_configured_or_must_not_be_preforked_have_no_server(node: PreforkHost) -> None:
    servers = {}
    for type_ in ("a", "b"):
        node.install(type_)
        node.wait_for_server(type_)
        servers[type_] = node.server(type_)
    node.pool.keep([("b", "")])
    assert wait_until(lambda: not is_running(servers["a"]))
    assert node.server("b") == servers["b"]
    node.pool.keep([("b", "never")])
    assert wait_until(lambda: not is_running(servers["b"]))
    for _ in range(3):
        assert not node.is_preforked("b")
        assert wait_until(is_pool_idle)
    assert node.host.processes() == []
    node.pool.keep([("b", "")])
    node.wait_for_server("b")
    node.pool.close()
    for _ in range(3):
        assert not node.is_preforked("b")
        assert wait_until(is_pool_idle)


def test_many_at_once_are_all_right(node: PreforkHost) -> None:
    for type_ in ("a", "b"):
        node.install(type_)
        node.wait_for_server(type_)
    node.pool.tidy()
    before = open_fds()
    answers: list[tuple[str, str, int]] = []
    pids: set[int] = set()

    def work(number: int) -> None:
        for turn in range(10):
            text = f"{number}-{turn}"
            result = node.run(f"result.metadata['n'] = {text!r}; print({text!r})", "ab"[turn % 2])
            answers.append((result.metadata["n"], result.plugin, result.extra["id"]["count"]))
            pids.add(result.extra["id"]["pid"])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    turns = [(number, turn) for number in range(8) for turn in range(10)]
    assert sorted(answers) == sorted((f"{number}-{turn}", "ab"[turn % 2], 1) for number, turn in turns)
    assert sorted(node.lines) == sorted(f"{'ab'[turn % 2]}: {number}-{turn}" for number, turn in turns)
    assert len(pids) == 80
    node.pool.tidy()  # as the bridge does: the last ones may have been answered at the same time
    assert wait_until(lambda: len(open_fds()) <= len(before))
