"""What a container was made with: kept from its `create` to its `delete`, whatever becomes of its bundle."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.integration.runc.conftest import NriRunc
from tests.support.host import plugin
from tests.support.waiting import SOON, wait_until

CREATE = ("create", "--bundle", "bundle", "web")
ADJUSTER = """#!/bin/sh
case $(cat) in *'"state":"setup"'*) echo '{"adjust": {"annotations": {"by": "setup"}}}' ;; *) echo '{}' ;; esac
"""
HANGS = 'if "create" in words:\n    open(here + "/begun", "w").close()\n    time.sleep(1000)\n'


def kept(runtime: NriRunc) -> list[Path]:
    return [*(runtime.host.root / "record/.runc").glob("*")]


def adjust(runtime: NriRunc) -> None:
    """Configure a plugin that changes an annotation, and one that keeps its requests."""
    runtime.host.script("adjuster", ADJUSTER)
    runtime.keep()
    keeper = plugin("noop", ["keep", str(runtime.host.root / "requests")], states=["setup", "resize", "update"])
    runtime.host.configure(plugin("adjuster", states=["setup"]), keeper)


def make(runtime: NriRunc) -> None:
    adjust(runtime)
    runtime.exists(status="created")
    assert runtime.run(*CREATE, cwd=runtime.host.root).returncode == 0


def kill_while_it_is_made(runtime: NriRunc) -> None:
    runtime.keep()
    runtime.script(HANGS)
    command = runtime.command(*CREATE)
    with subprocess.Popen(
        command, env=runtime.environment, cwd=runtime.host.root, stdin=subprocess.DEVNULL
    ) as process:
        assert wait_until((runtime.real.parent / "begun").exists)
        process.kill()
        process.wait(SOON)
    subprocess.run(["pkill", "-f", str(runtime.real)], check=False)  # the real runtime, which the kill has left
    runtime.script("")
    runtime.exists(status="created")


def test_bundle_is_as_it_was_and_requests_show_what_was_made(runtime: NriRunc) -> None:
    config = runtime.bundle / "config.json"
    before = config.read_bytes()
    make(runtime)
    assert config.read_bytes() == before
    config.write_text("{}")
    update = ("update", "--resources", "-", "web")
    assert runtime.run(*update, input='{"cpu": {"shares": 7}}').returncode == 0
    assert runtime.run("delete", "web").returncode == 0
    _, *others, last = runtime.requests()
    assert {request["spec"]["annotations"].get("by") for request in [*others, last]} == {"setup"}
    assert last["spec"]["resources"]["cpu"]["shares"] == 7
    assert kept(runtime) == []


def test_a_container_of_another_bundle_is_as_its_bundle_says(runtime: NriRunc) -> None:
    make(runtime)
    other = runtime.host.bundle({"annotations": {"of": "another"}}, name="other")
    runtime.exists(bundle=str(other), status="created")
    assert runtime.run("delete", "web").returncode == 0
    assert runtime.requests()[-1]["spec"]["annotations"] == {"of": "another"}


@pytest.mark.parametrize("content", ["", "[]", '{"bundle": 1}', '{"spec": 1}'])
def test_a_damaged_record_is_ignored(runtime: NriRunc, content: str) -> None:
    make(runtime)
    kept(runtime)[0].write_text(content)
    assert runtime.run("delete", "web").returncode == 0
    assert "by" not in runtime.requests()[-1]["spec"].get("annotations", {})


def test_changes_stay_in_the_bundle_where_nothing_can_be_kept(runtime: NriRunc) -> None:
    runtime.set_options(recordDir="/proc/1/record")
    make(runtime)
    assert '"by"' in (runtime.bundle / "config.json").read_text()
    assert runtime.run("delete", "web").returncode == 0
    assert runtime.requests()[-1]["spec"]["annotations"]["by"] == "setup"


def test_failed_create_leaves_the_bundle_as_it_was(runtime: NriRunc) -> None:
    config = runtime.bundle / "config.json"
    before = config.read_bytes()
    adjust(runtime)
    runtime.script("sys.exit(3)")
    assert runtime.run(*CREATE, cwd=runtime.host.root).returncode == 3
    assert (config.read_bytes(), kept(runtime)) == (before, [])


def test_container_whose_plugins_have_not_ended_is_not_started(runtime: NriRunc) -> None:
    kill_while_it_is_made(runtime)
    before = len(runtime.words())
    started = runtime.run("start", "web")
    assert (started.returncode, len(runtime.words())) == (1, before)
    assert "start: its plugins' create has not ended; delete the container, and create it again" in started.stderr
    assert runtime.run("start", "other").returncode == 0
    assert runtime.run("delete", "web").returncode == 0
    assert runtime.run("start", "web").returncode == 0


def test_container_made_without_plugins_starts_after_one_that_was_killed(runtime: NriRunc) -> None:
    kill_while_it_is_made(runtime)
    runtime.host.configure_text('{"version": "0.1", "plugins": []}')
    (runtime.real.parent / "state").unlink()
    assert runtime.run(*CREATE, cwd=runtime.host.root).returncode == 0
    assert runtime.run("start", "web").returncode == 0


def test_two_calls_do_not_use_one_bundle(runtime: NriRunc) -> None:
    runtime.keep()
    runtime.script(HANGS.replace('"create"', '"run"'))
    command = runtime.command("run", "--bundle", "bundle", "first")
    with subprocess.Popen(
        command, env=runtime.environment, cwd=runtime.host.root, stdin=subprocess.DEVNULL
    ) as process:
        assert wait_until((runtime.real.parent / "begun").exists)
        second = runtime.run(*CREATE, cwd=runtime.host.root)
        assert second.returncode == 1
        assert "config.json: another nri-runc makes or runs a container of it" in second.stderr
        process.terminate()  # which the real runtime gets
    assert [words[-1] for words in runtime.words() if "create" in words] == []
