"""`nri hook`, compiled: it forks for the plugins of its own build, which look as if it had started them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nri import build_mark
from tests.e2e import ROOT
from tests.support.processes import is_running
from tests.support.waiting import SOON, wait_until

OPENAT = ("257", "56")  # on x86-64 and arm64
STATE = {"ociVersion": "1.0.2", "id": "web", "status": "created", "pid": 0}
OCI = {"ociVersion": "1.0.2", "annotations": {"qos.class": "ls"}, "linux": {"cgroupsPath": "/web"}}


class Site:
    """A folder with a compiled ``nri``, plugins of its build, which block when they read ``mounts``, and a bundle."""

    def __init__(self, root: Path) -> None:
        self.root, self.lib, self.bin = root, root / "lib", root / "bin"
        self.mounts = root / "mounts"
        os.mkfifo(self.mounts)
        for folder in ("lib", "bin", "resource.d", "bundle"):
            (root / folder).mkdir()
        dist = ROOT / "dist/nri"
        (self.lib / "_internal").symlink_to(dist / "_internal")
        for name in ("nri", "clearcfs", "konfine"):
            shutil.copy2(dist / name, self.lib)
            (self.bin / name).symlink_to(f"../lib/{name}")
        (root / "bundle/config.json").write_text(json.dumps(OCI))
        self.running: list[subprocess.Popen[bytes]] = []

    def configure(self, *plugins: str, **conf: Any) -> None:
        """Have a chain of these plugins."""
        entries = [{"type": plugin, "conf": {"mountinfo": str(self.mounts), **conf}} for plugin in plugins]
        (self.root / "resource.d/10.conf").write_text(json.dumps({"version": "0.1", "plugins": entries}))

    def make_foreign(self, plugin: str) -> None:
        """Put a copy in the place of the link, so that it is started."""
        (self.bin / plugin).unlink()
        shutil.copy2(self.lib / plugin, self.bin)
        if not (self.bin / "_internal").exists():
            (self.bin / "_internal").symlink_to(self.lib / "_internal")

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """The hook, with the container's state on its stdin."""
        options = ["--conf-dir", str(self.root / "resource.d"), "--bin-dir", str(self.bin), *words]
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [str(self.lib / "nri"), "hook", "create", *options],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env={"PATH": "/bin", "TZ": "UTC", "SECRET": "x"},
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(STATE | {"bundle": str(self.root / "bundle")}).encode())
        process.stdin.close()
        process.stdin = None
        self.running.append(process)
        return process


@pytest.fixture
def site(binaries: Path, tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    for process in site.running:
        with process:
            process.kill()


def plugins_of(hook: subprocess.Popen[bytes]) -> dict[str, int]:
    """The processes of plugins by their names. A child of the hook has its own name when it is as good as started."""
    try:
        children = Path(f"/proc/{hook.pid}/task/{hook.pid}/children").read_text().split()
        names = {Path(f"/proc/{pid}/comm").read_text().strip(): int(pid) for pid in children}
    except OSError:
        return {}
    return {name: pid for name, pid in names.items() if name not in ("nri", "nri-watchdog")}


def blocked(hook: subprocess.Popen[bytes], plugin: str) -> int:
    """The pid of a plugin, when it opens the FIFO."""

    def opens() -> bool:
        pid = plugins_of(hook).get(plugin)
        is_asleep = pid is not None and "State:\tS" in Path(f"/proc/{pid}/status").read_text()
        return is_asleep and Path(f"/proc/{pid}/syscall").read_text().split()[0] in OPENAT

    assert wait_until(opens, SOON), hook.poll()
    return plugins_of(hook)[plugin]


def program_of(pid: int) -> str:
    return Path(os.readlink(f"/proc/{pid}/exe")).name


def facts(pid: int, hook: subprocess.Popen[bytes]) -> dict[str, Any]:
    """What can be seen of a plugin's process, and must not depend on how it was made."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    descriptors = {fd: os.readlink(f"/proc/{pid}/fd/{fd}").partition(":")[0] for fd in os.listdir(f"/proc/{pid}/fd")}
    return {
        "status": {
            key: status[key]
            for key in ("Name", "Umask", "Uid", "Gid", "Threads", "SigBlk", "SigCgt", "NoNewPrivs", "CapEff")
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


def test_a_forked_plugin_looks_as_a_started_one(site: Site) -> None:
    site.configure("clearcfs")
    hook = site.start()
    pid = blocked(hook, "clearcfs")
    own = facts(pid, hook)
    assert program_of(pid) == "nri"
    hook.kill()

    site.make_foreign("clearcfs")
    hook = site.start()
    pid = blocked(hook, "clearcfs")
    assert program_of(pid) == "clearcfs"
    assert own == facts(pid, hook)
    assert own["descriptors"] == {"0": "pipe", "1": "pipe", "2": "pipe", "3": "pipe"}  # skel's copy of stdout is 3


@pytest.mark.parametrize("how", ["killed", "late"])
def test_no_end_of_the_hook_leaves_a_plugin(site: Site, how: str) -> None:
    site.configure("konfine", "clearcfs")
    hook = site.start(*(["--deadline", "4"] if how == "late" else []))
    blocked(hook, "konfine")
    pids = plugins_of(hook).values()
    if how == "killed":
        hook.kill()
    _, stderr = hook.communicate(timeout=SOON)
    assert wait_until(lambda: not any(map(is_running, pids)), SOON)
    if how == "killed":
        assert (hook.returncode, stderr) == (-signal.SIGKILL, b"")
    else:
        assert hook.returncode == 1
        assert b"not done within 4 s: plugin konfine: killed: no result after " in stderr


def test_every_plugin_has_the_mark_of_the_build(binaries: Path) -> None:
    plugins = ("clearcfs", "konfine", "logger", "device-injector", "hook-injector", "ulimit-adjuster", "qos")
    marks = {
        name: build_mark.decode((ROOT / "dist/nri" / name).read_bytes()[-build_mark.SIZE :])
        for name in (*plugins, "nri", "v1bridge")
    }
    assert len({build for build, _ in marks.values()} - {""}) == 1
    for name in plugins:
        assert marks[name][1] == f"nri.plugins.{name.replace('-', '_')}"
