"""Where a plugin's executable is looked for, and what is run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from nri.client import ChainError, Invoker, PluginError
from nri.process import conversation
from tests.support.host import Host, plugin, request


def failure(host: Host) -> str:
    """Run the plugin; return why it failed."""
    with pytest.raises(ChainError) as caught:
        host.client(plugin("noop")).invoke(request(), "create")
    return str(caught.value)


# The directories


def test_path_is_not_searched(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = host.folder("elsewhere")
    host.install("noop", into=elsewhere)
    monkeypatch.setenv("PATH", f"{elsewhere}:{os.environ['PATH']}")
    monkeypatch.chdir(elsewhere)
    assert failure(host) == f"plugin noop: not found: no such executable in {host.bin}"


def test_first_executable_of_the_directories_is_run(host: Host) -> None:
    second = host.folder("second")
    dirs = [str(host.folder("first")), str(host.bin), str(second)]
    host.install("noop", into=second)
    (host.bin / "noop").mkdir()
    assert Invoker(dirs).find("noop") == f"{second}/noop"
    (host.bin / "noop").rmdir()
    host.install("noop")
    assert Invoker(dirs).find("noop") == f"{host.bin}/noop"
    (host.root / "first").rmdir()
    with pytest.raises(PluginError, match="/first does not exist, expected a directory"):
        Invoker(dirs).find("noop")


# The name


def test_type_is_a_plain_file_name(host: Host) -> None:
    for name in ("a", "A0", "10-noop", "a.b_c-d", "x" * 255):
        host.install(name)
        assert Invoker([str(host.bin)]).find(name) == f"{host.bin}/{name}"


@pytest.mark.parametrize(
    "name",
    [
        *("", "..", "../bin/noop", "/bin/true", "-rf", "_a", ".hidden"),
        *("a b", "a\n", "a\0b", "é", "٣", "\udcff", "x" * 256, "x" * 100_000),
    ],
    ids=lambda name: ascii(name[:20]),
)
def test_other_names_are_refused(host: Host, name: str) -> None:
    with pytest.raises(
        PluginError, match="is not the name of a plugin; expected letters, digits and"
    ) as caught:
        Invoker([str(host.bin)]).find(name)
    assert len(str(caught.value)) < 300


# The file


def missing_loader(path: Path) -> None:
    program = Path("/bin/true").read_bytes()
    assert b"/lib64/ld-linux" in program or b"/lib/ld-" in program
    path.write_bytes(
        program.replace(b"/lib64/ld-linux", b"/lib64/xx-linux").replace(b"/lib/ld-", b"/lib/xx-")
    )
    path.chmod(0o755)


def script(first_line: str, mode: int = 0o755) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_text(f"{first_line}\necho '{{}}'\n", newline="")
        path.chmod(mode)

    return write


FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "mode": (
        script("#!/bin/sh", 0o640),
        "not run: {path} is not executable (mode 0640); expected one like 0755",
    ),
    "FIFO": (
        lambda path: os.mkfifo(path, 0o755),  # a file that is opened would block
        "not run: {path} is a FIFO; expected an executable file",
    ),
    "dangling link": (
        lambda path: path.symlink_to("/nowhere/noop"),
        "not run: {path} is a link to /nowhere/noop, which does not exist",
    ),
    "link to itself": (
        lambda path: path.symlink_to("noop"),
        "not run: {path} cannot be looked at: Too many levels of symbolic links",
    ),
    "no program": (
        script("this is no program"),
        (
            "cannot be started: {path}: Exec format error; expected a program for this machine, "
            "or a script with an interpreter in its first line"
        ),
    ),
    "missing interpreter": (
        script("#! \t/nowhere/python\t-I"),
        "cannot be started: {path}: its interpreter '/nowhere/python' does not exist",
    ),
    "interpreter that cannot be run": (
        script("#!/"),
        "cannot be started: {path}: Permission denied",
    ),
    "missing loader": (
        missing_loader,
        (
            "cannot be started: {path}: No such file or directory: where the file exists, "
            "the loader that it names does not"
        ),
    ),
    "Windows line ends": (
        script("#!/bin/sh\r"),
        (
            "cannot be started: {path}: its interpreter '/bin/sh\\r' does not exist; "
            "it has Windows line ends (CRLF), expected Unix ones (LF)"
        ),
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_file_that_cannot_be_run_is_named_with_the_reason(host: Host, name: str) -> None:
    make, expected = FILES[name]
    path = host.bin / "noop"
    make(path)
    assert failure(host) == f"plugin noop: {expected.format(path=path)}"


def test_windows_line_ends_of_an_env_script_are_reported(host: Host) -> None:
    script("#!/usr/bin/env python3\r")(host.bin / "noop")
    reason = failure(host)
    assert "exit status 127" in reason
    assert "python3" in reason
    assert reason.endswith("; it has Windows line ends (CRLF), expected Unix ones (LF)")
    for text in ("exit 127", 'rm "$0"; exit 127'):
        script(f"#!/bin/sh\n{text}")(host.bin / "noop")
        assert "Windows" not in failure(host)
    script("#!/bin/sh -e\r")(host.bin / "noop")  # the shell complains, and ends with another status
    assert "Windows" not in failure(host)


def test_file_system_that_forbids_programs_is_reported(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = host.script("noop", "#!/bin/sh\n")
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_flag=os.ST_NOEXEC))
    expected = f"plugin noop: not run: {path} is not executable, because its file system is mounted with noexec"
    assert failure(host) == expected


# A file that is being written


class Busy:
    """A plugin that is being written; the client's sleep between two attempts lets its writer finish."""

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch, attempts: int) -> None:
        host.install("noop")
        self.file = open(host.bin / "noop", "ab")  # noqa: SIM115
        self.attempts = attempts
        self.now = 0.0
        monkeypatch.setattr(
            conversation, "time", SimpleNamespace(sleep=self.sleep, monotonic=lambda: self.now)
        )
        try:
            os.posix_spawn(host.bin / "noop", ["noop"], {})
        except OSError as error:
            assert error.strerror == "Text file busy"
        else:
            os.wait()
            self.file.close()
            pytest.skip(
                "needs a kernel that does not run what is being written (not Linux 6.11 and 6.12)"
            )

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.attempts -= 1
        if self.attempts == 0:
            self.file.close()


def test_busy_file_is_tried_again_until_the_deadline(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = Busy(host, monkeypatch, attempts=3)
    assert host.client(plugin("noop")).invoke(request(), "create")[0].error == ""
    assert busy.attempts == 0
    monkeypatch.undo()
    busy = Busy(host, monkeypatch, attempts=sys.maxsize)
    busy.now = float("inf")  # the client's own clock goes on
    assert "noop: Text file busy" in failure(host)
    busy.file.close()
