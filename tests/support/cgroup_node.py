"""A node with plugins of this project from their source, and one pod whose cgroups are plain files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from nri.v2 import api
from tests.integration.v1bridge.site import Attached
from tests.support.cgroup_root import CgroupRoot
from tests.support.pods import container, pod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.host import Host


POD = "/kubepods/burstable/pod0a1b"
CONTAINER = f"{POD}/redis"
OTHER = f"{POD}/sidecar"
SANDBOX = f"{POD}/sandbox"


def install_own(host: Host, type_: str) -> Path:
    """Install a plugin of this project from its source, by its type."""
    path = host.bin / host.compiled(f"nri.plugins.{type_.replace('-', '_')}")
    with path.open("a") as file:
        file.write("# It is built with nri.skel.\n")
    return path.rename(host.bin / type_)


class CgroupNode(CgroupRoot):
    """A cgroup v2 tree of a pod with a sandbox and two containers; each cgroup but the sandbox's has a quota."""

    def __init__(self, host: Host) -> None:
        super().__init__(host.root, "v2", "0-3")
        self.host = host
        host.folder("run")
        for path in (SANDBOX, CONTAINER, OTHER):
            self.files.make(path)
        for path in (POD, CONTAINER, OTHER):
            self.limit(path)

    def limit(self, path: str) -> None:
        self.files.put(path, "cpu.max", "50000 100000\n")

    def quota(self, path: str = CONTAINER) -> str:
        """Return the quota of a cgroup, ``max`` for none."""
        return self.files.get(path, "cpu.max").split()[0]

    def configure(self, *entries: dict[str, Any]) -> None:
        """Install the plugins of these entries, and configure them."""
        for entry in entries:
            if not (self.host.bin / entry["type"]).exists():
                install_own(self.host, entry["type"])
        self.host.configure_text(json.dumps({"version": "0.1", "plugins": entries}))


class CgroupSite(Attached):
    """A bridge in this process, for a pod with files for cgroups and two containers: ``app`` and ``side``."""

    def __init__(self, node: CgroupNode) -> None:
        self.node = node
        super().__init__(node.host, resident=False)

    def pod(self) -> api.PodSandbox:
        annotations = {"qos.class/container.side": "ls"}
        labels = {"io.kubernetes.pod.namespace": "default"}
        return pod(annotations=annotations, labels=labels, linux={"cgroups_path": SANDBOX})

    def container(self, name: str, path: str, **resources: Any) -> api.Container:
        linux = {"cgroups_path": path, "resources": resources}
        return container(
            id=name, name=name, annotations={"io.kubernetes.cri.container-name": name}, linux=linux
        )


@pytest.fixture
def site(host: Host) -> Iterator[CgroupSite]:
    site = CgroupSite(CgroupNode(host))
    yield site
    site.close()
