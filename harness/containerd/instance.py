"""A private containerd with its own directories, sockets, namespaces and cgroups, which leaves nothing behind.

    with Containerd(bin_dir=plugins, conf={"version": "0.1", "plugins": [...]}) as containerd:
        with containerd.cri() as cri:
            pod = cri.run_pod("web")

containerd, its shims, its containers and the plugins run in an enclosure (see there). Files below /run, the v2 socket
/var/run/nri/nri.sock included, exist only in it; `enclosure.run` reaches them.

`toml` has the configuration of each generation, and `releases` finds their executables.
"""

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import grpc

from harness.containerd import cgroups, image, toml
from harness.containerd.cri import Cri
from harness.containerd.enclosure import SYSTEM_PATH, Enclosure
from harness.processes import parent_of

READY_IN = 60.0  # seconds until a started containerd must answer


@dataclass(frozen=True, kw_only=True)
class Release:
    """A containerd on this machine: the directory of its executables, and its version, such as (1, 6, 20)."""

    programs: Path
    version: tuple[int, ...]

    @classmethod
    def at(cls, programs: Path) -> Self:
        """Return the release in `programs`: /usr/bin, or usr/bin of an unpacked package."""
        command: list[str | Path] = [programs / "containerd", "--version"]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        version = re.search(r" v?(\d+)\.(\d+)\.(\d+)", output)
        if version is None:
            raise RuntimeError(f"{command[0]}: no version in {output!r}")
        return cls(programs=programs, version=tuple(map(int, version.groups())))


class Containerd:
    """A containerd that runs during the `with` block.

    :param bin_dir: the enclosure's /opt/nri/bin.
    :param conf: the content of the enclosure's /etc/nri/conf.json.
    :param release: by default the machine's own.
    :param oci_runtime: the path of the OCI runtime for CRI; by default runc.
    :param request_timeout: the seconds that a v2 plugin has for an event. containerd's own default is 2, which is no
        time on a busy machine: a test of a deadline says so.
    :param prepare: called with the enclosure before containerd starts; it may install v2 plugins in /opt/nri/plugins.
    """

    def __init__(
        self,
        *,
        bin_dir: Path | None = None,
        conf: Mapping[str, Any] | None = None,
        release: Release | None = None,
        prepare: Callable[[Enclosure], object] | None = None,
        oci_runtime: str = "",
        request_timeout: float = 40.0,
    ) -> None:
        self.release = release or Release.at(Path("/usr/bin"))
        self.enclosure = Enclosure(bin_dir=bin_dir, conf=conf)
        self._prepare, self._oci_runtime, self._request_timeout = (
            prepare,
            oci_runtime,
            request_timeout,
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._owned = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as owned:  # closed in reverse order, also when a later step fails
            owned.callback(self._reap)
            root = owned.enter_context(self.enclosure).root
            self.socket, self.log, self._pid = root / "containerd.sock", root / "log", root / "pid"
            (root / "tmp").mkdir()
            if self._prepare is not None:
                self._prepare(self.enclosure)
            self.start()
            self._import_image()
            self._owned = owned.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End containerd, its shims and containers, and remove their files; a second call does nothing."""
        self._owned.close()

    def cri(self) -> Cri:
        """Return a new client; its pods are in this instance's own cgroup."""
        return Cri(self.socket, cgroup_parent=self.enclosure.cgroup_parent)

    def start(self) -> None:
        """Start containerd and wait until it answers; after `stop` this is a restart that pods survive."""
        root, program = self.enclosure.root, self.release.programs / "containerd"
        config = root / "config.toml"
        config.write_text(
            toml.config(
                self.release.version,
                root=root,
                socket=self.socket,
                oci_runtime=self._oci_runtime,
                request_timeout=self._request_timeout,
            )
        )
        # nsenter is our child and containerd is its child, so a file has the pid in the enclosure
        launch: list[str | Path] = [
            "sh",
            "-c",
            'echo $$ > "$1"; shift; exec setsid "$@"',
            "sh",
            self._pid,
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.enclosure.command([*launch, program, "--config", config]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": f"{self.release.programs}:{SYSTEM_PATH}", "TMPDIR": str(root / "tmp")},
            )
        self._wait_until("answers", self._answers)

    def stop(self) -> None:
        """Stop containerd only; its shims and containers stay."""
        # kill is a program only with procps.
        self.enclosure.run("sh", "-c", f"kill {int(self._pid.read_text())}")
        self._reap()

    def kill(self) -> None:
        """Kill containerd only; its shims and containers stay."""
        self.enclosure.run("sh", "-c", f"kill -9 {int(self._pid.read_text())}")
        self._reap()

    def process_of(self, container: str) -> Path:
        """Return /proc/PID of a started container's process, once it runs a program of the image (busybox).

        A runtime has started it a little earlier: its init has yet to execute the program, and while it does so,
        /proc shows the new program without an environment.
        """
        pids = cgroups.processes(f"{self.enclosure.cgroup_parent}/{container}")
        # The others are its children, or gone.
        (pid,) = [pid for pid in pids if parent_of(pid) not in (0, *pids)]
        process = Path(f"/proc/{pid}")
        self._wait_until(
            f"executed the program of {container}",
            lambda: (
                os.readlink(process / "exe").endswith("/busybox")
                and (process / "environ").read_bytes() != b""
            ),
        )
        return process

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait(READY_IN)
            self._process = None

    def _import_image(self) -> None:
        archive = self.enclosure.root / "image.tar"
        image.write_image(archive)
        ctr: list[str | Path] = [
            self.release.programs / "ctr",
            "--address",
            self.socket,
            "--namespace",
            "k8s.io",
        ]
        self.enclosure.run(*ctr, "images", "import", "--snapshotter", "native", archive)
        with self.cri() as cri:  # CRI learns of an import from an event, some time later
            self._wait_until(f"knows {image.NAME}", lambda: cri.has_image(image.NAME))

    def _answers(self) -> bool:
        try:
            with self.cri() as cri:
                return bool(cri.version(within=1))
        except grpc.RpcError:
            return False

    def _wait_until(self, state: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_IN
        while not condition():
            ended = self._process is None or self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                reason = "it has ended" if ended else f"after {READY_IN:.0f} s"
                raise RuntimeError(
                    f"containerd: never {state}: {reason}; the end of its log:\n{self._log_end()}"
                )
            time.sleep(0.02)

    def _log_end(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
