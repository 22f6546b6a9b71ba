"""Errors in the form of runc and crun, where engines look for them."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from nri.runc.commandline import CommandLine
from nri.runc.report import Report

JSON = '{"level":"error","msg":"nri-runc create: plugin a: said \\"no\\"","time":"TIME"}'
TEXT = 'time="TIME" level=error msg="nri-runc create: plugin a: said \\"no\\""'
SAID = 'nri-runc create: plugin a: said "no"'


def report(words: str, **options: Any) -> tuple[Report, io.StringIO]:
    stderr = io.StringIO()
    return Report("nri-runc", CommandLine(words.split()), stderr, **options), stderr


def timeless(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)


@pytest.mark.parametrize(
    ("words", "is_crun", "line"),
    [
        ("create", False, TEXT),
        ("--log-format json create", False, JSON),
        ("--log /dev/stderr create", False, TEXT),
        ("create", True, SAID),
        ("--log-format json create", True, SAID),
        ("--log journald:x create", True, SAID),
    ],
)
def test_without_a_log_the_error_is_on_stderr_in_its_form(
    words: str, is_crun: bool, line: str
) -> None:
    outlets, stderr = report(words, is_crun=is_crun)
    outlets.error('plugin a: said "no"')
    assert timeless(stderr.getvalue()) == f"{line}\n"


@pytest.mark.parametrize(
    ("prefix", "is_crun", "format_", "line"),
    [
        ("", False, "json", JSON),
        ("", False, "text", TEXT),
        ("file:", True, "json", JSON),
        ("", True, "text", SAID),
    ],
)
def test_with_a_log_the_error_is_in_both(
    tmp_path: Path, prefix: str, is_crun: bool, format_: str, line: str
) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    outlets, stderr = report(f"--log {prefix}{log} --log-format {format_} create", is_crun=is_crun)
    outlets.error('plugin a: said "no"')
    assert stderr.getvalue() == f"{SAID}\n"
    assert timeless(log.read_text()) == f"before\n{line}\n"


def test_note_is_not_on_stderr_if_there_is_a_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    outlets, stderr = report(f"--log {log} --log-format json create")
    outlets.note("plugin a: hello")
    assert stderr.getvalue() == ""
    assert json.loads(log.read_text())["level"] == "warning"

    own = tmp_path / "own"
    outlets, stderr = report("create", log_file=str(own))
    outlets.note("plugin a: hello")
    outlets.error("plugin a: no")
    assert [line.partition(" ")[2] for line in own.read_text().splitlines()] == [
        "nri-runc: plugin a: hello",
        "nri-runc create: plugin a: no",
    ]
    assert "hello" not in stderr.getvalue()


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    outlets, stderr = report(f"--log {tmp_path} create")
    outlets.error("no")
    assert (
        stderr.getvalue()
        == f"nri-runc create: no\nnri-runc: --log {tmp_path}: cannot be written: Is a directory\n"
    )


def test_control_characters_do_not_reach_a_terminal() -> None:
    outlets, stderr = report("create")
    outlets.error("plugin a: \x1b[2J\nno", "b")
    assert "\x1b" not in stderr.getvalue()
    assert stderr.getvalue().count("\n") == 1
