"""A file that is not there is no answer: edits, mounts that come late, and options that are cut run nothing bare."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri.status.judging import judge
from nri.v2 import api
from tests.integration.hook.running import Ran
from tests.integration.runc.conftest import NriRunc
from tests.integration.v1bridge.bridge_process import BridgeProcess
from tests.support.host import OCI_CONFIG, Host, plugin
from tests.support.pods import container, pod
from tests.support.runtime import Runtime
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def surroundings() -> Iterator[None]:
    """The hook, which runs in this process, changes directory, umask and limits: they are put back."""
    directory, mask, limits = os.getcwd(), os.umask(0o022), resource.getrlimit(resource.RLIMIT_CORE)
    yield
    os.chdir(directory)
    os.umask(mask)
    resource.setrlimit(resource.RLIMIT_CORE, limits)


@pytest.fixture
def bridge(host: Host, bridge: BridgeProcess) -> BridgeProcess:
    """Not started yet; its runtime listens, and there is one plugin, which keeps its requests."""
    bridge.listen()
    host.configure(bridge.node.keeper())
    return bridge


def start(runtime: Runtime, *ids: str) -> None:
    for id_ in ids:
        request = api.StartContainerRequest(pod=pod(), container=container(id=id_, name=id_))
        runtime.event(api.Event.START_CONTAINER, request)


def running(*ids: str) -> list[api.Container]:
    state = api.ContainerState.CONTAINER_RUNNING
    return [container(id=id_, name=id_, state=state) for id_ in ids]


def created(bridge: BridgeProcess) -> set[str]:
    return {id_ for state, id_ in bridge.node.steps if state == "create"}


class Away:
    """A configuration that is moved away and back."""

    def __init__(self, conf: Path, way: str) -> None:
        self.moved = conf / "10-test.conf" if way == "file" else conf
        self.aside = conf.parent / "aside"

    def go(self) -> None:
        self.moved.rename(self.aside)

    def come_back(self) -> None:
        self.aside.rename(self.moved)


@pytest.mark.parametrize("way", ["file", "directory"])
def test_bridge_that_is_started_without_the_configuration_uses_the_last_one(
    host: Host, bridge: BridgeProcess, way: str
) -> None:
    away = Away(host.conf, way)
    runtime = bridge.connect()
    start(runtime, "one")
    assert wait_until(lambda: bridge.status["lateCreates"]["succeeded"] == 1)  # the sandbox
    bridge.kill()
    runtime.close()
    away.go()
    runtime = bridge.connect(*running("one", "missed"))
    start(runtime, "two")
    assert wait_until(lambda: created(bridge) == {"6efd", "one", "missed", "two"})
    time.sleep(2.1)  # the files count as removed by now, if others are left
    start(runtime, "three")
    assert created(bridge) == {"6efd", "one", "missed", "two", "three"}
    verdict = judge(bridge.status)
    assert verdict.code == 1
    assert "configuration" in verdict.line
    away.come_back()
    start(runtime, "four")
    assert wait_until(lambda: judge(bridge.status).code == 0)
    assert bridge.status["without"]["by"] == []
    bridge.kill()
    runtime.close()
    bridge.connect(*running("one", "missed", "two", "three", "four"))
    assert wait_until(lambda: bridge.status["runtime"]["synchronized"])
    assert bridge.status["lateCreates"]["waiting"] == 0
    assert len(bridge.node.steps) == 6, "nothing twice"


# Hosts that run once


@contextmanager
def edits(file: Path, seconds: float, *, renamed: bool) -> Iterator[None]:
    """Move a file away and back, again and again."""
    over = threading.Event()
    other = file.with_name("20-other.conf") if renamed else file.with_name("away")

    def edit() -> None:
        while not over.is_set():
            file.rename(other)
            over.wait(seconds)
            other.rename(file)
            over.wait(seconds)

    thread = threading.Thread(target=edit)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("renamed", [False, True])
@pytest.mark.parametrize("seconds", [0.01, 0.2])
def test_hooks_wait_for_a_file_or_refuse(host: Host, seconds: float, renamed: bool) -> None:
    kept = host.root / "kept"
    host.install("keeper")
    host.configure(plugin("keeper", ["keep", str(kept)]))
    host.bundle(OCI_CONFIG)
    assert Ran(host).status == 0
    succeeded = 1
    with edits(host.conf / "10-test.conf", seconds, renamed=renamed):
        for _ in range(12):
            ran = Ran(host, deadline=30.0)
            succeeded += ran.status == 0
            assert ran.status == 0 or "is missing for a moment" in ran.stderr
    assert len(kept.read_text().splitlines()) == succeeded


def test_hook_refuses_at_its_deadline_and_goes_on_when_the_file_counts_as_lost(host: Host) -> None:
    kept = host.root / "kept"
    host.install("keeper")
    host.configure(plugin("keeper", ["keep", str(kept)]))
    host.bundle(OCI_CONFIG)
    assert Ran(host).status == 0
    (host.conf / "10-test.conf").unlink()
    ran = Ran(host, deadline=0.3)
    assert (
        ran.status,
        "10-test.conf:1:1: (document): was in use, and is missing for a moment" in ran.stderr,
    ) == (
        1,
        True,
    )
    ran = Ran(host)
    assert (ran.status, ran.stderr.startswith("nri: missing, and still in use until ")) == (0, True)
    (host.conf / "10-test.conf").write_text("{")
    ran = Ran(host)
    assert (
        ran.status,
        "invalid configuration; still using the last valid one: " in ran.stderr,
    ) == (0, True)
    assert len(kept.read_text().splitlines()) == 3
    host.configure()
    assert (Ran(host).status, Ran(host).stderr) == (0, "")
    assert len(kept.read_text().splitlines()) == 3


@pytest.mark.parametrize("renamed", [False, True])
def test_nri_runc_waits_for_a_file_or_refuses(host: Host, renamed: bool) -> None:
    host.root.chmod(0o755)
    runtime = NriRunc(host)
    runtime.keep()
    runtime.exists(status="created")
    assert runtime.run("create", "--bundle", str(runtime.bundle), "web").returncode == 0
    succeeded = 1
    with edits(host.conf / "10-test.conf", 0.05, renamed=renamed):
        for number in range(8):
            done = runtime.run("create", "--bundle", str(runtime.bundle), f"web-{number}")
            succeeded += done.returncode == 0
            assert done.returncode == 0 or "is missing for a moment" in done.stderr
    assert runtime.states().count("create") == succeeded


# The options of a bridge that a runtime launches


def cut(text: str) -> str:
    return text[:-2]


WRONG_OPTIONS: dict[str, Callable[[str], str]] = {
    "empty": lambda text: "",
    "cut": cut,
    "misspelt directory": lambda text: text.replace("resource.d", "resource.f"),
}


def launched(bridge: BridgeProcess, options: str) -> Runtime:
    runtime = bridge.launch()
    runtime.configure(options)
    runtime.synchronize([pod()], [])
    return runtime


@pytest.mark.parametrize("wrong", WRONG_OPTIONS)
def test_wrong_options_leave_the_last_valid_ones_in_use(
    host: Host, bridge: BridgeProcess, wrong: str
) -> None:
    options = bridge.settings()
    bridge.end(launched(bridge, options))
    runtime = launched(bridge, WRONG_OPTIONS[wrong](options))
    start(runtime, "one")
    assert created(bridge) >= {"one"}
    assert "still using the last valid ones" in bridge.log
    bridge.end(runtime)
    runtime = launched(bridge, "{}")  # which says that they are the defaults
    start(runtime, "two")
    bridge.end(runtime)
    assert "two" not in created(bridge)


def test_options_of_a_trial_are_not_the_nodes(host: Host, bridge: BridgeProcess) -> None:
    """As of the demonstration, whose record is in a directory of its own, not below /run."""
    bridge.end(launched(bridge, bridge.settings(recordDir=f"{host.root}/trial.record")))
    runtime = launched(bridge, "")
    start(runtime, "one")
    bridge.end(runtime)
    assert "one" not in created(bridge)


@pytest.mark.parametrize("wrong", [wrong for wrong in WRONG_OPTIONS if wrong != "empty"])
def test_wrong_options_without_valid_ones_are_no_configuration(
    host: Host, bridge: BridgeProcess, wrong: str
) -> None:
    options = bridge.settings()
    runtime = launched(bridge, WRONG_OPTIONS[wrong](options))
    start(runtime, "one")
    assert wait_until(lambda: bridge.status["without"]["containers"] == 2)
    verdict = judge(bridge.status)
    is_valid = wrong == "misspelt directory"
    why = (
        "resource.f:1:1: (document): does not exist" if is_valid else "the options of the bridge: "
    )
    assert (verdict.code, why in verdict.line) == (1, True)
    assert created(bridge) == set()
    bridge.end(runtime)
    runtime = bridge.launch()
    runtime.configure(options)
    runtime.synchronize([pod()], running("one"))
    assert wait_until(lambda: created(bridge) == {"6efd", "one"})
    bridge.end(runtime)


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_file_of_options_is_no_answer_at_the_very_first_start(
    host: Host, bridge: BridgeProcess, text: str
) -> None:
    """Runtimes pass "" for a file that is not there, too: it is looked at."""
    (host.root / "conf.d").mkdir()
    (host.root / "conf.d/10-v1bridge.conf").write_text(" \n")
    runtime = launched(bridge, text)
    start(runtime, "one")
    assert wait_until(lambda: bridge.status["without"]["containers"] == 2)
    verdict = judge(bridge.status)
    assert (verdict.code, "the options of the bridge: the file is empty" in verdict.line) == (
        1,
        True,
    )
    bridge.end(runtime)
