"""The descriptors and the environment of a process that is started."""

from __future__ import annotations

import os
from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from nri.process.spawn import PLUGIN_ENVIRONMENT, pipe, spawn
from nri.process.wait import end_child
from tests.support.processes import open_fds
from tests.support.waiting import SOON

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
def test_descriptors_may_have_each_others_numbers(tmp_path: Path, order: tuple[int, ...]) -> None:
    """In a process of its own, whose low numbers are the test's."""
    names = [str(tmp_path / f"file{number}") for number in range(4)]
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            for number, name in enumerate(names):
                fd = os.open(name, os.O_RDWR | os.O_CREAT)
                os.dup2(fd, number)
            os.closerange(4, 1000)
            argv = ["sh", "-c", "for fd in 0 1 2 3; do printf $fd >/proc/$$/fd/$fd; done"]
            status = end_child(spawn("/bin/sh", argv, order), SOON)
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    content = [(tmp_path / f"file{number}").read_text() for number in order]
    assert content == ["0", "1", "2", "3"]


def printed(argv: list[str], **options: object) -> str:
    reads, writes = pipe()
    try:
        pid = spawn(argv[0], argv, (0, writes, 2), **options)  # type: ignore[arg-type] # a test's options
    finally:
        os.close(writes)
    with open(reads, encoding="utf-8") as file:
        text = file.read()
    assert end_child(pid, SOON) == 0
    return text


def test_the_environment_is_that_of_a_plugin_unless_another_is_given() -> None:
    assert dict(line.split("=", 1) for line in printed(["/usr/bin/env"]).splitlines()) == PLUGIN_ENVIRONMENT
    assert printed(["/usr/bin/env"], environment={"A": "b"}) == "A=b\n"


@pytest.mark.parametrize("own_session", [True, False])
def test_it_leads_a_group_and_where_wanted_a_session(own_session: bool) -> None:
    script = "read -r pid name state parent group session rest < /proc/$$/stat; echo $$ $group $session"
    pid, group, session = printed(["/bin/sh", "-c", script], own_session=own_session).split()
    assert group == pid
    assert session == (pid if own_session else str(os.getsid(0)))


def test_a_program_that_can_not_be_started_leaves_no_descriptor() -> None:
    before = open_fds()
    with pytest.raises(FileNotFoundError):
        spawn("/nonexistent", ["a"], (2, 1, 0, 0))
    assert open_fds() == before
