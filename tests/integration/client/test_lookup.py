"""Where a plugin's executable is looked for, and what is run."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from nri.client import ChainError, PluginError, find
from nri.process import launch
from tests.support.host import Host, plugin, request


def failure(host: Host) -> str:
    """Run the plugin; return why it failed."""
    with pytest.raises(ChainError) as caught:
        host.client(plugin("noop")).invoke(request(), "create")
    return str(caught.value)


def test_path_is_not_searched(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = host.folder("elsewhere")
    host.install("noop", into=elsewhere)
    monkeypatch.setenv("PATH", f"{elsewhere}:{os.environ['PATH']}")
    monkeypatch.chdir(elsewhere)
    assert failure(host) == f"plugin noop: not found: no such executable in {host.bin}"


def test_the_first_directory_wins(host: Host) -> None:
    second = host.folder("second")
    dirs = [str(host.root / "missing"), str(host.bin), str(second)]
    host.install("noop", into=second)
    assert find("noop", dirs) == f"{second}/noop"
    host.install("noop")
    assert find("noop", dirs) == f"{host.bin}/noop"


def test_what_cannot_be_run_makes_room_for_the_next_directory(host: Host) -> None:
    second = host.folder("second")
    (host.bin / "noop").mkdir()
    host.install("noop", into=second)
    assert find("noop", [str(host.bin), str(second)]) == f"{second}/noop"


def test_all_places_are_named_when_there_is_none(host: Host) -> None:
    with pytest.raises(PluginError, match=r"^noop: not found: no such executable in /one, /two$"):
        find("noop", ["/one", "/two"])
    with pytest.raises(PluginError, match="in an empty list of directories"):
        find("noop", [])


@pytest.mark.parametrize("name", ["a", "A0", "0", "10-noop", "a.b_c-d", "noop.sh", "x" * 255])
def test_a_type_is_a_plain_file_name(host: Host, name: str) -> None:
    host.install(name)
    assert find(name, [str(host.bin)]) == f"{host.bin}/{name}"


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "../bin/noop", "bin/noop", "/bin/true", "-rf", "_a", ".hidden"),
        *("a b", "a\n", "a\0b", "é", "٣", "\udcff", "x" * 256, "x" * 100_000),
    ],
    ids=lambda name: ascii(name[:20]),
)
def test_what_is_no_plain_file_name_is_refused(host: Host, name: str) -> None:
    with pytest.raises(PluginError, match="is not the name of a plugin; expected letters, digits and") as caught:
        find(name, [str(host.bin)])
    assert len(str(caught.value)) < 300


def test_a_file_that_is_not_executable_is_named_with_its_mode(host: Host) -> None:
    path = host.script("noop", "#!/bin/sh\n", mode=0o640)
    assert failure(host) == f"plugin noop: not run: {path} is not executable (mode 0640); expected one like 0755"


def test_a_directory_of_that_name_is_named(host: Host) -> None:
    (host.bin / "noop").mkdir()
    assert failure(host) == f"plugin noop: not run: {host.bin}/noop is a directory; expected an executable file"


def test_a_fifo_of_that_name_does_not_block(host: Host) -> None:
    os.mkfifo(host.bin / "noop", 0o755)
    assert f"not run: {host.bin}/noop is a FIFO; expected an executable file" in failure(host)


def test_a_dangling_link_is_named_with_its_target(host: Host) -> None:
    (host.bin / "noop").symlink_to("/nowhere/noop")
    assert f"not run: {host.bin}/noop is a link to /nowhere/noop, which does not exist" in failure(host)


def test_links_that_go_round_are_reported(host: Host) -> None:
    (host.bin / "noop").symlink_to("noop")
    assert f"not run: {host.bin}/noop cannot be looked at: Too many levels of symbolic links" in failure(host)


def test_a_link_to_an_executable_is_run(host: Host) -> None:
    host.install("real")
    (host.bin / "noop").symlink_to("real")
    assert [result.plugin for result in host.client(plugin("noop")).invoke(request(), "create")] == ["noop"]


def test_what_is_no_program_is_reported(host: Host) -> None:
    path = host.script("noop", "this is no program\n")
    assert f"cannot be started: {path}: Exec format error; expected a program for this machine, or a" in failure(host)


def test_an_empty_file_is_no_program(host: Host) -> None:
    host.script("noop", "")
    assert "Exec format error" in failure(host)


def test_an_interpreter_that_is_missing_is_reported(host: Host) -> None:
    path = host.script("noop", "#! /nowhere/python -I\n")
    assert (
        failure(host) == f"plugin noop: cannot be started: {path}: its interpreter '/nowhere/python' does not exist"
    )


@pytest.mark.parametrize("first", ["#!/bin/sh", "#!/bin/sh -e", "#! /bin/sh"])
def test_a_script_with_windows_line_ends_is_told_so(host: Host, first: str) -> None:
    path = host.script("noop", f"{first}\r\necho '{{}}'\r\n")
    said = failure(host)
    if first.endswith("-e"):  # the CR is the option's, and the shell's to complain of
        assert "no valid result: " in said
    else:
        ends = "it has Windows line ends (CRLF), expected Unix ones (LF)"
        assert said == f"plugin noop: cannot be started: {path}: its interpreter '/bin/sh\\r' does not exist; {ends}"


def test_a_script_with_windows_line_ends_that_env_starts_is_told_so(host: Host) -> None:
    host.script("noop", "#!/usr/bin/env python3\r\nprint()\r\n")
    said = failure(host)
    assert "exit status 127" in said
    assert "python3" in said
    assert said.endswith("; it has Windows line ends (CRLF), expected Unix ones (LF)")


def test_a_loader_that_is_missing_is_reported(host: Host) -> None:
    program = Path("/bin/true").read_bytes()
    assert b"/lib64/ld-linux" in program or b"/lib/ld-" in program
    path = host.bin / "noop"
    path.write_bytes(program.replace(b"/lib64/ld-linux", b"/lib64/xx-linux").replace(b"/lib/ld-", b"/lib/xx-"))
    path.chmod(0o755)
    what = "No such file or directory: where the file exists, the loader that it names does not"
    assert failure(host) == f"plugin noop: cannot be started: {path}: {what}"


def test_a_file_on_a_file_system_without_programs_is_told_so(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    path = host.script("noop", "#!/bin/sh\n")
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_flag=os.ST_NOEXEC))
    said = f"plugin noop: not run: {path} is not executable, because its file system is mounted with noexec"
    assert failure(host) == said


def test_an_interpreter_that_cannot_be_run_is_reported(host: Host) -> None:
    path = host.script("noop", "#!/\n")
    assert f"cannot be started: {path}: Permission denied" in failure(host)


class Busy:
    """A plugin that is being written; the client's sleep between two attempts lets its writer finish."""

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch, attempts: int) -> None:
        host.install("noop")
        self.file = open(host.bin / "noop", "ab")  # noqa: SIM115
        self.attempts = attempts
        self.now = 0.0
        monkeypatch.setattr(launch, "time", SimpleNamespace(sleep=self.sleep, monotonic=lambda: self.now))
        try:
            os.posix_spawn(host.bin / "noop", ["noop"], {})
        except OSError as error:
            assert error.strerror == "Text file busy"
        else:
            os.wait()
            self.file.close()
            pytest.skip("needs a kernel that does not run what is being written (not Linux 6.11 and 6.12)")

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.attempts -= 1
        if self.attempts == 0:
            self.file.close()


def test_a_file_that_is_being_written_is_tried_again(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = Busy(host, monkeypatch, attempts=3)
    assert host.client(plugin("noop")).invoke(request(), "create")[0].error == ""
    assert busy.attempts == 0


def test_a_file_that_is_written_for_ever_is_given_up_at_the_deadline(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = Busy(host, monkeypatch, attempts=10**9)
    busy.now = float("inf")  # the client's own clock goes on
    assert "noop: Text file busy" in failure(host)
    busy.file.close()


@pytest.mark.parametrize("relative", ["bin", "./bin", "../{}/bin"])
def test_a_directory_may_be_relative(
    host: Host, monkeypatch: pytest.MonkeyPatch, relative: str, tmp_path: Path
) -> None:
    host.install("noop")
    monkeypatch.chdir(tmp_path)
    client = host.client(plugin("noop"), bin_dirs=[relative.format(tmp_path.name)])
    assert len(client.invoke(request(), "create")) == 1
