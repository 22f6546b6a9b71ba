"""Log files that another user has made, or could write to: none of those that write logs puts a pod's words there."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nri.files import UnfitFileError, open_log
from nri.plugins.logger import Logger
from nri.process.reporter import Reporter
from nri.runc.commandline import CommandLine
from nri.runc.report import Report
from nri.testing import invoke
from nri.types.v1 import Request
from nri.v1bridge import log as bridge_log
from nri.v1bridge.options import BridgeOptions


def by_logger(path: Path) -> str:
    return invoke(Logger(), Request(state="create", id="web", conf={"file": str(path)})).error


def by_hook(path: Path) -> str:
    shown = io.StringIO()
    Reporter(shown, str(path)).write("a line")
    return shown.getvalue()


def by_runtime(path: Path) -> str:
    shown = io.StringIO()
    Report("nri-runc", CommandLine(["--log", str(path), "state", "x"]), shown).error("a line")
    return shown.getvalue()


def by_bridge(path: Path) -> str:
    bridge_log.set_up(BridgeOptions(log_file=str(path)), launched=True)
    logging.getLogger("nri").error("a line")
    bridge_log.drain()
    return str(bridge_log.describe()["fault"])


@pytest.mark.usefixtures("nri_logger")
@pytest.mark.parametrize("write", [by_logger, by_hook, by_runtime, by_bridge])
@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda path: path.chmod(0o666), "is writable by others (mode 0666, owner 0"),
        (lambda path: path.chmod(0o622), "is writable by others (mode 0622, owner 0"),
        (lambda path: os.chown(path, 65534, 0), "is another user's (mode 0600, owner 65534)"),
        (
            lambda path: (path.unlink(), path.symlink_to(path.parent / "elsewhere")),
            "Too many levels of symbolic links",
        ),
    ],
)
def test_file_of_another_user_gets_nothing(
    write: Callable[[Path], str], make: Callable[[Path], object], fault: str, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a file to another user")
    path = tmp_path / "log"
    path.touch(mode=0o600)
    make(path)
    assert fault in write(path)
    assert not path.exists() or path.read_bytes() == b""


def test_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    os.close(open_log(str(tmp_path / "log")))
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600
    (tmp_path / "log").chmod(0o640)  # by a program that rotates
    fd = open_log(str(tmp_path / "log"))
    os.write(fd, b"more")
    os.close(fd)
    (tmp_path / "log").chmod(0o602)
    with pytest.raises(UnfitFileError, match="expected it to be root's"):
        open_log(str(tmp_path / "log"))
