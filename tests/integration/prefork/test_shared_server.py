"""One server process for several plugins, as their host uses it."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from nri import __version__
from nri.client import ChainError
from nri.config.entries import PluginEntry
from nri.prefork.pool import eligibility, shared_server
from nri.prefork.pool.shared_server import Command
from nri.process.wait import stat_fields
from tests.integration.prefork.sharing import SharingHost
from tests.support.host import request
from tests.support.processes import is_running
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.host import Host

OWN = ("clearcfs", "konfine", "logger", "device_injector", "hook_injector", "ulimit_adjuster")
THREAD = "import threading; threading.Thread(target=time.sleep, args=(99,), daemon=True).start()"


@pytest.fixture
def node(host: Host, monkeypatch: pytest.MonkeyPatch) -> Iterator[SharingHost]:
    node = SharingHost(host, monkeypatch)
    yield node
    node.close()


def answer(node: SharingHost, type_: str, conf: Any, *, prefork: bool) -> str:
    """Return what a plugin answers, or the error."""
    options: dict[str, Any] = {"pool": node.pool} if prefork else {}
    client = node.host.client(PluginEntry(type=type_, conf=conf), **options)
    try:
        (result,) = client.invoke(request(labels={}), "create")
    except ChainError as error:
        return str(error)
    return result.to_json().decode()


def test_the_plugins_of_this_project_fit_into_one_process_and_answer_as_when_they_are_started(
    node: SharingHost, caplog: pytest.LogCaptureFixture
) -> None:
    node.modules.update({type_: f"nri.plugins.{type_}.__main__" for type_ in OWN})
    types = [node.host.compiled(f"nri.plugins.{type_}") for type_ in OWN]
    for type_ in types:
        node.pool.prepare(f"{node.host.bin}/{type_}", type_)
    assert node.pool.wait_until_loaded(SOON)
    standing = {type_: node.pool.standing(f"{node.host.bin}/{type_}") for type_ in types}
    assert {each.state for each in standing.values()} == {"ready"}, standing
    for type_ in types:
        wrong = {"nonsense": 1}  # a conf that names no file and no cgroup of this machine
        assert answer(node, type_, wrong, prefork=True) == answer(node, type_, wrong, prefork=False) != ""
    log = {"file": str(node.host.root / "log")}
    assert '"error":""' in answer(node, "logger", log, prefork=True)
    assert (node.host.root / "log").exists()
    assert caplog.messages == []
    assert len({stat_fields(pid)[1] for pid in node.host.processes()} - {b"%d" % os.getpid()}) == 1


@pytest.mark.parametrize("type_", OWN)
def test_the_version_that_the_host_reports_for_a_plugin_of_its_build_is_the_plugins(
    node: SharingHost, type_: str
) -> None:
    type_ = node.host.compiled(f"nri.plugins.{type_}")
    output = eligibility._ask(f"{node.host.bin}/{type_}", type_, "version")
    assert json.loads(output.stdout)["version"] == __version__


def test_plugins_that_are_loaded_at_the_same_time_have_one_server(node: SharingHost) -> None:
    types = [f"told{number}" for number in range(5)]
    node.install(*types)
    assert len(set(node.servers(*types))) == 1
    pids = [node.ask(type_)["id"]["pid"] for type_ in types for _ in range(3)]
    assert len(set(pids)) == len(pids)


def test_a_worker_has_the_name_and_the_arguments_of_its_plugin(node: SharingHost) -> None:
    node.install("one", "two")
    (node.host.bin / "link").symlink_to("one")
    node.modules["link"] = node.modules["one"]
    node.servers("one", "two", "link")
    seen = "result.extra['seen'] = [sys.argv, sys.orig_argv, sys.executable, open('/proc/self/comm').read().strip()]"
    for type_, file in (("one", "one"), ("two", "two"), ("link", "one")):
        argv = [type_, "invoke"]
        assert node.ask(type_, seen)["seen"] == [argv, argv, f"{node.host.bin}/{file}", type_]


def test_a_worker_has_no_descriptor_of_another_plugin(node: SharingHost) -> None:
    node.install("one", "two", "three")
    node.servers("one", "two", "three")
    count = "result.extra['seen'] = sorted(os.listdir('/proc/self/fd'))"
    assert len(node.ask("two", count)["seen"]) == 5  # 0, 1, 2, its channel, and that of the listing


def test_after_a_worker_was_killed_its_plugin_gets_another_server_and_the_others_stay(node: SharingHost) -> None:
    node.install("one", "two")
    (before, other) = node.servers("one", "two")
    assert before == other
    assert "killed: no result after 0.3 s" in node.fails("one", "time.sleep(99)", timeout=0.3)
    assert wait_until(lambda: node.server("one") != before, SOON)
    assert not node.is_alone(node.server("one"))
    assert node.server("two") == before


def test_a_server_that_is_killed_costs_no_request_and_all_plugins_share_a_new_one(node: SharingHost) -> None:
    node.install("one", "two")
    (before, _) = node.servers("one", "two")
    os.kill(before, signal.SIGKILL)
    assert wait_until(lambda: not is_running(before), SOON)
    for type_ in ("one", "two"):
        assert node.ask(type_)["id"]["pid"]
    assert wait_until(lambda: node.server("one") == node.server("two") != before, SOON)


def test_a_module_that_cannot_be_loaded_gives_its_plugin_a_server_of_its_own(
    node: SharingHost, caplog: pytest.LogCaptureFixture
) -> None:
    node.install("one", "two")
    node.modules["two"] = "no_such_module"
    (one, two) = node.servers("one", "two")
    assert (node.is_alone(one), node.is_alone(two)) == (False, True)
    assert caplog.messages == [
        "two has no shared server: no_such_module cannot be imported: No module named 'no_such_module'"
    ]


def test_a_plugin_that_makes_the_server_unfit_leaves_no_plugin_in_it_and_costs_no_request(node: SharingHost) -> None:
    node.install("one")
    node.install("two", loads=THREAD)
    (before,) = node.servers("one")
    node.pool.prepare(f"{node.host.bin}/two", "two")
    assert node.pool.wait_until_loaded(SOON)
    reason = "it has threads beside the main one when it is loaded: 1"
    assert node.pool.standing(f"{node.host.bin}/two").reason == reason  # of its own server, too
    assert wait_until(lambda: node.server("one") != before, SOON)
    assert wait_until(lambda: not is_running(before), SOON)


def test_a_changed_file_is_noticed_and_the_plugin_gets_a_new_server(node: SharingHost) -> None:
    node.install("one", "two")
    (before, _) = node.servers("one", "two")
    path = node.module("one")
    path.write_text(path.read_text().replace("result = ", "result = other = ") + "\n")
    assert wait_until(lambda: node.server("one") != before, SOON)
    assert node.ask("one", "result.extra['seen'] = 1")["seen"] == 1


@pytest.mark.parametrize("command", [None, Command("/nonexistent", ["x"]), Command("/bin/false", ["false"])])
def test_without_a_shared_server_each_plugin_has_one_of_its_own(node: SharingHost, command: Command | None) -> None:
    node.command = command
    node.install("one", "two")
    servers = node.servers("one", "two")
    assert len(set(servers)) == 2
    assert all(node.is_alone(each) for each in servers)


def test_a_server_that_does_not_start_is_named_once_and_its_last_line_is_logged(
    node: SharingHost, caplog: pytest.LogCaptureFixture
) -> None:
    node.command = Command(sys.executable, [sys.executable, "-c", "import sys; sys.exit('a library is missing')"])
    node.install("one", "two")
    node.servers("one", "two")
    assert len(caplog.messages) == 1
    assert "has no shared server: a library is missing" in caplog.text


def test_a_server_that_hangs_is_ended_and_each_plugin_has_one_of_its_own(
    node: SharingHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_server, "LOADED_WITHIN", 0.3)
    monkeypatch.setattr(shared_server, "END_WITHIN", 0.2)
    mark = str(node.host.root) + "/"
    node.command = Command(sys.executable, [sys.executable, "-c", f"import time; time.sleep(999)  # {mark}"])
    node.install("one", "two")
    assert all(node.is_alone(each) for each in node.servers("one", "two"))
    assert wait_until(lambda: all(node.is_alone(pid) for pid in node.host.processes()), SOON)


def test_the_server_ends_with_its_last_plugin_and_starts_again(node: SharingHost) -> None:
    node.install("one", "two")
    node.pool.keep([("one", ""), ("two", "")])
    (before, _) = node.servers("one", "two")
    node.pool.keep([("one", "")])
    assert node.server("one") == before
    node.pool.keep([])
    assert wait_until(lambda: not is_running(before), SOON)
    after = node.server("one")
    assert after != before
    assert not node.is_alone(after)


def test_the_only_plugin_of_a_configuration_has_a_server_of_its_own_and_a_second_one_does_not_change_that(
    node: SharingHost,
) -> None:
    node.install("one", "two")
    node.pool.keep([("one", "")])
    (alone,) = node.servers("one")
    assert node.is_alone(alone)
    node.pool.keep([("one", ""), ("two", "")])
    (one, two) = node.servers("one", "two")
    assert one == alone
    assert not node.is_alone(two)


def test_a_plugin_that_must_not_be_preforked_is_not_in_the_server(node: SharingHost) -> None:
    node.install("one")
    node.pool.keep([("one", "never"), ("two", "")])
    for _ in range(3):
        assert node.ask("one")["id"]["parent"] == os.getpid()


def test_requests_of_many_threads_are_all_answered(node: SharingHost) -> None:
    types = ("one", "two", "three")
    node.install(*types)
    node.servers(*types)
    found: list[int] = []

    def ask(type_: str) -> None:
        found.extend(node.ask(type_)["id"]["pid"] for _ in range(20))

    threads = [threading.Thread(target=ask, args=(type_,)) for type_ in types * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == len(found) == 120
