"""A made-up node on which konfine gives out CPUs: cgroups of plain files, a topology, and pods that come and go."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from harness import machines
from nri.cgroups import parse_cpus
from nri.plugins.konfine import EXCLUSIVE, Konfine
from nri.plugins.konfine.asked import RESTARTS
from nri.testing import invoke
from nri.types.v1 import Request, Result, Spec
from tests.support.cgroup_root import CgroupRoot

if TYPE_CHECKING:
    from pathlib import Path

NAMESPACE = "shop"
OPEN = {"exclusive": [NAMESPACE]}
"""``allow`` that lets the pods of the namespace ask."""


class GivingNode(CgroupRoot):
    """A node below *root*.

    :param machine: the arguments of ``harness.machines.make``.
    :ivar started: the containers that run, by their names, each with its cgroup's path.
    """

    def __init__(self, root: Path, kind: str = "v2", **machine: Any) -> None:
        self.sys = machines.make(root / "sys", **machine)
        cpus = (root / "sys/devices/system/cpu/online").read_text().strip()
        super().__init__(root, kind, cpus)
        self.conf: dict[str, Any] = {**self.places, "sys": self.sys, "allow": OPEN}
        self.cpus_of_machine = cpus
        self.started: dict[str, str] = {}

    @property
    def record(self) -> Path:
        return self.root / "run/nri/konfine/state.json"

    def path(self, name: str) -> str:
        return f"/kubepods/burstable/pod{name.partition('/')[0]}/{name.replace('/', '-')}"

    def make(self, name: str) -> str:
        """Make the cgroup of a container, as a runtime does."""
        return self.make_cgroup(self.path(name))

    def make_cgroup(self, path: str) -> str:
        """Make a container's cgroup at a path."""
        self.files.make(path)
        parent, _, _ = path.rpartition("/")
        if self.files.kind == "v1":
            for each in (parent, path):
                self.files.put(each, "cpuset.cpus", f"{self.cpus_of_machine}\n")
        self.files.put(parent, self._effective, f"{self.cpus_of_machine}\n")
        return path

    @property
    def _effective(self) -> str:
        return "cpuset.cpus.effective" if self.files.kind == "v2" else "cpuset.effective_cpus"

    def request(
        self,
        state: str,
        name: str,
        *,
        ask: object = None,
        annotations: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        cpu: dict[str, Any] | None = None,
        namespace: str = NAMESPACE,
        **conf: Any,
    ) -> Request:
        """Return a request about a container ``POD`` or ``POD/CONTAINER``; ``POD/POD`` is the sandbox.

        ``POD/CONTAINER#2`` is its second restart, a container of another id.
        """
        given, _, restarts = name.partition("#")
        pod, _, container = given.partition("/")
        noted = {
            "io.kubernetes.cri.container-name": container or pod,
            RESTARTS: restarts or "0",
            **(annotations or {}),
        }
        noted |= {} if ask is None else {EXCLUSIVE: str(ask)}
        spec = Spec(
            cgroups_path=self.path(name),
            annotations=noted,
            resources={"cpu": cpu or {}},
        )
        return Request(
            state=state,
            id=f"id-{name.replace('/', '-')}",
            sandbox_id=f"id-{pod}-{pod}",
            spec=spec,
            labels={
                "io.kubernetes.pod.namespace": namespace,
                "io.kubernetes.pod.name": pod,
                **(labels or {}),
            },
            conf=self.conf | conf,
            extensions={"adjust": 1} if state == "setup" else {},
        )

    def run(self, state: str, name: str, **options: Any) -> Result:
        """Run the plugin in this process."""
        return invoke(Konfine(), self.request(state, name, **options))

    def start(self, name: str, **options: Any) -> Result:
        """Start a container that is to be accepted; return the result."""
        path = self.make(name)
        result = self.run("create", name, **options)
        assert result.error == ""
        self.started[name] = path
        return result

    def refusal(self, name: str, **options: Any) -> str:
        """Start a container that is to be refused; return the error."""
        path = self.make(name)
        error = self.run("create", name, **options).error
        assert error
        self.remove(path)
        return error

    def stop(self, name: str, *, is_told: bool = True, **options: Any) -> Result | None:
        """Stop a container, with a ``delete`` or without one; return the result of that."""
        path = self.started.pop(name)
        result = self.run("delete", name, **options) if is_told else None
        self.remove(path)
        return result

    def remove(self, path: str) -> None:
        for point in self.files.points.values():
            shutil.rmtree(point + path, ignore_errors=True)

    def cpus(self, name: str) -> str:
        """Return the CPUs of a container, as its cgroup says."""
        return self.files.get(self.started[name], "cpuset.cpus")

    def all(self) -> dict[str, str]:
        """Return the CPUs of all containers."""
        return {name: self.cpus(name) for name in self.started}

    def sets(self) -> dict[str, frozenset[int]]:
        return {name: parse_cpus(text) for name, text in self.all().items()}

    def state(self) -> Any:
        return json.loads(self.record.read_text())
