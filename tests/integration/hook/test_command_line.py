"""The hook's command line: what it reads itself it reads as click does, and a good run needs nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from nri import hook
from nri.cli.hook import hook as command
from tests.support.host import OCI_CONFIG, Host, plugin

SOURCE = str(Path(__file__).parents[3])
FIELDS = ("state", "conf_dir", "conf_file", "bin_dirs", "check_owner", "timeout", "deadline", "log_file")


def as_click_reads(words: list[str]) -> dict[str, Any] | None:
    """The values that click hands over; None for a usage error."""
    try:
        values = command.make_context("hook", list(words)).params
    except click.UsageError:
        return None
    unchecked = values.pop("no_check_owner")
    return {**values, "check_owner": not unchecked}


RIGHT = [
    ["create"],
    ["delete"],
    ["update", "--timeout", "3"],
    ["--timeout=0.5", "setup"],
    ["--conf-dir", "/a", "pause", "--conf-file", "b"],
    ["resume", "--bin-dir", "/a", "--bin-dir=/b", "--bin-dir", "/a"],
    ["create", "--log-file=/x=y"],
    ["create", "--conf-dir", "/a", "--conf-dir", "/b"],
    ["create", "--conf-dir", "--bin-dir"],
    ["create", "--conf-dir", "create"],
    ["create", "--conf-dir", " "],
    ["create", "--timeout", "1_0"],
    ["create", "--timeout", " 5 "],
    ["create", "--timeout", "3600"],
    ["create", "--timeout", "1e3"],
    ["create", "--timeout", "1", "--timeout", "2"],
    ["create", "--log-file", "\udcff"],
    ["create", "--deadline", "2.5", "--timeout", "1"],
    ["create", "--deadline=3600", "--deadline=1"],
    ["create", "--no-check-owner"],
    ["--no-check-owner", "create", "--no-check-owner", "--conf-dir", "--no-check-owner"],
]
WRONG = [
    [],
    ["start"],
    ["CREATE"],
    ["create", "delete"],
    ["create", ""],
    ["--timeout", "1"],
    ["create", "--timeout"],
    ["create", "--timeout", "soon"],
    ["create", "--timeout", "0"],
    ["create", "--timeout", "-1"],
    ["create", "--timeout", "3601"],
    ["create", "--timeout", "inf"],
    ["create", "--timeout", "nan"],
    ["create", "--timeout", "x", "--timeout", "nan"],
    ["create", "--deadline", "0"],
    ["create", "--deadline", "nan"],
    ["create", "--deadline", "3601"],
    ["create", "--deadline", "soon"],
    ["create", "--bin-dir"],
    ["create", "--bin", "/a"],
    ["create", "--nothing"],
    ["create", "-t", "1"],
    ["create", "-"],
    ["create", "--no-check-owner=yes"],
    ["create", "--no-check"],
    ["create", "--check-owner"],
    ["--", "--timeout"],
]
FOR_CLICK = [["--", "create"], ["create", "--"], ["create", "--conf-dir="], ["create", "--log-file", ""]]
"""Right, but odd: left to click."""


@pytest.mark.parametrize("words", RIGHT, ids=" ".join)
def test_what_is_right_is_read_as_click_reads_it(words: list[str]) -> None:
    arguments = hook.parse(words)
    assert arguments is not None
    assert {name: getattr(arguments, name) for name in FIELDS} == as_click_reads(words)


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_what_is_wrong_is_wrong_for_both(words: list[str]) -> None:
    assert hook.parse(words) is None
    assert as_click_reads(words) is None


@pytest.mark.parametrize("words", FOR_CLICK, ids=" ".join)
def test_what_is_odd_is_left_to_click(words: list[str]) -> None:
    assert hook.parse(words) is None
    assert as_click_reads(words) is not None


HEAVY = (
    *("click", "jsonschema", "referencing", "google", "json", "re", "subprocess", "logging", "typing", "asyncio"),
    *("signal", "enum", "dataclasses", "pathlib", "importlib.metadata", "importlib.resources", "traceback"),
)


def nri(host: Host, *words: str, stdin: bytes | None = b"", code: str = "") -> subprocess.CompletedProcess[bytes]:
    program = f"import sys\n{code}\nsys.argv = {['nri', *words]!r}\nfrom nri.cli.entry import main\nmain()\n"
    return subprocess.run(
        [sys.executable, "-S", "-c", program],
        input=stdin,
        env={"PYTHONPATH": ":".join([SOURCE, *sys.path])},
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize("verb", ["create", "delete"])
def test_a_good_run_imports_nothing_heavy(host: Host, verb: str) -> None:
    host.install("noop")
    host.configure(plugin("noop", ["stderr", "hello\n"], timeout=20.5, states=["update"], failure_policy="fail"))
    host.bundle(OCI_CONFIG)
    report = (
        "import os; end = os._exit; os._exit = lambda status: (print(sorted(sys.modules), flush=True), end(status))"
    )
    done = nri(host, "hook", verb, *host.options, stdin=host.state(), code=report)
    assert (done.returncode, done.stderr) == (0, b"nri: noop: hello\n")
    loaded = set(eval(done.stdout))
    assert "nri.process.launch" in loaded
    assert loaded.intersection(HEAVY) == set()


def test_a_wrong_command_line_is_explained_with_status_2(host: Host) -> None:
    done = nri(host, "hook", "start", *host.options)
    assert done.returncode == 2
    assert b"Invalid value" in done.stderr
    assert b"Usage: nri hook" in done.stderr


def test_help_is_clicks(host: Host) -> None:
    done = nri(host, "hook", "--help")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"createRuntime" in done.stdout


@pytest.mark.parametrize("words", [["create"], ["create", "--"]], ids=" ".join)
def test_without_a_stdin_it_says_so(host: Host, words: list[str]) -> None:
    host.configure(plugin("noop"))
    done = nri(host, "hook", *host.options, *words, code="import os\nsys.stdin.close()\nsys.stdin = None")
    assert done.returncode == 1
    assert done.stderr.startswith(b"nri hook create: the container's state on stdin: the document is empty")


def test_click_runs_the_same_hook(host: Host) -> None:
    host.install("noop")
    host.configure(plugin("noop", ["error", "no"]))
    host.bundle(OCI_CONFIG)
    done = nri(host, "hook", *host.options, f"--log-file={host.root}/log", "--", "create", stdin=host.state())
    assert (done.returncode, done.stderr) == (1, b"nri hook create redis: plugin noop: no\n")
    assert (host.root / "log").read_text().endswith(" nri hook create redis: plugin noop: no\n")
