"""The pool: which plugins have a server, for how long, and many requests at once."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nri.prefork.pool import eligibility
from tests.integration.prefork.preforked import is_pool_idle
from tests.support.processes import is_running, open_fds
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    import pytest

    from tests.integration.prefork.preforked import PreforkHost


def test_a_replaced_binary_counts_at_once(node: PreforkHost) -> None:
    path = node.install()
    node.wait_for_server()
    for number in range(2, 5):
        new = path.with_suffix(".new")
        new.write_text(node.text(VERSION=str(number)))
        new.chmod(0o755)
        new.rename(path)
        assert node.run().metadata == {"version": str(number)}
        node.wait_for_server()
        assert node.run().metadata == {"version": str(number)}
    path.write_text(node.text(VERSION="9"))
    assert node.run().metadata == {"version": "9"}
    node.wait_for_server()
    assert node.run().metadata == {"version": "9"}


def test_one_can_wait_until_plugins_are_loaded(node: PreforkHost, monkeypatch: pytest.MonkeyPatch) -> None:
    path = node.install()
    hanging = node.host.script("hanging", f"#!{sys.executable} -IS\n# nri.skel\nimport time\ntime.sleep(1000)\n")
    pool = node.pool
    assert pool.wait_until_loaded(0)
    assert pool.prepare(str(path), path.name) is None
    assert pool.wait_until_loaded(SOON)
    assert pool.standing(str(path)).state == "ready"
    monkeypatch.setattr(eligibility, "ANSWER_WITHIN", 1.0)
    pool.prepare(str(hanging), "hanging")
    assert not pool.wait_until_loaded(0.05)
    pool.close()
    assert pool.wait_until_loaded(SOON)


def test_a_removed_binary_is_not_found(node: PreforkHost) -> None:
    path = node.install()
    node.wait_for_server()
    path.unlink()
    assert "not found" in node.failure("")
    node.install()
    assert node.run().metadata == {"version": "1"}


def test_foreign_plugins_are_only_ever_asked_to_invoke(node: PreforkHost) -> None:
    notes = node.host.root / "notes"
    answer = '{"plugin": "x", "version": "0.1"}'
    node.host.script("shell", f"#!/bin/sh\necho shell $1 >> {notes}\necho '{answer}'\n")
    python = f"#!{sys.executable} -IS\nimport sys\nopen({str(notes)!r}, 'a').write('python ' + sys.argv[1] + '\\n')\n"
    node.host.script("python", python + f"print('{answer}')\n")
    node.host.bin.joinpath("binary").write_bytes(Path("/bin/true").read_bytes())
    node.host.bin.joinpath("binary").chmod(0o755)
    for _ in range(5):
        node.run(type_="shell")
        node.run(type_="python")
        node.failure("", type_="binary")
        time.sleep(0.02)
    assert sorted(notes.read_text().split("\n")) == [""] + ["python invoke"] * 5 + ["shell invoke"] * 5


def test_no_request_waits_for_a_slow_start(node: PreforkHost) -> None:
    path = node.install()
    path.write_text(node.text().replace("COUNT = 0", "COUNT = 0\nif 'prefork' in sys.argv: time.sleep(0.5)"))
    node.wait_for_server()


def test_one_that_is_configured_as_never_has_no_server_and_an_old_one_ends(node: PreforkHost) -> None:
    node.install()
    node.wait_for_server()
    server = node.server()
    node.pool.keep([("noop", "never")])
    assert wait_until(lambda: not is_running(server), 5)
    for _ in range(4):
        assert not node.is_preforked()
        assert wait_until(is_pool_idle, 5)
    assert node.host.processes() == []
    node.pool.keep([("noop", "")])
    node.wait_for_server()


def test_those_that_are_no_longer_configured_end(node: PreforkHost) -> None:
    for type_ in ("a", "b"):
        node.install(type_)
        node.wait_for_server(type_)
    a, b = node.server("a"), node.server("b")
    node.pool.keep([("b", "")])
    assert wait_until(lambda: not is_running(a), 5)
    assert node.server("b") == b
    node.pool.close()
    assert wait_until(lambda: not is_running(b), 5)
    assert not node.is_preforked("b")
    time.sleep(0.05)
    assert not node.is_preforked("b")


def test_many_at_once_are_all_right(node: PreforkHost) -> None:
    for type_ in ("a", "b"):
        node.install(type_)
        node.wait_for_server(type_)
    node.pool.tidy()
    before = open_fds()
    wrong: list[Any] = []
    pids: list[int] = []

    def work(number: int) -> None:
        for turn in range(10):
            said = f"{number}-{turn}"
            try:
                result = node.run(f"result.metadata['n'] = {said!r}; print({said!r})", "ab"[turn % 2])
                if (
                    result.metadata["n"] != said
                    or result.plugin != "ab"[turn % 2]
                    or result.extra["id"]["count"] != 1
                ):
                    wrong.append(result)
                pids.append(result.extra["id"]["pid"])
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(pids) == 80
    assert sorted(line.split(": ")[1] for line in node.lines) == sorted(
        f"{n}-{t}" for n in range(8) for t in range(10)
    )
    node.pool.tidy()  # as the bridge does: the last ones may have been answered at the same time
    assert wait_until(lambda: len(open_fds()) <= len(before), 5)


def test_others_do_not_wait_behind_one_that_hangs(node: PreforkHost) -> None:
    node.install()
    node.wait_for_server()
    server = node.server()
    go = node.host.root / "go"
    do = f"while not os.path.exists({str(go)!r}): time.sleep(0.01)"
    slow = threading.Thread(target=lambda: node.run(do, timeout=10 * SOON))
    slow.start()
    others = [threading.Thread(target=node.run) for _ in range(6)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert slow.is_alive()
    go.touch()
    slow.join()
    assert node.server() == server


def test_one_under_way_is_let_finish_when_its_binary_is_replaced(node: PreforkHost) -> None:
    path = node.install()
    node.wait_for_server()
    mark = node.host.root / "mark"
    results: list[Any] = []
    do = f"open({str(mark)!r}, 'w'); time.sleep(0.5)"
    thread = threading.Thread(target=lambda: results.append(node.run(do)))
    thread.start()
    assert wait_until(mark.exists, SOON)
    new = path.with_suffix(".new")
    new.write_text(node.text(VERSION="2"))
    new.chmod(0o755)
    new.rename(path)
    assert node.run().metadata == {"version": "2"}
    node.pool.keep([])
    thread.join()
    assert [result.metadata for result in results] == [{"version": "1"}]
    assert results[0].extra["id"]["parent"] != os.getpid()
