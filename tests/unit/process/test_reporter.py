"""Lines on stderr and in a log file."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import TYPE_CHECKING

from nri.process.reporter import Reporter

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_without_stderr_and_log_nothing_happens() -> None:
    Reporter(None).write("nothing happens")


def test_a_log_that_can_not_be_opened_is_told_as_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(log))
    Reporter(sys.stderr, str(log)).write("hello")
    assert capsys.readouterr().err.endswith(f"the log file {log} cannot be written: it is a socket\n")
    # A process that leads a session has no terminal, and opening /dev/tty fails as opening such a FIFO does.
    program = "import sys; from nri.process.reporter import Reporter; Reporter(sys.stderr, '/dev/tty').write('hello')"
    ran = subprocess.run(
        [sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, check=True, start_new_session=True
    )
    assert ran.stderr.endswith("the log file /dev/tty cannot be written: No such device or address\n")
