"""The programs in C of the benchmark: they do what the figures claim that they do."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from bench import executables
from nri.process import launch
from tests.support.page_examples import need
from tests.support.processes import is_running
from tests.support.waiting import wait_until

REPORT = """#!/bin/sh
cat > "{folder}/stdin"
echo $$ > "{folder}/pid"
cut -d' ' -f5 /proc/$$/stat > "{folder}/group"
env | grep -v ^PWD= | sort > "{folder}/found"
while read -r line; do case $line in Sig[BI]*) echo "$line" ;; esac; done < /proc/$$/status >> "{folder}/found"
ls /proc/$$/fd >> "{folder}/found"
echo '{{"plugin":"report"}}'
"""
"""A plugin that notes the process that it is; its signals itself, since a shell blocks them for programs."""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    need("cc", "gcc")
    for name in ("noop", "starts", "floor"):
        executables.compiled(name, tmp_path)
    return tmp_path


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def run(program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)


def starts(programs: Path, plugin: Path, *, runs: int = 1) -> subprocess.CompletedProcess[str]:
    request = programs / "request"
    request.write_text(json.dumps({"version": "0.1", "id": "a" * 1000}))
    return run(programs / "starts", plugin, request, str(runs), "0")


def test_the_plugin_reads_a_request_that_is_larger_than_a_pipe(programs: Path) -> None:
    with subprocess.Popen([programs / "noop", "invoke"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as noop:
        assert noop.stdin is not None
        for _ in range(16):
            noop.stdin.write(bytes(65536))  # it raises if the plugin has ended
            noop.stdin.flush()
        assert noop.poll() is None, "it answers before the end of its request"
        output, _ = noop.communicate()
    assert json.loads(output)["error"] == ""


def test_each_run_is_timed_and_gets_the_request(programs: Path) -> None:
    plugin = script(programs / "report", REPORT.format(folder=programs))
    done = starts(programs, plugin, runs=3)
    assert (done.returncode, done.stderr) == (0, "")
    assert len([float(line) for line in done.stdout.split()]) == 3
    assert (programs / "stdin").read_text() == (programs / "request").read_text()


def found_in(folder: Path) -> list[str]:
    """Return what the plugin has noted, without the signals that are its C library's: a newer one resets them."""
    own = sum(1 << number - 1 for number in (32, 33, 34))
    lines = (folder / "found").read_text().splitlines()
    return [f"{int(line.split()[1], 16) & ~own:x}" if line.startswith("Sig") else line for line in lines]


def test_a_plugin_is_started_as_the_bridge_starts_it(programs: Path) -> None:
    folders = [programs / name for name in ("ours", "c")]
    for folder in folders:
        folder.mkdir()
        script(folder / "report", REPORT.format(folder=folder))
    ours, c = folders
    launch.launch(str(ours / "report"), ["report", "invoke"], b"", time.monotonic() + 30, log=lambda _line: None)
    assert starts(programs, c / "report").returncode == 0
    assert found_in(c) == found_in(ours)
    for folder in folders:
        assert (folder / "group").read_text() == (folder / "pid").read_text()


def test_what_a_plugin_leaves_running_is_killed(programs: Path) -> None:
    pid = programs / "left"
    plugin = script(programs / "leaves", f"#!/bin/sh\nsleep 1000 >&- 2>&- <&- &\necho $! > '{pid}'\necho '{{}}'\n")
    assert starts(programs, plugin).returncode == 0
    left = int(pid.read_text())
    assert wait_until(lambda: not is_running(left))


@pytest.mark.parametrize("does", ["exit 3", "kill -9 $$", "exit 0"])
def test_a_plugin_that_fails_or_gives_no_result_is_reported(programs: Path, does: str) -> None:
    done = starts(
        programs, script(programs / "fails", f"#!/bin/sh\n[ '{does}' = 'exit 0' ] || echo '{{}}'\n{does}\n")
    )
    assert done.returncode == 1
    assert done.stderr.startswith("starts: ")


@pytest.mark.parametrize(
    ("arguments", "columns"),
    [
        (("relay", "5", "0", "-1", "-1"), 1),
        (("relay", "5", "100", "-1", "-1", "-1"), 1),
        (("fork", "5", "10"), 2),
        (("copy", "5", "10"), 1),
    ],
)
def test_each_step_has_a_line_with_its_microseconds(programs: Path, arguments: tuple[str, ...], columns: int) -> None:
    done = run(programs / "floor", *arguments)
    lines = [[float(cell) for cell in line.split()] for line in done.stdout.splitlines()]
    assert (done.returncode, len(lines), {len(line) for line in lines}) == (0, 5, {columns})
    assert all(cell > 0 for line in lines for cell in line)


def test_a_step_that_does_not_exist_is_refused(programs: Path) -> None:
    done = run(programs / "floor", "walk", "5", "10")
    assert (done.returncode, done.stderr.startswith("usage: floor ")) == (2, True)
