"""The command line of runc and crun: which command, which options, which container."""

import re
import shutil
import subprocess

import pytest

from nri.runc.commandline import COMMANDS, GLOBAL, OPTIONS, RUNS_CHAIN, CommandLine


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("", ""),
        ("--version", ""),
        ("--root=/r --log /l --log-format json --systemd-cgroup create web", "create"),
        ("-root /r -debug create web", "create"),
        ("--debug=false create web", "create"),
        ("--rootl auto create web", "create"),  # of argp's abbreviations none is known
        ("-- create web", "create"),
        # options that are not known: with a value, without one, with one that looks like a command
        ("--platform kvm create web", "create"),
        ("--new create web", "create"),
        ("--new=state create web", "create"),
        ("--new state create web", "create"),
        ("--new state web", "state"),
        ("--new --other create web", "create"),
        ("--new", ""),
        ("--root", ""),
    ],
)
def test_the_command_is_found_behind_any_options(words: str, command: str) -> None:
    assert CommandLine(words.split()).command == command


@pytest.mark.parametrize(
    "words",
    [
        "create --bundle /b --pid-file /p --preserve-fds 2 --no-pivot web",
        "create -b /b --pid-file /p --console-socket /s --pidfd-socket /q --no-new-keyring web",
        "create -bundle /b -pid-file=/p web",
        "create -b/b --pid-file /p web",
        "create web --bundle /b --pid-file /p",
        "create --bundle /c --bundle /b --pid-file /p web",
        "create --new --bundle /b --pid-file /p web",
        "create --new value --bundle /b --pid-file /p web",
        "create --new value --bundle /b --pid-file /p web --other",
        "create --bundle /b --pid-file /p -- web",
        "--root /r run --detach -db /b --pid-file /p web",
    ],
)
def test_bundle_pid_file_and_container_are_found(words: str) -> None:
    line = CommandLine(words.split())
    assert (line.value("bundle"), line.value("pid-file"), line.arguments) == ("/b", "/p", ["web"])


@pytest.mark.parametrize(
    "words", ["create one two --new", "create one two -n -m", "create -n=1 one two"]
)
def test_arguments_before_an_unknown_option_are_kept(words: str) -> None:
    assert CommandLine(words.split()).arguments == ["one", "two"]


def test_a_flag_is_set_as_go_and_argp_set_it() -> None:
    for words in (
        "delete --force web",
        "delete -f web",
        "delete web --force",
        "delete --force=true web",
        "delete -rf web",
    ):
        assert CommandLine(words.split()).has("force"), words
    for words in ("delete web", "delete --force=false web", "delete --force --force=0 web"):
        assert not CommandLine(words.split()).has("force"), words


def test_a_question_for_help_is_known() -> None:
    for words in (
        "create -h",
        "create --help web",
        "--help",
        "-v",
        "--version create",
        "run -? web",
        "run --usage",
    ):
        assert CommandLine(words.split()).asks_for_help, words
    for words in ("create web", "create --help=false web"):
        assert not CommandLine(words.split()).asks_for_help, words


def test_a_container_whose_id_looks_like_an_option_is_found() -> None:
    assert CommandLine(["create", "--", "--force"]).arguments == ["--force"]
    assert CommandLine(["create", "-"]).arguments == ["-"]


def test_options_of_the_log_are_not_for_our_own_calls() -> None:
    words = "--root /r --log /l --log-format=json --debug --new v --systemd-cgroup create web"
    line = CommandLine(words.split())
    assert line.quiet_before == ["--root", "/r", "--new", "v", "--systemd-cgroup"]
    assert (line.value("log"), line.value("log-format")) == ("/l", "json")


# The runtimes of this machine


def help_of(runtime: str, *command: str) -> str:
    if not shutil.which(runtime):
        pytest.skip(f"needs the Debian package {runtime}")
    return subprocess.run(
        [runtime, *command, "--help"], capture_output=True, text=True, check=False
    ).stdout


@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_the_options_of_an_installed_runtime_are_known(runtime: str) -> None:
    for command in ("", *sorted(RUNS_CHAIN - {"restore"})):  # which is refused or handed over
        text = help_of(runtime, *filter(None, [command]))
        found = re.findall(
            r"^ +(?:-(\w), )?--([\w-]+)(=\w+| value)?(?:, -(\w))?", text, re.MULTILINE
        )
        names = GLOBAL if not command else OPTIONS[command]
        for before, name, value, after in found:
            assert names[name][1] == bool(value), name
            for letter in filter(None, (before, after)):
                assert names[letter][1] == bool(value), letter


@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_the_commands_of_an_installed_runtime_are_known(runtime: str) -> None:
    commands = help_of(runtime).partition("COMMANDS:")[2].partition("OPTIONS")[0].partition("--")[0]
    listed = re.findall(r"^\s+(\w+)(?:, h)? +(?:- )?\w", commands, re.M)
    assert {"create", "state", "update"} <= set(listed) <= COMMANDS | {"GLOBAL"}
