"""An enclosure for a runtime: a directory, a cgroup, and namespaces (mount, PID), isolated from the machine.

In the enclosure /run is empty and writable, and /etc/nri and /opt/nri are private directories; if the machine has no
such directory, a read-only overlay over /etc or /opt provides it. So runtimes, plugins and hooks use their real
paths, and many enclosures can exist at once.

The kernel cleans up: when the enclosure's first process ends, every process in it is killed, daemons too, and every
mount in it is removed. That process ends at the end of its stdin, so also when the test run is killed. Pids inside
differ from those outside, and `/proc` inside shows those inside.
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
from typing import Any, Self

from harness.containerd import cgroups
from harness.processes import parent_of

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TIMEOUT = 60.0  # seconds for one command in an enclosure

# Process 1 of the enclosure. Shims without a parent become its children, and SIG_IGN makes the kernel reap them.
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
"""A plugin that hangs with a child; it creates the file `begun` first."""


class CommandFailedError(RuntimeError):
    """A command in the enclosure failed; `code`, `stdout` and `stderr` are its own."""

    def __init__(self, command: Sequence[str | Path], code: int, stdout: str, stderr: str) -> None:
        super().__init__(f"{' '.join(map(str, command))}: exit {code}: {stderr or stdout}")
        self.code, self.stdout, self.stderr = code, stdout, stderr


class Enclosure:
    """An enclosure that exists during the `with` block.

    In it /opt/nri/bin is `bin_dir`, and /etc/nri/conf.json has the content `conf`. `etc_nri` and `opt_nri` are the
    directories behind /etc/nri and /opt/nri; they may be changed at any time. Containers belong below
    `cgroup_parent`, and files below `root`: both are removed.
    """

    def __init__(
        self, *, bin_dir: Path | None = None, conf: Mapping[str, Any] | None = None
    ) -> None:
        self._bin_dir, self._conf = bin_dir, conf
        self._keeper: subprocess.Popen[str] | None = None
        self._owned = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as owned:  # closed in reverse order, also when a later step fails
            # The path of a socket must be short.
            self.root = Path(tempfile.mkdtemp(prefix="nri-test-"))
            owned.callback(shutil.rmtree, self.root)
            self.cgroup_parent = f"/{self.root.name}"
            owned.callback(cgroups.remove, self.cgroup_parent)
            owned.callback(self._end_all)
            self._begin(self._furnish())
            self._owned = owned.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill all processes in the enclosure and remove it; a second call does nothing."""
        self._owned.close()

    def command(self, arguments: Sequence[str | Path]) -> list[str | Path]:
        """Return the command that runs `arguments` in the enclosure, in its directory /."""
        namespaces = f"/proc/{self._running().pid}/ns"
        return [
            "nsenter",
            f"--mount={namespaces}/mnt",
            f"--pid={namespaces}/pid_for_children",
            *arguments,
        ]

    def run(self, *arguments: str | Path) -> str:
        """Run a command in the enclosure and return its stdout.

        :raises CommandFailedError: its exit status is not 0.
        """
        # Containers and shims inherit these files. Pipes would stay open, and reading them to the end would hang.
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
            output, errors = stdout.read(), stderr.read()
        if done.returncode:
            raise CommandFailedError(arguments, done.returncode, output, errors)
        return output

    def install(self, destination: Path) -> None:
        """Copy /opt/nri from `destination`, a tree that `make install` has made, without the configuration."""
        shutil.copytree(destination / "opt/nri", self.opt_nri, symlinks=True, dirs_exist_ok=True)

    def processes(self) -> set[int]:
        """Return all processes in the enclosure and its containers, by their pids outside."""
        parents = {
            pid: parent_of(pid) for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
        }
        # processes of nsenter are our own children: their namespace counts, not their parents
        inside = os.stat(f"/proc/{self._running().pid}/ns/pid_for_children").st_ino
        pids = {pid for pid in parents if _pid_namespace(pid) == inside}
        while more := {pid for pid, parent in parents.items() if parent in pids} - pids:
            pids |= more
        return pids

    def left_of_hooks(self) -> list[str]:
        """Return the command lines of a hook, its watchdog and a plugin that hangs in `sleep`, if they still run."""
        lines = []
        for pid in self.processes():
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if "hook create" in line or "sleep 1234" in line or "sleep 4321" in line:
                lines.append(line)
        return lines

    def configure(self, *plugins: dict[str, Any], version: str = "0.1") -> None:
        """Replace /etc/nri/resource.d/10.conf atomically."""
        directory = self.etc_nri / "resource.d"
        directory.mkdir(exist_ok=True)
        part = directory / ".10.conf.part"
        part.write_text(json.dumps({"version": version, "plugins": list(plugins)}))
        part.rename(directory / "10.conf")

    def _furnish(self) -> list[str]:
        """Make the directories; return the commands that mount them."""
        self.etc_nri, self.opt_nri = self.root / "etc-nri", self.root / "opt-nri"
        self.etc_nri.mkdir()
        (self.opt_nri / "bin").mkdir(parents=True)
        if self._conf is not None:
            (self.etc_nri / "conf.json").write_text(json.dumps(self._conf))
        binds = {"/etc/nri": self.etc_nri, "/opt/nri": self.opt_nri}
        if self._bin_dir is not None:
            binds["/opt/nri/bin"] = self._bin_dir
        # Without -n mount(8) makes a /run/mount outside.
        mounts = ["mount -n -t tmpfs -o mode=755 tmpfs /run"]
        for parent in ("/etc", "/opt"):
            if not os.path.isdir(f"{parent}/nri"):
                lower = self.root / "overlay" / parent[1:]
                (lower / "nri").mkdir(parents=True)
                mounts.append(
                    f"mount -t overlay -o 'ro,lowerdir={lower}:{parent}' overlay {parent}"
                )
        return [
            *mounts,
            *(f"mount --bind '{source}' '{target}'" for target, source in binds.items()),
        ]

    def _begin(self, mounts: Sequence[str]) -> None:
        script = "\n".join(["set -e", *mounts, 'exec "$@"'])
        keeper = [sys.executable, "-I", "-S", "-c", _KEEPER]
        self._keeper = subprocess.Popen(
            [
                "unshare",
                "--mount",
                "--pid",
                "--fork",
                "--mount-proc",
                "sh",
                "-c",
                script,
                "sh",
                *keeper,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
        )
        assert self._keeper.stdout and self._keeper.stderr
        if self._keeper.stdout.readline() != "ready\n":
            raise RuntimeError(f"no namespaces for the enclosure: {self._keeper.stderr.read()}")

    def _end_all(self) -> None:
        if self._keeper is not None:
            keeper, self._keeper = self._keeper, None
            keeper.communicate()  # closes its stdin; it ends after the kernel has killed all others

    def _running(self) -> subprocess.Popen[str]:
        if self._keeper is None:
            raise RuntimeError("the enclosure is closed")
        return self._keeper


def _pid_namespace(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return 0
