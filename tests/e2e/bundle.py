"""OCI bundles, and the runtimes that run them: runc and crun, without any engine above them.

    with enclosed("runc") as runc:
        web = runc.bundle("web", hooks={"createRuntime": [{"path": "/opt/nri/bin/hook"}]}, cpu_quota=50_000)
        runc.create(web)

A runtime works in an enclosure, so hooks may use /etc/nri and /opt/nri, and nothing of its containers is
left.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.containerd import cgroups, image
from harness.containerd.enclosure import Enclosure


def nri_hooks(log: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the hooks of a config.json that run the installed command; crun discards a hook's stderr."""
    return {
        name: [{"path": "/opt/nri/lib/nri", "args": ["nri", "hook", state, "--log-file", str(log)]}]
        for name, state in (("createRuntime", "create"), ("poststop", "delete"))
    }


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A bundle's directory, the id its container gets, and the container's `cgroupsPath`."""

    id: str
    path: Path
    cgroup: str


class OCIRuntime:
    """An OCI runtime, such as `runc`, in an enclosure.

    Its commands raise CommandFailedError; `stdout` and `stderr` in it are what runtime, hooks and container
    wrote.
    """

    def __init__(self, program: str, enclosure: Enclosure) -> None:
        self.program, self.enclosure = program, enclosure

    def bundle(
        self,
        name: str,
        *,
        hooks: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
        command: Sequence[str] = image.FOREVER,
        annotations: Mapping[str, str] | None = None,
        cpu_quota: int | None = None,
        cpu_period: int | None = None,
        cpu_shares: int | None = None,
        cpuset_cpus: str | None = None,
    ) -> Bundle:
        """Make a bundle. `hooks` is config.json's, by name; quota and period in microseconds."""
        path = self.enclosure.root / "bundles" / name
        image.unpack_rootfs(path / "rootfs")
        cpu = {"quota": cpu_quota, "period": cpu_period, "shares": cpu_shares, "cpus": cpuset_cpus}
        bundle = Bundle(id=name, path=path, cgroup=f"{self.enclosure.cgroup_parent}/{name}")
        config = {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": 0, "gid": 0},
                "args": list(command),
                "env": ["PATH=/bin"],
                "cwd": "/",
            },
            "root": {"path": "rootfs"},
            "hostname": name,
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            ],
            "annotations": dict(annotations or {}),
            "hooks": dict(hooks or {}),
            "linux": {
                "cgroupsPath": bundle.cgroup,
                "namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")],
                "resources": {
                    "cpu": {key: value for key, value in cpu.items() if value is not None}
                },
            },
        }
        (path / "config.json").write_text(json.dumps(config, indent=1))
        return bundle

    def create(self, bundle: Bundle) -> None:
        self._run("create", "--bundle", bundle.path, bundle.id)

    def run(self, bundle: Bundle) -> str:
        """Run a container in the foreground to its end; its stdout."""
        return self._run("run", "--bundle", bundle.path, bundle.id)

    def start(self, bundle: Bundle) -> None:
        self._run("start", bundle.id)

    def kill(self, bundle: Bundle, signal: str = "KILL") -> None:
        self._run("kill", bundle.id, signal)

    def delete(self, bundle: Bundle, *, force: bool = False) -> None:
        self._run("delete", *(["--force"] if force else []), bundle.id)

    def state(self, bundle: Bundle) -> dict[str, Any]:
        """What the runtime's `state` prints: `status`, `pid` (the enclosure's number), and more."""
        state: dict[str, Any] = json.loads(self._run("state", bundle.id))
        return state

    def ids(self) -> list[str]:
        """The containers that the runtime knows."""
        return self._run("list", "--quiet").split()

    def _run(self, verb: str, *arguments: str | Path) -> str:
        return self.enclosure.run(
            self.program, "--root", self.enclosure.root / "state", verb, *arguments
        )


@contextmanager
def enclosed(program: str) -> Iterator[OCIRuntime]:
    """A runtime in an enclosure of its own; at the end all its containers are gone."""
    with Enclosure() as enclosure:
        if program.endswith("crun"):
            empty_hybrid(enclosure)
        yield OCIRuntime(program, enclosure)


def empty_hybrid(enclosure: Enclosure) -> None:
    """Show crun a hybrid layout as it wants it: it refuses a cgroup2 tree that offers any controller.

    One that no v1 hierarchy has taken, such as hugetlb, turns up there, whether or not anybody uses it.
    """
    mounts = cgroups.hierarchies()
    if "cpu" in mounts and "" in mounts:
        empty = enclosure.root / "no-controllers"
        empty.touch()
        enclosure.run("mount", "--bind", empty, mounts[""] / "cgroup.controllers")
