"""`nri hook`, compiled: it forks for the plugins of its own build, which look as if it had started them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nri.client import build_mark
from tests.e2e import ROOT
from tests.support.processes import is_running
from tests.support.waiting import wait_until

DIST = ROOT / "dist/nri"
OPENAT = ("257", "56")  # on x86-64 and arm64
STATE = {"ociVersion": "1.0.2", "id": "web", "status": "created", "pid": 0}
OCI = {"ociVersion": "1.0.2", "annotations": {"qos.class": "ls"}, "linux": {"cgroupsPath": "/web"}}


@pytest.fixture
def site(binaries: Path, tmp_path: Path) -> Path:
    """A folder with a compiled ``nri``, a plugin of its build that blocks when it reads ``mounts``, and a bundle."""
    os.mkfifo(tmp_path / "mounts")
    for folder in ("lib", "bin", "resource.d", "bundle"):
        (tmp_path / folder).mkdir()
    (tmp_path / "lib/_internal").symlink_to(DIST / "_internal")
    for name in ("nri", "clearcfs"):
        shutil.copy2(DIST / name, tmp_path / "lib")
    (tmp_path / "bin/clearcfs").symlink_to("../lib/clearcfs")
    (tmp_path / "bundle/config.json").write_text(json.dumps(OCI))
    entry = {"type": "clearcfs", "conf": {"mountinfo": str(tmp_path / "mounts")}}
    (tmp_path / "resource.d/10.conf").write_text(json.dumps({"version": "0.1", "plugins": [entry]}))
    return tmp_path


@contextmanager
def running(site: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The hook, which is killed at the end, and the pid of its plugin, which has opened the FIFO."""
    words = [
        "hook",
        "create",
        "--conf-dir",
        str(site / "resource.d"),
        "--bin-dir",
        str(site / "bin"),
    ]
    pipe, environment = subprocess.PIPE, {"PATH": "/bin", "TZ": "UTC", "SECRET": "x"}
    with subprocess.Popen(
        [str(site / "lib/nri"), *words], stdin=pipe, stdout=pipe, stderr=pipe, env=environment
    ) as hook:
        try:
            assert hook.stdin is not None
            hook.stdin.write(json.dumps(STATE | {"bundle": str(site / "bundle")}).encode())
            hook.stdin.close()
            assert wait_until(lambda: blocked(hook)), hook.poll()
            yield hook, blocked(hook)
        finally:
            hook.kill()


def blocked(hook: subprocess.Popen[bytes]) -> int:
    """The pid of the plugin, when it opens the FIFO; 0 before. It has its own name when it is as good as started."""
    try:
        for pid in Path(f"/proc/{hook.pid}/task/{hook.pid}/children").read_text().split():
            process = Path(f"/proc/{pid}")
            is_asleep = "State:\tS" in (process / "status").read_text()
            opens = (process / "syscall").read_text().split()[0] in OPENAT
            if (process / "comm").read_text() == "clearcfs\n" and is_asleep and opens:
                return int(pid)
    except OSError:
        pass  # one has ended
    return 0


def program_of(pid: int) -> str:
    return Path(os.readlink(f"/proc/{pid}/exe")).name


def facts(pid: int, hook: subprocess.Popen[bytes]) -> dict[str, Any]:
    """What can be seen of a plugin's process, and must not depend on how it was made."""
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    descriptors = {
        fd: os.readlink(f"/proc/{pid}/fd/{fd}").partition(":")[0]
        for fd in os.listdir(f"/proc/{pid}/fd")
    }
    return {
        "status": {
            key: status[key]
            for key in (
                "Name",
                "Umask",
                "Uid",
                "Gid",
                "Threads",
                "SigBlk",
                "SigCgt",
                "NoNewPrivs",
                "CapEff",
            )
        },
        "ignored": int(status["SigIgn"], 16) & ~(7 << 31),  # without those that C libraries reserve
        "parent is the hook": int(stat[1]) == hook.pid,
        "leads a group": int(stat[2]) == pid,
        "session of the hook": int(stat[3]) == hook.pid,
        "descriptors": descriptors,
        "cwd": os.readlink(f"/proc/{pid}/cwd"),
        "limits": Path(f"/proc/{pid}/limits").read_text(),
        "timers": Path(f"/proc/{pid}/timers").read_text(),
    }


def test_a_forked_plugin_looks_as_a_started_one(site: Path) -> None:
    with running(site) as (hook, pid):
        own = facts(pid, hook)
        assert program_of(pid) == "nri"
    assert wait_until(lambda: not is_running(pid))

    (site / "bin/clearcfs").unlink()  # a copy in another folder is started
    shutil.copy2(DIST / "clearcfs", site / "bin")
    (site / "bin/_internal").symlink_to(DIST / "_internal")
    with running(site) as (hook, pid):
        assert program_of(pid) == "clearcfs"
        assert own == facts(pid, hook)
    # skel's copy of stdout is 3.
    assert own["descriptors"] == {"0": "pipe", "1": "pipe", "2": "pipe", "3": "pipe"}


def test_every_plugin_has_the_mark_of_the_build(binaries: Path) -> None:
    plugins = (
        "clearcfs",
        "konfine",
        "logger",
        "device-injector",
        "hook-injector",
        "ulimit-adjuster",
        "qos",
    )
    marks = {
        name: build_mark.decode((DIST / name).read_bytes()[-build_mark.SIZE :])
        for name in (*plugins, "nri", "v1bridge")
    }
    assert len({build for build, _ in marks.values()} - {""}) == 1
    for name in plugins:
        assert marks[name][1] == f"nri.plugins.{name.replace('-', '_')}"
