"""What ``make install`` lays out."""

from pathlib import Path

import pytest

from tests.support.installing import run, source


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """What `make install DESTDIR=…` lays out."""
    run(source(tmp_path) / "tools/install", tmp_path / "installed")
    return tmp_path / "installed"
