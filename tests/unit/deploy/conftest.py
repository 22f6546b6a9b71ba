"""What ``make install`` lays out, and processes that run it."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.installing import run, source


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """What `make install DESTDIR=…` lays out."""
    run(source(tmp_path) / "tools/install", tmp_path / "installed")
    return tmp_path / "installed"


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a process, which is killed after the test at the latest."""
    started: list[subprocess.Popen[bytes]] = []

    def process(*command: str | Path) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(command))
        return started[-1]

    yield process
    for each in started:
        each.kill()
        each.wait()
