"""The fixtures of the bridge's tests: its log, the socket of syslog, its configuration."""

import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.v1bridge import log as bridge_log
from tests.unit.v1bridge.configured import Configured, loading
from tests.unit.v1bridge.log_lines import Log


@pytest.fixture
def nri_logger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    """The parent of all ``nri`` loggers, restored afterwards."""
    monkeypatch.setattr(bridge_log, "DIRECTORY", str(tmp_path / "var/log/nri"))
    logger = logging.getLogger("nri")
    before = logger.handlers[:], logger.level, logger.propagate
    monkeypatch.setattr(bridge_log, "bridge_handler", bridge_log.Log())
    yield logger
    bridge_log.drain()
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


@pytest.fixture
def log(tmp_path: Path, nri_logger: logging.Logger) -> Log:
    return Log(tmp_path / "bridge.log")


@pytest.fixture
def syslog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nri_logger: logging.Logger
) -> Iterator[socket.socket]:
    """A datagram socket in place of /dev/log."""
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind("log")
        sock.settimeout(60)
        monkeypatch.setattr(bridge_log, "SYSLOG", "log")
        yield sock


@pytest.fixture
def node(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Configured:
    caplog.set_level(logging.DEBUG, "nri.v1bridge")
    return Configured(tmp_path, caplog)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The configurations that were loaded."""
    made: list[Any] = []
    read_set = loading.read_set

    def counted(conf_dir: str, conf_file: str, *, check_owner: bool = True) -> Any:
        made.append((conf_dir, conf_file))
        return read_set(conf_dir, conf_file, check_owner=check_owner)

    monkeypatch.setattr(loading, "read_set", counted)
    return made
