"""The command as such: help, version, completion, colours, exit status."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import nri
from nri.cli.commands import COMMANDS
from nri.cli.output import table, wrapped
from nri.version import describe
from tests.integration.cli.running import COMMAND, SOURCE, command, inside, process
from tests.support.host import Host
from tests.support.processes import MEASURED


def test_the_version_is_that_of_program_and_contract() -> None:
    ran = process("--version")
    assert (ran.status, ran.stdout) == (0, f"nri {describe()}, Node Resource Interface v0.1\n")
    assert describe().startswith(nri.__version__)
    ran = process("bridge", "--version")
    assert (ran.status, ran.stdout) == (0, f"v1bridge {describe()}\n")


def test_help_of_every_command_has_its_summary_and_examples() -> None:
    listed = " ".join(inside("-h").stdout.split())
    for name, line in COMMANDS.items():
        assert f"{name} {line}" in listed
        ran = inside(name, "--help")
        assert (ran.status, ran.stderr) == (0, "")
        assert f"Usage: nri {name}" in ran.stdout
        assert line.removesuffix(".") in " ".join(ran.stdout.split())
        assert "Examples:" in ran.stdout or '"args": ["nri", "hook", "create"]' in ran.stdout


def test_help_is_the_same_where_click_is_not_loaded() -> None:
    # A narrow terminal cuts long words.
    ours, theirs = inside("hook", "--help", COLUMNS="200"), process("hook", "--help", COLUMNS="200")
    assert (theirs.status, theirs.stdout.split()) == (0, ours.stdout.split())


@pytest.mark.parametrize("words", [["nonsense"], ["check", "--nonsense"]])
def test_a_wrong_command_line_is_status_2(words: list[str]) -> None:
    ran = inside(*words)
    assert (ran.status, ran.stdout) == (2, "")
    assert "Usage: nri" in ran.stderr


@pytest.mark.parametrize("words", [["--version"], ["check", "--json"]])
def test_an_output_that_cannot_be_written_is_a_line(words: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, *words],
            env={"PYTHONPATH": SOURCE, **MEASURED},
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, b"nri: No space left on device\n")


@pytest.mark.parametrize(
    ("line", "offered"), [("nri ", list(COMMANDS)), ("nri hook ", ["create", "delete"])]
)
def test_bash_completes_commands_and_states(line: str, offered: list[str]) -> None:
    ran = inside(_NRI_COMPLETE="bash_source")
    subprocess.run(["bash", "-n"], input=ran.stdout, text=True, check=True)
    words = line.split(" ")
    ran = inside(_NRI_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    assert set(offered) <= {item.partition(",")[2] for item in ran.stdout.splitlines()}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_a_shell(shell: str) -> None:
    ran = inside("completion", shell)
    assert (ran.status, "_NRI_COMPLETE" in ran.stdout) == (0, True)
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=ran.stdout, text=True, check=True)


@pytest.mark.parametrize(
    ("word", "meant"), [("statsu", "status"), ("invok", "invoke"), ("xyzzy", "")]
)
def test_misspelt_command_is_told_which_was_meant(word: str, meant: str) -> None:
    ran = inside(word)
    said = f" Did you mean {meant!r}?" if meant else ""
    assert ran.status == 2
    assert ran.stderr.endswith(f"Error: No such command {word!r}.{said}\n")


@pytest.mark.parametrize(
    ("environment", "has_color"),
    [
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ],
    ids=str,
)
def test_colors_only_where_wanted(
    tmp_path: Path, environment: dict[str, str], has_color: bool
) -> None:
    (tmp_path / "10.conf").write_text('{"version": "0.1", "plugins": [{"type": "missing"}]}')
    ours, terminal = os.openpty()
    done = subprocess.run(
        [*COMMAND, "check", f"--conf-dir={tmp_path}", f"--bin-dir={tmp_path}"],
        env={"PYTHONPATH": SOURCE, **MEASURED, **environment},
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
        check=False,
    )
    os.close(terminal)
    printed = b""
    try:
        while piece := os.read(ours, 65536):
            printed += piece
    except OSError:
        pass  # the end of a terminal
    os.close(ours)
    assert done.returncode == 1
    assert b"not found: no such executable" in printed
    assert (b"\x1b[" in printed) == has_color


def test_version_is_printed_as_text_and_as_json() -> None:
    text = inside("version").stdout
    assert text == inside("--version").stdout
    document = inside("version", "-o", "json").json
    assert document["nri"] == "0.1"
    assert document["version"] in text


def test_json_is_asked_for_in_two_ways(host: Host) -> None:
    documents = [
        command(host, "check", *words).json for words in (["-o", "json"], ["--output", "json"])
    ]
    assert documents == [command(host, "check", "--json").json] * 2
    assert command(host, "check", "-o", "yaml").status == 2


def test_no_line_is_wrapped_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "word " * 40
    assert len(wrapped(words, "- ")) > 1
    assert len(table(["NAME", "COUNT"], [["x" * 100, "1"]])) == 4
    monkeypatch.delenv("COLUMNS")
    assert wrapped(words, "- ") == [f"- {words}".rstrip()]
    assert len(table(["NAME", "COUNT"], [["x" * 100, "1"]])) == 2
