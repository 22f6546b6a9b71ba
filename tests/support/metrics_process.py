"""``nri metrics`` as a process, and what it serves."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support import exposition
from tests.support.processes import MEASURED
from tests.support.waiting import SOON, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.exposition import Series

SOURCE = str(Path(__file__).parents[2])
COMMAND = [sys.executable, "-m", "nri.cli.entry", "metrics"]


class MetricsProcess:
    """A running ``nri metrics``.

    :param stderr: the file with what it says.
    """

    def __init__(self, child: subprocess.Popen[bytes], stderr: Path) -> None:
        self.child, self._stderr = child, stderr

    @property
    def said(self) -> list[str]:
        """The lines that it has written to stderr."""
        return self._stderr.read_text().splitlines()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that it serves."""
        found = until(
            lambda: re.search(r"serving http://(.*):(\d+)/metrics", "\n".join(self.said)), "the URL"
        )
        return found[1], int(found[2])

    def get(self, path: str = "/metrics") -> tuple[int, bytes]:
        """Status and body of a page."""
        host, port = self.address
        try:
            with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=SOON) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def series(self) -> Series:
        """What is served now."""
        status, body = self.get()
        assert status == 200
        return exposition.parse(body)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and return the exit status."""
        self.child.send_signal(number)
        return self.child.wait(SOON)


@contextlib.contextmanager
def running(place: Path, socket: Path, *words: str) -> Iterator[MetricsProcess]:
    """Run ``nri metrics`` with these words, for the bridge at ``socket``."""
    stderr = place / "metrics.stderr"
    with stderr.open("wb") as file:
        child = subprocess.Popen(
            [*COMMAND, "--socket", str(socket), *words],
            env={"PYTHONPATH": SOURCE, "PATH": os.environ["PATH"], **MEASURED},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
        )
    try:
        yield MetricsProcess(child, stderr)
    finally:
        child.kill()
        child.wait()
    assert "Traceback" not in stderr.read_text()
