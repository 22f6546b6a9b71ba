"""An enclosure for a runtime: directory, cgroup and namespaces (mount, PID) that the machine does not notice.

In the enclosure /run is empty and writable, and /etc/nri and /opt/nri are directories of the test; where the
machine has no such directory, a read-only overlay over /etc or /opt supplies it. So runtimes, plugins and
hooks find everything at its real place, and many enclosures can stand side by side.

The kernel does the cleaning up: when the enclosure's first process ends, everything started in it is killed,
however it has daemonized, and every mount made in it is gone. That process ends when its stdin does, so also
when the test run is killed. Process ids inside are not those outside; `/proc` inside fits those inside.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.containerd import cgroups

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TIMEOUT = 60.0  # seconds for one command that is run in an enclosure

# Process 1 of the enclosure. Subreaper (shims) become its children, and SIG_IGN makes the kernel reap them.
_KEEPER = """
import signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
sys.stdin.read()
"""

HANGING = """#!/bin/sh
cat > /dev/null
: > {begun}
sleep 1234 &
exec sleep 4321
"""
"""A plugin that hangs with a child; it notes that it has begun in the file `begun`."""


class CommandFailedError(RuntimeError):
    """A command in the enclosure failed; `code`, `stdout` and `stderr` are its own."""

    def __init__(self, command: Sequence[str | Path], code: int, stdout: str, stderr: str) -> None:
        super().__init__(f"{' '.join(map(str, command))}: exit {code}: {stderr or stdout}")
        self.code, self.stdout, self.stderr = code, stdout, stderr


class Enclosure:
    """An enclosure that stands for as long as the `with` block.

    In it /opt/nri/bin is `bin_dir` and /etc/nri/conf.json holds `conf`; `etc_nri` and `opt_nri` are the
    directories behind /etc/nri and /opt/nri and may be changed at any time. Containers go below
    `cgroup_parent`, and files below `root`: both are removed.
    """

    def __init__(self, *, bin_dir: Path | None = None, conf: Mapping[str, Any] | None = None) -> None:
        self._bin_dir, self._conf = bin_dir, conf
        self._keeper: subprocess.Popen[str] | None = None
        self._owned = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as owned:  # undone from the last to the first, also when a later step fails
            self.root = Path(tempfile.mkdtemp(prefix="nri-test-"))  # short, as a socket's path must be
            owned.callback(shutil.rmtree, self.root)
            self.cgroup_parent = f"/{self.root.name}"
            owned.callback(cgroups.remove, self.cgroup_parent)
            owned.callback(self._end_all)
            self._begin(self._furnish())
            self._owned = owned.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill everything in the enclosure and remove it; a second time does nothing."""
        self._owned.close()

    def command(self, arguments: Sequence[str | Path]) -> list[str | Path]:
        """The command that runs `arguments` in the enclosure, in its directory /."""
        namespaces = f"/proc/{self._running().pid}/ns"
        return ["nsenter", f"--mount={namespaces}/mnt", f"--pid={namespaces}/pid_for_children", *arguments]

    def run(self, *arguments: str | Path) -> str:
        """Run a command in the enclosure to its end; its stdout. Raises CommandFailedError."""
        # Containers and shims inherit these and keep them open: reading pipes to their end would hang.
        with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
            done = subprocess.run(
                self.command(arguments),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env={"PATH": SYSTEM_PATH},
                timeout=TIMEOUT,
                check=False,
            )
            stdout.seek(0)
            stderr.seek(0)
            said, complained = stdout.read(), stderr.read()
        if done.returncode:
            raise CommandFailedError(arguments, done.returncode, said, complained)
        return said

    def install(self, destination: Path) -> None:
        """Put what `make install` laid out in `destination` where it belongs: /opt/nri, without configuration."""
        shutil.copytree(destination / "opt/nri", self.opt_nri, symlinks=True, dirs_exist_ok=True)

    def processes(self) -> set[int]:
        """All processes in the enclosure and in its containers, by the machine's numbers."""
        parents = {pid: _parent(pid) for pid in map(int, filter(str.isdigit, os.listdir("/proc")))}
        # what nsenter brought in are our own children: their namespace tells, not their parents
        inside = os.stat(f"/proc/{self._running().pid}/ns/pid_for_children").st_ino
        found = {pid for pid in parents if _pid_namespace(pid) == inside}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return found

    def left_of_hooks(self) -> list[str]:
        """The command lines of what is left of a hook, its guard and a plugin that hangs in `sleep`."""
        lines = []
        for pid in self.processes():
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if "hook create" in line or "sleep 1234" in line or "sleep 4321" in line:
                lines.append(line)
        return lines

    def _furnish(self) -> list[str]:
        """Make the directories; the commands that mount them."""
        self.etc_nri, self.opt_nri = self.root / "etc-nri", self.root / "opt-nri"
        self.etc_nri.mkdir()
        (self.opt_nri / "bin").mkdir(parents=True)
        if self._conf is not None:
            (self.etc_nri / "conf.json").write_text(json.dumps(self._conf))
        binds = {"/etc/nri": self.etc_nri, "/opt/nri": self.opt_nri}
        if self._bin_dir is not None:
            binds["/opt/nri/bin"] = self._bin_dir
        mounts = ["mount -n -t tmpfs -o mode=755 tmpfs /run"]  # without -n mount(8) makes a /run/mount outside
        for parent in ("/etc", "/opt"):
            if not os.path.isdir(f"{parent}/nri"):
                lower = self.root / "overlay" / parent[1:]
                (lower / "nri").mkdir(parents=True)
                mounts.append(f"mount -t overlay -o 'ro,lowerdir={lower}:{parent}' overlay {parent}")
        return [*mounts, *(f"mount --bind '{source}' '{target}'" for target, source in binds.items())]

    def _begin(self, mounts: Sequence[str]) -> None:
        script = "\n".join(["set -e", *mounts, 'exec "$@"'])
        keeper = [sys.executable, "-I", "-S", "-c", _KEEPER]
        self._keeper = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", script, "sh", *keeper],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
        )
        assert self._keeper.stdout and self._keeper.stderr
        if self._keeper.stdout.readline() != "ready\n":
            raise RuntimeError(f"no namespaces for the test: {self._keeper.stderr.read()}")

    def _end_all(self) -> None:
        if self._keeper is not None:
            keeper, self._keeper = self._keeper, None
            keeper.communicate()  # closes its stdin; it ends only after the kernel has ended all the others

    def _running(self) -> subprocess.Popen[str]:
        if self._keeper is None:
            raise RuntimeError("the enclosure is closed")
        return self._keeper


def _parent(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # ended while we looked
        return 0
    return int(stat.rpartition(")")[2].split()[1])


def _pid_namespace(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return 0
