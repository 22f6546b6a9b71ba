"""A node with konfine, a kubelet and an API server, and the agent between them, whose clock stands still."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from nri.config.site import Site
from nri.kubernetes.agent import Agent
from nri.node.in_use import InUse
from tests.support.api_server import ApiServer
from tests.support.giving import GivingNode
from tests.support.kubelet import Kubelet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Counting(GivingNode):
    """A made-up node, whose CPUs an agent offers.

    :ivar said: the lines of the agent.
    :ivar now: its clock.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root, packages=2, cores=2, threads=2)
        self.conf |= {"allow": {"exclusive": ["shop"]}, "exclusive": {"counted": True}}
        self.now, self.said = 1000.0, list[str]()
        (root / "resource.d").mkdir()
        self.configure()
        self.kubelet = Kubelet(root / "kubelet")
        self.agent = self.new_agent()

    def new_agent(self, node: str = "", kubelet: str = "") -> Agent:
        in_use = InUse(
            Site(
                conf_dir=str(self.root / "resource.d"),
                conf_file=str(self.root / "conf.json"),
                record_dir="",
            )
        )
        return Agent(
            in_use,
            kubelet or str(self.root / "kubelet"),
            node,
            self.said.append,
            lambda: self.now,
            str(self.root / "kubelet/pods.sock"),
        )

    def configure(self, **changes: Any) -> None:
        """Write the host configuration."""
        entry = {"type": "konfine", "states": ["setup"], "conf": self.conf | changes}
        document = {"version": "0.1", "plugins": [entry]}
        (self.root / "resource.d/10-konfine.conf").write_text(json.dumps(document))

    def look(self, after: float = 1) -> None:
        """Have the agent look again, some seconds later."""
        self.now += after
        self.agent.look()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Counting]:
    node = Counting(tmp_path)
    yield node
    node.agent.close()
    node.kubelet.clean()


@pytest.fixture
def api_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    server = ApiServer()
    server.write_config(tmp_path / "kubeconfig")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    yield server
    server.close()
