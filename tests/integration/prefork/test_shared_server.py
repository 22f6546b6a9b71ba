"""One server process for the plugins of this project, as their host uses it."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from nri import build_mark
from nri.client import ChainError
from nri.config.entries import PluginEntry
from nri.prefork.pool import shared_server
from nri.prefork.pool.pool import Pool
from nri.prefork.pool.shared_server import Command, SharedServer
from nri.process.wait import stat_fields
from tests.integration.prefork.preforked import SOURCE, nothing_is_left
from tests.support.host import request
from tests.support.processes import is_running
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.host import Host

OWN = ("clearcfs", "konfine", "logger", "device_injector", "hook_injector", "ulimit_adjuster")

MODULE = """
import os, sys, time
from nri import skel
LOADS

class Plugin(skel.Plugin):
    type = "TYPE"

    def invoke(self, request):
        result = request.new_result(self.type)
        exec((request.conf or {}).get("do", ""), globals(), {"result": result})
        result.extra["parent"] = os.getppid()
        return result

if __name__ == "__main__":
    skel.main(Plugin())
"""


class SharingHost:
    """A host whose plugins count as its own build.

    :ivar modules: the module of each plugin of the build, by the name of its executable.
    :ivar command: starts the shared server.
    """

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host = host
        self.folder = host.folder("modules")
        self.modules: dict[str, str] = {}
        self.paths = f"import sys; sys.path[:0] = [{SOURCE!r}, {str(self.folder)!r}]"
        self.command: Command | None = self.running("from nri.skel import shared; shared.serve()")
        self.pool = Pool(SharedServer(lambda: self.command))
        monkeypatch.setattr(build_mark, "read_own_plugin", self._read)

    def _read(self, path: str) -> tuple[str, str]:
        module = self.modules.get(os.path.basename(path), "")
        return (os.path.realpath(path), module) if module else ("", "")

    def running(self, code: str) -> Command:
        return Command(sys.executable, [sys.executable, "-c", f"{self.paths}; {code}"])

    def install(self, *types: str, loads: str = "") -> None:
        """Install plugins of the build.

        :param loads: what the module does when it is loaded.
        """
        for type_ in types:
            self.modules[type_] = f"told_{type_}"
            text = MODULE.replace("LOADS", loads).replace("TYPE", type_)
            self.folder.joinpath(f"told_{type_}.py").write_text(text)
            start = f"from nri import skel; from told_{type_} import Plugin; skel.main(Plugin())"
            self.host.script(type_, f"#!{sys.executable}\n{self.paths}\n{start}\n")

    def ask(self, type_: str, do: str = "", *, timeout: float = SOON) -> Any:
        """Return what the plugin adds to its result."""
        client = self.host.client(PluginEntry(type=type_, conf={"do": do}), timeout=timeout, pool=self.pool)
        (result,) = client.invoke(request(), "create")
        return result.extra

    def server(self, type_: str) -> int:
        """Return the process id of the plugin's server, once it has one."""
        assert wait_until(lambda: self.ask(type_)["parent"] != os.getpid())
        return int(self.ask(type_)["parent"])

    def servers(self, *types: str) -> list[int]:
        """Return the server of each of these plugins, once all are loaded."""
        for type_ in types:
            self.pool.prepare(f"{self.host.bin}/{type_}", type_)
        assert self.pool.wait_until_loaded(SOON)
        return [self.server(type_) for type_ in types]


def is_alone(server: int) -> bool:
    """Return whether the server is one of a single plugin."""
    with open(f"/proc/{server}/cmdline", "rb") as file:
        return b"\0prefork\0" in file.read()


@pytest.fixture
def node(host: Host, monkeypatch: pytest.MonkeyPatch) -> Iterator[SharingHost]:
    node = SharingHost(host, monkeypatch)
    yield node
    node.pool.close()
    nothing_is_left(host)


def answer(node: SharingHost, type_: str, conf: Any, *, prefork: bool) -> str:
    """Return what a plugin answers, or the error."""
    client = node.host.client(PluginEntry(type=type_, conf=conf), pool=node.pool if prefork else None)
    try:
        (result,) = client.invoke(request(), "create")
    except ChainError as error:
        return str(error)
    return result.to_json().decode()


def test_plugins_of_this_project_fit_into_one_process_and_answer_as_when_they_are_started(
    node: SharingHost, caplog: pytest.LogCaptureFixture
) -> None:
    node.modules.update({type_: f"nri.plugins.{type_}.__main__" for type_ in OWN})
    types = [node.host.compiled(f"nri.plugins.{type_}") for type_ in OWN]
    for type_ in types:
        node.pool.prepare(f"{node.host.bin}/{type_}", type_)
    assert node.pool.wait_until_loaded(SOON)
    assert {node.pool.standing(f"{node.host.bin}/{type_}").state for type_ in types} == {"ready"}
    for type_ in types:
        wrong = {"nonsense": 1}  # a conf that names no file and no cgroup of this machine
        assert answer(node, type_, wrong, prefork=True) == answer(node, type_, wrong, prefork=False) != ""
    assert caplog.messages == []
    assert len({stat_fields(pid)[1] for pid in node.host.processes()} - {b"%d" % os.getpid()}) == 1


def test_worker_has_the_arguments_and_only_the_descriptors_of_its_plugin(node: SharingHost) -> None:
    node.install("one", "two", "three")
    assert len(set(node.servers("one", "two", "three"))) == 1
    seen = "result.extra['seen'] = [sys.argv, sys.executable, open('/proc/self/comm').read(), os.listdir('/dev/fd')]"
    for type_ in ("one", "two"):
        *names, descriptors = node.ask(type_, seen)["seen"]
        assert names == [[type_, "invoke"], f"{node.host.bin}/{type_}", f"{type_}\n"]
        assert len(descriptors) == 5  # 0, 1, 2, its channel, and that of the listing


def test_after_a_worker_was_killed_its_plugin_gets_another_server_and_the_others_stay(node: SharingHost) -> None:
    node.install("one", "two")
    (before, other) = node.servers("one", "two")
    assert before == other
    with pytest.raises(ChainError, match=r"killed: no result after 0\.3 s"):
        node.ask("one", "time.sleep(99)", timeout=0.3)
    assert wait_until(lambda: node.server("one") != before)
    assert not is_alone(node.server("one"))
    assert node.server("two") == before


def test_server_that_is_killed_costs_no_request_and_all_plugins_share_a_new_one(node: SharingHost) -> None:
    node.install("one", "two")
    (before, _) = node.servers("one", "two")
    os.kill(before, signal.SIGKILL)
    assert wait_until(lambda: not is_running(before))
    for type_ in ("one", "two"):
        assert node.ask(type_)
    assert wait_until(lambda: node.server("one") == node.server("two") != before)


def test_module_that_cannot_be_loaded_gives_its_plugin_a_server_of_its_own(
    node: SharingHost, caplog: pytest.LogCaptureFixture
) -> None:
    node.install("one", "two")
    node.modules["two"] = "no_such_module"
    assert [is_alone(server) for server in node.servers("one", "two")] == [False, True]
    why = "no_such_module cannot be imported: No module named 'no_such_module'"
    assert caplog.messages == [f"two has no shared server: {why}"]


def test_plugin_that_makes_the_server_unfit_leaves_no_plugin_in_it(node: SharingHost) -> None:
    node.install("one")
    node.install(
        "two", loads="import threading; threading.Thread(target=time.sleep, args=(99,), daemon=True).start()"
    )
    (before,) = node.servers("one")
    node.pool.prepare(f"{node.host.bin}/two", "two")
    assert node.pool.wait_until_loaded(SOON)
    assert wait_until(lambda: node.server("one") != before)
    assert wait_until(lambda: not is_running(before))


def test_changed_module_gives_its_plugin_a_new_server(node: SharingHost) -> None:
    node.install("one", "two")
    (before, _) = node.servers("one", "two")
    node.install("one", loads="CHANGED = 1")
    assert wait_until(lambda: node.server("one") != before)
    assert node.ask("one", "result.extra['seen'] = CHANGED")["seen"] == 1


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (None, ""),
        (Command("/nonexistent", ["x"]), "it cannot be started: No such file or directory"),
        ("sys.exit('a library is missing')", "a library is missing"),
        ("import time; time.sleep(999)", "it does not become ready"),
    ],
)
def test_without_a_shared_server_each_plugin_has_one_of_its_own_and_the_reason_is_logged_once(
    node: SharingHost,
    command: Command | str | None,
    why: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_server, "END_WITHIN", 0.2)
    if "sleep" in str(command):
        monkeypatch.setattr(shared_server, "LOADED_WITHIN", 0.3)
    node.command = node.running(command) if isinstance(command, str) else command
    node.install("one", "two")
    servers = node.servers("one", "two")
    assert len(set(servers)) == 2
    assert all(is_alone(server) for server in servers)
    assert [message.partition(" has no shared server: ")[2] for message in caplog.messages] == [why] * bool(why)


def test_server_ends_with_its_last_plugin(node: SharingHost) -> None:
    node.install("one", "two")
    node.pool.keep([("one", ""), ("two", "")])
    (before, _) = node.servers("one", "two")
    node.pool.keep([("one", "")])
    assert node.server("one") == before
    node.pool.keep([])
    assert wait_until(lambda: not is_running(before))
