"""A disk that is really full: a tmpfs of 64 KiB, in a mount namespace of its own that leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = str(Path(__file__).parents[2])
MOUNT = 'mount -t tmpfs -o size=64k tmpfs "$1" && cd "$1" && shift && exec "$@"'


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Where the disk is mounted, for those who are in the namespace."""
    disk = tmp_path / "disk"
    disk.mkdir()
    ran = on(disk, "true")
    if ran.returncode != 0:
        pytest.skip(f"no mount namespace can be made here: {ran.stderr.strip()}")
    return disk


def on(disk: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command that sees the disk, and is in it."""
    user = [] if os.getuid() == 0 else ["--map-root-user"]
    return subprocess.run(
        ["unshare", "--mount", *user, "sh", "-c", MOUNT, "sh", str(disk), *command],
        env={"PYTHONPATH": SOURCE, "PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_bridges_log_waits_while_the_disk_is_full(disk: Path) -> None:
    code = """
import logging, os, re, time
from nri.v1bridge import BridgeOptions, log as bridge_log
bridge_log.SYSLOG = "/nonexistent"
bridge_log.AGAIN_AFTER = 0.01
bridge_log.set_up(BridgeOptions(log_file=os.path.abspath("log")), launched=False)
log = logging.getLogger("nri.v1bridge")
def written():
    bridge_log.drain()
    bridge_log.bridge_handler.use(bridge_log.bridge_handler.place)
log.info("before")
written()
with open("other", "wb", buffering=0) as other:
    try:
        while other.write(bytes(4096)):
            pass
    except OSError:
        pass
for number in range(200):
    log.info("while it is full, line %d, %s", number, "x" * 100)
while bridge_log.describe()["fault"] != "No space left on device":
    time.sleep(0.01)
os.unlink("other")
while bridge_log.describe()["fault"]:
    time.sleep(0.01)
log.info("after")
written()
with open("log") as file:
    lines = file.read().splitlines()
kept = [line for line in lines if re.fullmatch(r"\\S+ info while it is full, line \\d+, x{100}", line)]
assert len(kept) == 200, len(kept)
assert lines[0].endswith(" info before"), lines[0]
assert lines[-1].endswith(" info after"), lines[-1]
assert bridge_log.describe()["lost"] == 0
"""
    ran = on(disk, sys.executable, "-c", code)
    assert ran.returncode == 0, ran.stderr


def test_a_result_of_which_only_a_part_can_be_written_is_exit_1(disk: Path) -> None:
    plugin = disk.parent / "plugin.py"
    plugin.write_text(
        "from nri import skel\n"
        "class Big(skel.Plugin):\n"
        "    type = 'big'\n"
        "    def invoke(self, request):\n"
        "        return request.new_result('big', metadata={'a': 'x' * 200_000})\n"
        "skel.main(Big())\n"
    )
    line = f"echo '{{}}' | {sys.executable} {plugin} invoke > result"
    ran = on(disk, "sh", "-c", f"{line}; echo $?; wc -c < result")
    assert ran.stdout.split() == ["1", "65536"]
    assert (
        ran.stderr
        == "big: the result cannot be written to stdout: [Errno 28] No space left on device\n"
    )
