"""nri-runc removes a container that its plugins did not serve, however it is ended."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.integration.runc.conftest import NriRunc
from tests.support.host import plugin
from tests.support.processes import is_running
from tests.support.waiting import SOON, until, wait_until

CREATE = ("create", "--bundle", "bundle", "web")
DELETE = """
if "delete" in words:
    with open(here + "/deleting", "a") as file:
        file.write(f"{os.getpid()}\\n")
    while not os.path.exists(here + "/go"):
        time.sleep(0.01)
    open(here + "/deleted", "w").close()
"""
"""A real runtime whose `delete` waits until it may go on."""


@contextmanager
def hanging_in_a_plugin(runtime: NriRunc, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run this command until its plugin hangs."""
    host = runtime.host
    host.script("hanging", f"#!/bin/sh\ncat >/dev/null\n: >{host.root}/begun\nexec sleep 1000\n")
    host.configure_text('{"version": "0.1", "plugins": [{"type": "hanging"}]}')
    runtime.exists()
    with runtime.begun(*words) as process:
        try:
            yield process
        finally:
            (runtime.real.parent / "go").touch()
            process.kill()


def deleting(runtime: NriRunc) -> list[int]:
    """Return the processes of the real runtime's `delete` so far."""
    file = runtime.real.parent / "deleting"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def test_container_is_deleted_if_nri_runc_is_killed(runtime: NriRunc) -> None:
    with hanging_in_a_plugin(runtime, *CREATE) as process:
        process.kill()
        process.wait(SOON)
        assert wait_until(lambda: any("delete" in words for words in runtime.words()))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_second_signal_does_not_stop_the_deletion(runtime: NriRunc, number: signal.Signals) -> None:
    runtime.script(DELETE)
    with hanging_in_a_plugin(runtime, *CREATE) as process:
        process.terminate()
        assert wait_until(lambda: deleting(runtime))
        (pid,) = deleting(runtime)
        process.send_signal(number)
        wait_until(lambda: not is_running(pid), 3)  # which must not happen
        (runtime.real.parent / "go").touch()
        assert wait_until((runtime.real.parent / "deleted").exists)


def test_container_below_a_relative_root_is_deleted(runtime: NriRunc) -> None:
    with hanging_in_a_plugin(
        runtime, "--root", "state", "create", "--bundle", "bundle", "web"
    ) as process:
        process.terminate()
        process.wait(SOON)

        def deletes() -> list[dict[str, Any]]:
            return [call for call in runtime.calls() if "delete" in call["argv"]]

        (call,) = until(deletes, "the deletion")
        root = call["argv"][call["argv"].index("--root") + 1]
        assert os.path.join(call["cwd"], root) == str(runtime.host.root / "state")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_container_is_deleted_before_a_signal_ends_nri_runc(
    runtime: NriRunc, number: signal.Signals
) -> None:
    """Its caller may look at once, or remove the bundle."""
    runtime.script(DELETE)
    with hanging_in_a_plugin(runtime, *CREATE) as process:
        process.send_signal(number)
        assert wait_until(lambda: deleting(runtime))
        process.send_signal(signal.SIGTERM)  # it waits until that is done
        assert process.poll() is None
        (runtime.real.parent / "go").touch()
        assert process.wait(SOON) == -number
        assert (runtime.real.parent / "deleted").exists()
        assert len(deleting(runtime)) == 1


@pytest.mark.parametrize("state", ["setup", "create"])
def test_plugin_that_has_run_gets_a_delete_before_a_signal_ends_nri_runc(
    runtime: NriRunc, state: str
) -> None:
    host = runtime.host
    hangs = f"case $(cat) in *delete*) echo '{{}}'; exit ;; esac\n: >{host.root}/begun\nexec sleep 1000\n"
    host.script("hanging", f"#!/bin/sh\n{hangs}")
    runtime.keep()
    states = ["setup"] if state == "setup" else []
    keeper = plugin("noop", ["keep", str(host.root / "requests")], states=states)
    host.configure(keeper, plugin("hanging", states=states))
    if state == "create":
        runtime.exists()
    with runtime.begun(*CREATE) as process:
        process.terminate()
        assert process.wait(SOON) == -signal.SIGTERM
    assert runtime.states() == [state, "delete"]
    assert (["delete", "--force", "web"] in runtime.words()) == (state == "create")


@pytest.mark.parametrize("words", [CREATE, ("run", "--bundle", "bundle", "web")])
def test_container_that_has_the_id_already_is_left_alone(
    runtime: NriRunc, words: tuple[str, ...]
) -> None:
    (runtime.host.root / "kept/web").mkdir(parents=True)
    runtime.exists()
    runtime.keep()
    runtime.script("sys.exit('container with given ID already exists')")
    ran = runtime.run("--root", "kept", *words, cwd=runtime.host.root)
    assert (ran.returncode, ran.stderr) == (1, "container with given ID already exists\n")
    assert runtime.states() == []
    assert runtime.words()[-1] == ["--root", "kept", *words]


def test_id_that_looks_like_an_option_is_one(runtime: NriRunc) -> None:
    runtime.exists(id="-x")
    runtime.configure(["put", "error", "no"], states=[])
    assert (
        runtime.run("create", "--bundle", "bundle", "--", "-x", cwd=runtime.host.root).returncode
        == 1
    )
    assert runtime.words()[1:] == [["state", "--", "-x"], ["delete", "--force", "--", "-x"]]


def test_state_that_is_too_long_is_named_as_that(runtime: NriRunc) -> None:
    runtime.exists(annotations={"a": "x" * 1100000})
    runtime.keep()
    assert "state: found more than 1048576 bytes of output" in runtime.run("delete", "web").stderr
