"""The ``nri`` command on a made-up host: in this process by click's runner, or as a process of its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from nri.cli.commands import nri
from tests.support.host import Host
from tests.support.processes import MEASURED

SOURCE = str(Path(__file__).parents[3])
COMMAND = [sys.executable, "-m", "nri.cli.entry"]


class Ran:
    """What a command said, and its exit status; never a traceback."""

    def __init__(self, status: int, stdout: str, stderr: str) -> None:
        self.status, self.stdout, self.stderr = status, stdout, stderr
        assert "Traceback" not in stdout + stderr
        for line in (stdout + stderr).splitlines():
            assert line.isprintable(), line

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


def inside(*words: str, stdin: bytes = b"", cwd: Path | None = None, **environment: str) -> Ran:
    """Run it in this process; what a command changes of this process is put back."""
    directory, mask, limits = os.getcwd(), os.umask(0o022), resource.getrlimit(resource.RLIMIT_CORE)
    try:
        os.chdir(cwd or directory)
        done = CliRunner().invoke(nri, words, input=stdin, prog_name="nri", env=environment)
    finally:
        os.chdir(directory)
        os.umask(mask)
        resource.setrlimit(resource.RLIMIT_CORE, limits)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Ran(done.exit_code, done.stdout, done.stderr)


def command(host: Host, *words: str, stdin: bytes = b"") -> Ran:
    """Run it in this process, on this host."""
    return inside(*words, *host.options, stdin=stdin)


def process(
    *words: str, stdin: bytes | None = b"", cwd: Path | None = None, **environment: str
) -> Ran:
    """Run it as a process; without stdin that is closed."""
    closed = ["sh", "-c", 'exec "$@" <&-', "sh"] if stdin is None else []
    done = subprocess.run(
        [*closed, *COMMAND, *words],
        input=stdin,
        cwd=cwd,
        env={"PYTHONPATH": SOURCE, "PATH": os.environ["PATH"], **MEASURED, **environment},
        capture_output=True,
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
