"""The command line of ``nri-runc``: it raises no exception, the words before the command are those of its options,
and arguments stay in their order. The input is the words, separated by NULs.
"""

from __future__ import annotations

from nri.runc.commandline import RUNS_CHAIN, CommandLine


def check(data: bytes) -> None:
    """Parse the words."""
    words = [word.decode("utf-8", "surrogateescape") for word in data.split(b"\0")]
    line = CommandLine(words)
    before = [word for option in line.before for word in option.words]
    assert words[: len(before)] == before
    if line.command:
        assert line.command in words[len(before) : len(before) + 2]
    rest = iter(words)
    assert all(word in rest for word in line.arguments)
    assert not line.arguments or line.command in RUNS_CHAIN


SEEDS = (
    b"",
    b"--root\0/r\0--log=/l\0--systemd-cgroup\0create\0--bundle\0/b\0web",
    b"run\0-db\0/b\0web\0--keep=false",
    b"--new\0state\0create\0--\0--force",
    b"update\0--memory\0001.5GiB\0--cpu-quota=-1\0web",
    b"update\0-r\0-\0web",
    b"-\0--\0delete\0-rf\0-",
    b"--=\0---\0create\0--=x\0-=",
    b"--root",
)
WORDS = (
    b"--root",
    b"--log",
    b"create",
    b"update",
    b"delete",
    b"--bundle",
    b"--memory",
    b"-b",
    b"\0",
    b"=",
    b"--",
)
