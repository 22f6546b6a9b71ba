"""nri-runc removes a container that its plugins did not serve, however it is ended, and is a runtime by any name."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.runtime.conftest import SOURCE, Runtime
from tests.support.processes import MEASURED, is_running
from tests.support.waiting import SOON, until, wait_until

RESTORE = ("restore", "--detach", "web")
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
def hanging_in_a_plugin(runtime: Runtime, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run this command until its plugin hangs."""
    host = runtime.host
    host.script("hanging", f"#!/bin/sh\ncat >/dev/null\n: >{host.root}/begun\nexec sleep 1000\n")
    host.configure_text('{"version": "0.1", "plugins": [{"type": "hanging"}]}')
    runtime.exists()
    command = runtime.command(*words)
    with subprocess.Popen(
        command, env=runtime.environment, cwd=host.root, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            assert wait_until((host.root / "begun").exists)
            yield process
        finally:
            (runtime.real.parent / "go").touch()
            process.kill()


def deleting(runtime: Runtime) -> list[int]:
    """Return the processes of the real runtime's `delete` so far."""
    file = runtime.real.parent / "deleting"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def test_restored_container_is_deleted_if_nri_runc_is_killed(runtime: Runtime) -> None:
    with hanging_in_a_plugin(runtime, *RESTORE) as process:
        process.kill()
        process.wait(SOON)
        assert wait_until(lambda: any("delete" in words for words in runtime.words()))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_second_signal_does_not_stop_the_deletion(runtime: Runtime, number: signal.Signals) -> None:
    runtime.script(DELETE)
    with hanging_in_a_plugin(runtime, *RESTORE) as process:
        process.terminate()
        assert wait_until(lambda: deleting(runtime))
        (pid,) = deleting(runtime)
        process.send_signal(number)
        wait_until(lambda: not is_running(pid), 3)  # which must not happen
        (runtime.real.parent / "go").touch()
        assert wait_until((runtime.real.parent / "deleted").exists)


def test_container_below_a_relative_root_is_deleted(runtime: Runtime) -> None:
    with hanging_in_a_plugin(runtime, "--root", "state", "create", "--bundle", "bundle", "web") as process:
        process.terminate()
        process.wait(SOON)

        def deletes() -> list[dict[str, Any]]:
            return [call for call in runtime.calls() if "delete" in call["argv"]]

        (call,) = until(deletes, "the deletion")
        root = call["argv"][call["argv"].index("--root") + 1]
        assert os.path.join(call["cwd"], root) == str(runtime.host.root / "state")


@pytest.mark.runtime
@pytest.mark.skipif(shutil.which("runc") is None, reason="runc is not installed")
def test_link_named_runc_runs_the_runtime(tmp_path: Path) -> None:
    (tmp_path / "nri-runc").touch()
    (tmp_path / "runc").symlink_to("nri-runc")
    code = f"import sys; sys.argv[0] = {str(tmp_path / 'runc')!r}; from nri.cli.entry import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", code, "features"],
        env={"PYTHONPATH": SOURCE, **MEASURED},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ociVersionMin" in ran.stdout, ran.stderr
