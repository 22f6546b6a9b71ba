"""What a plugin writes to stdout and stderr, and what the client makes of it."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from nri.client import ChainError
from nri.process import conversation
from nri.process.children import has_exited
from nri.process.conversation import MAX_LINE
from tests.support.host import Host, plugin, request
from tests.support.processes import has_zombie
from tests.support.waiting import SOON, wait_until

GOOD = '{"plugin":"noop","version":"0.1","error":"","metadata":{}}'


class Run:
    """One run of a plugin: the name in its result, or its failure, and the lines that were logged."""

    def __init__(
        self, host: Host, *do: list[Any], unread: bool = False, script: str = "", **options: Any
    ) -> None:
        """Run the plugin; with ``unread`` the host reads nothing from the first line of stderr until its end.

        :param script: of a shell, instead of ``do``.
        """
        host.install("noop")
        if script:
            host.script("noop", f"#!/bin/sh\n{script}\n")
        self.lines: list[str] = []
        self._host, self._is_waiting = host, unread
        self.plugin = self.failure = ""
        client = host.client(plugin("noop", *do), log=self.log, **options)
        try:
            (result,) = client.invoke(request(), "create")
            self.plugin = result.plugin
        except ChainError as error:
            self.failure = str(error)

    def log(self, type_: str, line: str) -> None:
        assert type_ == "noop"
        self.lines.append(line)
        if self._is_waiting:
            self._is_waiting = False
            assert wait_until(lambda: has_zombie() or not self._host.processes())


# stdout


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (f"debug: starting\n{GOOD}", "no valid result: line 1 column 1: found 'debug: start'"),
        (f"{GOOD}\ndone", "no valid result: line 2 column 1: found 'done' after the document"),
        ("[" * 100_000, "nested too deep"),
        ("\xff\xfe{", "no valid result: line 1 column 1"),
    ],
)
def test_invalid_result_is_quoted_in_one_short_line(host: Host, written: str, message: str) -> None:
    run = Run(host, ["write", written], ["nothing"])
    assert run.failure.startswith("plugin noop: no valid result: ")
    assert message in run.failure
    assert run.failure.isprintable()
    assert len(run.failure) < 500


def test_result_above_the_limit_is_too_long(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '{"plugin":"' + "x" * 99_987 + '"}'
    killed = "plugin noop: killed: it wrote more than 1048576 bytes to stdout, expected one result"
    assert Run(host, ["flood", 1]).failure == killed
    monkeypatch.setattr(conversation, "MAX_OUTPUT", 100_000)
    assert Run(host, ["write", text], ["nothing"]).plugin == "x" * 99_987
    monkeypatch.setattr(conversation, "MAX_OUTPUT", 99_999)
    assert Run(host, ["write", text], ["nothing"]).failure == killed


def test_result_in_parts_and_what_follows_it_are_read(host: Host) -> None:
    """After the first part the host looks for the plugin's end, which comes only when it has read the second."""
    first, second = GOOD[:20], GOOD[20:] + " " * 200_000
    run = Run(host, ["write", first], ["write", second], ["stderr", "late\n" * 30_000], ["nothing"])
    assert run.plugin == "noop"
    assert run.lines[:2] == ["late", "late"]


# Pipes that hold much when the plugin ends

PIPE = 1024 * 1024  # /proc/sys/fs/pipe-max-size
RESULT = '{"plugin":"noop"}'


def filled(fd: int, last: str) -> list[list[Any]]:
    """The steps that fill an enlarged pipe, with ``last`` at its end."""
    verb = "write" if fd == 1 else "stderr"
    return [
        ["stderr", "start\n"],
        ["enlarge", fd, PIPE],
        [verb, " " * 65535 + "\n", PIPE // 65536 - 1],
        [verb, last],
    ]


def test_end_of_an_enlarged_pipe_is_read(host: Host) -> None:
    run = Run(host, *filled(1, RESULT), ["nothing"], unread=True)
    assert (run.failure, run.plugin) == ("", "noop")
    run = Run(host, *filled(2, "why"), ["exit", 3], unread=True)
    assert run.failure.endswith("; the end of its stderr: why")


def test_limit_holds_for_an_enlarged_pipe(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    length = PIPE - 65536 + len(RESULT)
    result_first = [["write", RESULT], *filled(1, ""), ["nothing"]]
    monkeypatch.setattr(conversation, "MAX_OUTPUT", length)
    assert Run(host, *result_first, unread=True).failure == ""
    monkeypatch.setattr(conversation, "MAX_OUTPUT", length - 1)
    run = Run(host, *result_first, unread=True)
    assert run.failure.startswith("plugin noop: killed: it wrote more than ")
    assert run.failure.endswith(
        " bytes to stdout, expected one result; the end of its stderr: start"
    )


def test_result_in_a_pipe_of_packets_is_read(host: Host) -> None:
    blanks: list[list[Any]] = [
        ["stderr", "start\n"],
        ["enlarge", 1, PIPE],
        ["packets", 1],
        ["write", " ", 200],
    ]
    run = Run(host, *blanks, ["write", RESULT], ["nothing"], unread=True)
    assert run.failure == ""


@pytest.mark.parametrize("fd", [1, 2])
def test_pipe_that_is_refilled_all_the_time_is_not_read_for_ever(
    monkeypatch: pytest.MonkeyPatch, fd: int
) -> None:
    deadline = time.monotonic() + 10 * SOON
    pid, pipes = conversation.start("/bin/sh", ["sh", "-c", "echo first; echo first >&2"], deadline)
    assert wait_until(lambda: has_exited(pid))
    refilled, writer = pipes[fd], os.open(f"/proc/self/fd/{pipes[fd]}", os.O_WRONLY)
    real, reads = os.read, list[int]()

    def read(of: int, size: int) -> bytes:
        """Each read is followed by a write, as by a quick descendant."""
        data = real(of, size)
        if of == refilled:
            reads.append(len(data))
            assert len(reads) < 1000, "it reads for ever"
            os.write(writer, b"more")
        return data

    with monkeypatch.context() as patch:
        patch.setattr(os, "read", read)
        output = conversation.Conversation(
            conversation.Asked(pid), pipes, b"", lambda _line: None
        ).run(deadline)
    os.close(writer)
    assert len(reads) > 1
    assert output.stdout.startswith(b"first\n")
    assert output.stderr.startswith("first")
    assert (output.status, output.stopped) == (0, "")


# The exit status and stderr


def test_line_is_logged_when_it_arrives(host: Host) -> None:
    run = Run(host, script="echo before >&2; printf half >&2; exec sleep 1000", timeout=0.7)
    assert run.lines == ["before", "half"]
    assert (
        run.failure
        == "plugin noop: killed: no result after 0.7 s; the end of its stderr: before | half"
    )


def test_flood_of_stderr_does_not_keep_a_plugin_alive(host: Host) -> None:
    run = Run(host, script="exec yes xxx >&2", timeout=0.5)
    assert "killed: no result after 0.5 s; the end of its stderr: " in run.failure
    assert "xxx | xxx" in run.failure
    assert len(run.failure) < MAX_LINE * 2 + 200
