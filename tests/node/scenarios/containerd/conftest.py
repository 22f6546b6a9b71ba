"""Each scenario gets a node with containerd 1.7, then one with 2.x; the bridge is registered there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.containerd.cri import Cri
from tests.node.guest import node


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    node.install()


@pytest.fixture(params=[1, 2], ids=["containerd-1.7", "containerd-2"], scope="session")
def generation(request: pytest.FixtureRequest, installed: None) -> int:
    node.configure(node.CLEARCFS, node.KONFINE)
    node.use_containerd(request.param)
    return int(request.param)


@pytest.fixture
def cri(generation: int) -> Iterator[Cri]:
    """A client of a containerd that is configured afresh."""
    node.configure(node.CLEARCFS, node.KONFINE)
    with Cri(node.SOCKET) as cri:
        yield cri
