"""One run of a sample plugin on a made-up tree of cgroups: a pod with a container, in v1 or v2."""

import io
from collections.abc import Mapping
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from nri import skel
from nri.testing import CgroupTree, Pod, invoke
from nri.testing.pods import Container
from nri.types.v1 import Request, Result, Spec

POD = "/kubepods/burstable/pod0a1b"
CONTAINER = f"{POD}/redis"
KINDS = ("v1", "v2")


class PluginNode:
    """A node with one container, whose parents' CPUs are 0-7, and a plugin."""

    def __init__(self, plugin: skel.Plugin, kind: str = "v2") -> None:
        self.plugin = plugin
        self.tree = CgroupTree(kind, cpus="0-7")
        self.make = self.tree.make
        self.make(CONTAINER)
        self.stderr = ""

    def run(
        self,
        conf: Any = None,
        *,
        state: str = "create",
        path: str = CONTAINER,
        resources: Any = None,
        annotations: Mapping[str, str] = {},
        **changes: Any,
    ) -> Result:
        """Run the plugin, with a request that a test may make as bad as it likes."""
        spec = Spec(cgroups_path=path, annotations=annotations, resources=resources)
        request = Request(
            **{
                "state": state,
                "id": "redis",
                "sandbox_id": "pod",
                "spec": spec,
                "conf": conf,
                **changes,
            }
        )
        with self.tree, redirect_stderr(io.StringIO()) as stderr:
            result = invoke(self.plugin, request)
        self.stderr = stderr.getvalue()
        return result

    def fine(self, conf: Any = None, **options: Any) -> dict[str, str]:
        """The metadata of a run that must go well."""
        result = self.run(conf, **options)
        assert (result.error, self.stderr) == ("", "")
        assert (result.plugin, result.version) == (self.plugin.type, "0.1")
        return result.metadata

    def error(self, conf: Any = None, **options: Any) -> str:
        """The error of a run that must fail: one line for a person, without a traceback."""
        result = self.run(conf, **options)
        assert result.error
        assert [
            line for line in self.stderr.splitlines() if not line.startswith("nri.testing: ")
        ] == []
        assert len(result.error) < 1000
        assert result.error.isprintable()
        return result.error

    # The quota

    def limit(self, path: str, quota: int, period: int = 100_000) -> None:
        if self.tree.kind == "v2":
            self.tree.put(f"{path}/cpu.max", f"{quota} {period}")
        else:
            self.tree.put(f"{path}/cpu.cfs_quota_us", str(quota))
            self.tree.put(f"{path}/cpu.cfs_period_us", str(period))

    def is_limited(self, path: str) -> bool:
        if self.tree.kind == "v2":
            return not self.tree.get(f"{path}/cpu.max").startswith("max")
        return self.tree.get(f"{path}/cpu.cfs_quota_us") != "-1"

    # The CPUs

    def cpus(self, path: str = CONTAINER) -> str:
        return self.tree.get(f"{path}/cpuset.cpus")

    def give(self, path: str, cpus: str) -> None:
        self.tree.put(f"{path}/cpuset.cpus", cpus)


class PodNode:
    """A node with some pods of a class, and a plugin for their containers.

    :param kind: as for ``CgroupTree``; likewise *driver*.
    :ivar conf: the keys of the plugin conf, unless a test gives others.
    """

    def __init__(
        self, plugin: skel.Plugin, run: Path, kind: str = "v2", driver: str = "cgroupfs"
    ) -> None:
        self.plugin = plugin
        self.tree = CgroupTree(kind, driver=driver)
        self.about: dict[str, Any] = {
            "cgroup_version": 2 if kind == "v2" else 1,
            "cgroup_driver": driver,
        }
        self.conf: dict[str, Any] = {"run": str(run)}

    def add(self, pod: Pod) -> None:
        """Make the cgroups of a pod with its containers."""
        with self.tree:
            self.tree.add(pod)

    def ask(
        self,
        owner: Pod | Container,
        state: str = "create",
        *,
        resources: dict[str, Any] | None = None,
        last: Result | None = None,
        release: bool = False,
        **conf: Any,
    ) -> Result:
        """Send a request about a pod's sandbox or a container.

        :param last: the result of the last one.
        """
        request = owner.request(state, conf=self.conf | conf, resources=resources)
        request = request.replace(prev_result=last, release=release)
        with self.tree:
            return invoke(self.plugin, request)
