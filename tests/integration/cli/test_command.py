"""The command as such: help, version, completion, exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

import nri
from nri.build import describe
from nri.cli.commands import COMMANDS
from nri.cli.commands import nri as group
from tests.integration.cli.running import SOURCE, process
from tests.support.processes import MEASURED

if TYPE_CHECKING:
    from pathlib import Path


def test_the_version_is_that_of_program_and_contract() -> None:
    ran = process("--version")
    assert (ran.status, ran.stdout) == (0, f"nri {describe()}, Node Resource Interface v0.1\n")
    assert describe().startswith(nri.__version__)
    ran = process("bridge", "--version")
    assert (ran.status, ran.stdout) == (0, f"v1bridge {describe()}\n")


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_the_help_of_every_command_shows_examples(command: str | None) -> None:
    ran = process(*([command] if command else []), "--help")
    assert (ran.status, ran.stderr) == (0, "")
    assert "Usage: nri" in ran.stdout
    assert "Examples:" in ran.stdout or '"args": ["nri", "hook", "create"]' in ran.stdout


def test_the_group_lists_the_commands_with_the_first_line_of_their_help() -> None:
    ran = process("-h")
    words = " ".join(ran.stdout.split())
    for name, line in COMMANDS.items():
        assert f"{name} {line}" in words
        command = group.get_command(click.Context(group), name)
        assert command is not None
        assert str(command.help).startswith(line.removesuffix("."))


@pytest.mark.parametrize("words", [["nonsense"], ["check", "--nonsense"], ["check", "more"], ["completion", "tcsh"]])
def test_a_wrong_command_line_is_status_2(words: list[str]) -> None:
    ran = process(*words)
    assert (ran.status, ran.stdout) == (2, "")
    assert "Usage: nri" in ran.stderr


@pytest.mark.parametrize(
    ("shell", "part"), [("bash", "complete -o"), ("zsh", "#compdef nri"), ("fish", "complete --")]
)
def test_completion_for_a_shell(shell: str, part: str) -> None:
    ran = process("completion", shell)
    assert ran.status == 0
    assert part in ran.stdout
    assert f"_NRI_COMPLETE={shell}_complete" in ran.stdout


@pytest.mark.parametrize(
    ("environment", "has_color"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({}, True),
    ],
    ids=str,
)
def test_colors_are_for_terminals_that_want_them(
    tmp_path: Path, environment: dict[str, str], has_color: bool
) -> None:
    (tmp_path / "10.conf").write_text('{"version": "0.1", "plugins": [{"type": "missing"}]}')
    (tmp_path / "10.conf").chmod(0o644)
    ours, terminal = os.openpty()
    words = ["check", f"--conf-dir={tmp_path}", f"--bin-dir={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-m", "nri.cli.entry", *words],
        env={"PYTHONPATH": SOURCE, **MEASURED, **environment},
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
        check=False,
    )
    os.close(terminal)
    said = b""
    try:
        while piece := os.read(ours, 65536):
            said += piece
    except OSError:
        pass  # the end of a terminal
    os.close(ours)
    assert done.returncode == 1
    assert b"not found: no such executable" in said
    assert (b"\x1b[" in said) == has_color


def test_bash_takes_its_completion() -> None:
    ran = process("completion", "bash")
    subprocess.run(["bash", "-n"], input=ran.stdout, text=True, check=True)


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("nri ", list(COMMANDS)),
        ("nri in", ["invoke"]),
        ("nri hook ", ["create", "delete"]),
        ("nri check --js", ["--json"]),
    ],
)
def test_commands_states_and_options_are_completed(line: str, offered: list[str]) -> None:
    words = line.split(" ")
    ran = process(_NRI_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    found = [item.partition(",")[2] for item in ran.stdout.splitlines()]
    assert set(offered) <= set(found)
