"""What a plugin writes to stdout and stderr, and what the client makes of it."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import time
from typing import TYPE_CHECKING, Any

import pytest

from nri.client import ChainError
from nri.process import conversation, launch
from nri.process.lines import MAX_LINE, Lines
from nri.process.wait import has_exited
from tests.support.host import Host, plugin, request
from tests.support.processes import has_zombie
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from nri.types.v1 import Result

GOOD = '{"plugin":"noop","version":"0.1","error":"","metadata":{}}'


class Run:
    """One run of a plugin: its result or failure, and the lines that were logged."""

    def __init__(self, host: Host, *do: list[Any], unread: bool = False, **options: Any) -> None:
        """Run the plugin; with ``unread`` the host reads nothing from the first line of stderr until its end."""
        host.install("noop")
        self.lines: list[str] = []
        self._is_waiting = unread
        self._result: Result | None = None
        self.failure = ""
        client = host.client(plugin("noop", *do), log=self.log, **options)
        try:
            (self._result,) = client.invoke(request(), "create")
        except ChainError as error:
            self.failure = str(error)

    @property
    def result(self) -> Result:
        assert self._result is not None
        return self._result

    def log(self, type_: str, line: str) -> None:
        assert type_ == "noop"
        self.lines.append(line)
        if self._is_waiting:
            self._is_waiting = False
            assert wait_until(has_zombie)


# stdout


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", "no valid result: it wrote nothing to stdout, expected a result"),
        (" \n\t", "no valid result: it wrote nothing to stdout, expected a result"),
        (GOOD[:20], "no valid result: line 1 column"),
        (f"debug: starting\n{GOOD}", "no valid result: line 1 column 1: found 'debug: start'"),
        (f"{GOOD}\ndone", "no valid result: line 2 column 1: found 'done' after the document"),
        (f"{GOOD}{GOOD}", "after the document, expected its end"),
        ("[]", "no valid result: result: found an array, expected an object"),
        ('"ok"', "no valid result: result: found the string 'ok', expected an object"),
        ('{"metadata": {"cpus": 3}}', "result.metadata.cpus: found the number 3, expected a string"),
        ('{"error": {"code": 1}}', "result.error: found an object, expected a string"),
        ("[" * 100_000, "nested too deep"),
        ('{"x": NaN}', "no valid result: "),
        ("\xff\xfe{", "no valid result: line 1 column 1"),
    ],
)
def test_an_invalid_result_is_a_failure_that_quotes_it(host: Host, written: str, message: str) -> None:
    run = Run(host, ["write", written], ["nothing"])
    assert run.failure.startswith("plugin noop: no valid result: ")
    assert message in run.failure
    assert run.failure.isprintable()
    assert len(run.failure) < 500


def test_an_invalid_result_and_how_the_plugin_ended_are_both_told(host: Host) -> None:
    run = Run(host, ["stderr", "panic: oh no\n"], ["write", "{\x1b[2J"], ["exit", 2])
    assert re.search(r": \{\\x1b\[2J; exit status 2; the end of its stderr: panic: oh no$", run.failure)


def test_bytes_that_are_no_utf8_inside_a_result_are_replaced(host: Host) -> None:
    run = Run(host, ["write", '{"plugin":"noop","metadata":{"a":"\xff"}}'], ["nothing"])
    assert run.result.metadata == {"a": "\ufffd"}


def test_a_result_in_another_case_and_with_nulls_is_read(host: Host) -> None:
    run = Run(host, ["write", '\n{"Plugin":"noop","ERROR":null,"metadata":null} \n'], ["nothing"])
    assert (run.result.plugin, run.result.error, run.result.metadata) == ("noop", "", {})


@pytest.mark.parametrize("limit", [1000, 200_000])
def test_output_that_is_too_long_is_a_failure(host: Host, limit: int) -> None:
    run = Run(host, ["flood", 1], max_output=limit)
    assert run.failure == f"plugin noop: killed: it wrote more than {limit} bytes to stdout, expected one result"


def test_output_has_a_default_limit(host: Host) -> None:
    assert "more than 1048576 bytes" in Run(host, ["flood", 1]).failure


def test_output_up_to_the_limit_is_read_and_one_more_is_too_long(host: Host) -> None:
    text = '{"plugin":"' + "x" * 99_987 + '"}'
    assert Run(host, ["write", text], ["nothing"], max_output=100_000).result.plugin == "x" * 99_987
    assert "more than 99999 bytes" in Run(host, ["write", text], ["nothing"], max_output=99_999).failure


def test_a_result_in_parts_and_what_follows_it_are_read(host: Host) -> None:
    """After the first part the host looks for the plugin's end, which comes only when it has read the second."""
    first, second = GOOD[:20], GOOD[20:] + " " * 200_000
    run = Run(host, ["write", first], ["write", second], ["stderr", "late\n" * 30_000], ["nothing"])
    assert run.result.plugin == "noop"
    assert run.lines[:2] == ["late", "late"]


# Pipes that hold much when the plugin ends


def can_enlarge_to(size: int) -> bool:
    ends = os.pipe()
    try:
        fcntl.fcntl(ends[0], fcntl.F_SETPIPE_SZ, size)
    except PermissionError:
        return False
    finally:
        for end in ends:
            os.close(end)
    return True


FOR_ALL = 1024 * 1024  # /proc/sys/fs/pipe-max-size
FOR_ROOT = pytest.param(
    8 * FOR_ALL,
    marks=pytest.mark.skipif(not can_enlarge_to(8 * FOR_ALL), reason="needs CAP_SYS_RESOURCE for a pipe of 8 MiB"),
)
RESULT = '{"plugin":"noop"}'


def filled(fd: int, pipe: int, last: str) -> list[list[Any]]:
    """The steps that fill a pipe of this size, with ``last`` at its end."""
    verb = "write" if fd == 1 else "stderr"
    return [["stderr", "start\n"], ["enlarge", fd, pipe], [verb, " " * 65535 + "\n", pipe // 65536 - 1], [verb, last]]


@pytest.mark.parametrize("pipe", [FOR_ALL, FOR_ROOT])
def test_a_result_at_the_end_of_a_pipe_that_the_plugin_enlarged_is_read(host: Host, pipe: int) -> None:
    run = Run(host, *filled(1, pipe, RESULT), ["nothing"], unread=True, max_output=pipe)
    assert run.failure == ""
    assert run.result.plugin == "noop"


@pytest.mark.parametrize("pipe", [FOR_ALL, FOR_ROOT])
def test_the_limit_holds_for_a_pipe_that_the_plugin_enlarged(host: Host, pipe: int) -> None:
    length = pipe - 65536 + len(RESULT)
    clean_first = [["write", RESULT], *filled(1, pipe, ""), ["nothing"]]
    assert Run(host, *clean_first, unread=True, max_output=length).failure == ""
    run = Run(host, *clean_first, unread=True, max_output=length - 1)
    killed = f"plugin noop: killed: it wrote more than {length - 1} bytes to stdout, expected one result"
    assert run.failure == f"{killed}; the end of its stderr: start"


@pytest.mark.parametrize("pipe", [FOR_ALL, FOR_ROOT])
def test_the_end_of_stderr_is_read_from_a_pipe_that_the_plugin_enlarged(host: Host, pipe: int) -> None:
    run = Run(host, *filled(2, pipe, "why"), ["exit", 3], unread=True)
    assert run.failure.endswith("; the end of its stderr: why")


def test_a_result_in_a_pipe_whose_reads_return_one_write_each_is_read(host: Host) -> None:
    blanks: list[list[Any]] = [["stderr", "start\n"], ["enlarge", 1, FOR_ALL], ["packets", 1], ["write", " ", 200]]
    run = Run(host, *blanks, ["write", RESULT], ["nothing"], unread=True)
    assert run.failure == ""


class Refilled:
    """``os``, except that each read of a pipe is followed by a write to it, as by a quick descendant."""

    def __init__(self, fd: int) -> None:
        self._writes = {fd: os.open(f"/proc/self/fd/{fd}", os.O_WRONLY)}
        self.reads = 0

    def read(self, fd: int, size: int) -> bytes:
        data = os.read(fd, size)
        if fd in self._writes:
            self.reads += 1
            assert self.reads < 1000, "it reads for ever"
            os.write(self._writes[fd], b"more")
        return data

    def close_writer(self) -> None:
        for fd in self._writes.values():
            os.close(fd)

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)


@pytest.mark.parametrize("fd", [1, 2])
def test_a_pipe_that_is_refilled_all_the_time_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch, fd: int) -> None:
    deadline = time.monotonic() + SOON
    pid, pipes = launch.start("/bin/sh", ["sh", "-c", "echo first; echo first >&2"], deadline)
    assert wait_until(lambda: has_exited(pid))
    refilled = Refilled(pipes[fd])
    monkeypatch.setattr(conversation, "os", refilled)
    try:
        lines = Lines(launch.MAX_OUTPUT, lambda _line: None)
        output = conversation.Conversation(pid, pipes, b"", lines, launch.MAX_OUTPUT).run(deadline)
    finally:
        refilled.close_writer()
    assert refilled.reads > 1
    assert output.stdout.startswith(b"first\n")
    assert output.stderr.startswith("first")
    assert (output.status, output.stopped) == (0, "")


# The exit status


@pytest.mark.parametrize("status", [1, 3, 255])
def test_an_exit_status_is_a_failure_although_the_result_is_clean(host: Host, status: int) -> None:
    run = Run(host, ["stderr", "one\ntwo\n"], ["answer"], ["exit", status])
    assert run.failure == (
        f"plugin noop: exit status {status}, although it wrote a result without error; "
        "the end of its stderr: one | two"
    )


@pytest.mark.parametrize(("name", "number"), [("SIGSEGV", 11), ("SIGKILL", 9), ("SIGTERM", 15), ("SIGPIPE", 13)])
def test_a_signal_is_a_failure_although_the_result_is_clean(host: Host, name: str, number: int) -> None:
    run = Run(host, ["answer"], ["crash", name])
    assert run.failure == f"plugin noop: ended by signal {number}, although it wrote a result without error"


def test_a_result_with_an_error_is_a_failure_with_its_text(host: Host) -> None:
    assert Run(host, ["error", "no cgroup: /x"]).failure == "plugin noop: no cgroup: /x"
    assert Run(host, ["error", "a\x1b[2J\nb"]).failure == "plugin noop: a\\x1b[2J\\nb"
    assert Run(host, ["error", "no"], ["answer"], ["exit", 4]).failure == "plugin noop: no; exit status 4"


# stderr


def test_lines_of_stderr_are_logged_with_the_plugins_name(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    assert Run(host, ["stderr", "one\n\ntwo\r\nthree"]).lines == ["one", "", "two", "three"]
    caplog.set_level(logging.INFO, "nri.client")
    host.client(plugin("noop", ["stderr", "hello %s\n"])).invoke(request(), "create")
    assert caplog.messages == ["noop: hello %s"]


def test_a_line_is_logged_when_it_arrives(host: Host) -> None:
    run = Run(host, ["stderr", "before\n"], ["stderr", "half"], ["hang"], timeout=0.3)
    assert run.lines == ["before", "half"]
    assert run.failure == "plugin noop: killed: no result after 0.3 s; the end of its stderr: before | half"


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("a\tb\0c\x7f", "a b\\x00c\\x7f"),
        ("\xc2\x9b31m", "\\x9b31m"),
        ("\xe2\x80\xae\xe2\x80\xa8", "\\u202e\\u2028"),
        ("\xff\xc3", "\\xff\\xc3"),
        ("gr\xc3\xbc\xc3\x9f", "grüß"),
    ],
)
def test_control_characters_are_escaped(host: Host, written: str, line: str) -> None:
    assert Run(host, ["stderr", written + "\n"]).lines == [line]


def test_a_flood_of_stderr_is_cut_and_the_log_says_so(host: Host) -> None:
    run = Run(host, ["stderr", "x" * 99 + "\n", 20_000], max_output=100_000)
    assert run.result.error == ""
    assert run.lines[-1] == "(the rest of its stderr is too long, and is left out)"
    assert len(run.lines) < 1000 + 66_000 // 100 + 2


def test_a_flood_of_stderr_does_not_keep_a_plugin_alive(host: Host) -> None:
    run = Run(host, ["flood", 2], timeout=0.5)
    assert "killed: no result after 0.5 s; the end of its stderr: xxx" in run.failure
    assert len(run.failure) < MAX_LINE + 200


def test_a_line_without_end_is_cut(host: Host) -> None:
    run = Run(host, ["stderr", "x" * 300_000], ["stderr", "\nnext\n"])
    assert [len(line) for line in run.lines] == [MAX_LINE, 4]


def test_only_the_end_of_stderr_is_in_the_error(host: Host) -> None:
    run = Run(host, ["stderr", "start\n" + "x" * 10_000 + "\nend\n"], ["exit", 1])
    assert run.failure.endswith("xxx | end")
    assert "start" not in run.failure
    assert len(run.failure) < MAX_LINE + 200
