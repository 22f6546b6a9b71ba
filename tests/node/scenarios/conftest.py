"""The node of a scenario: containerd 1.7 or 2.x, with the bridge registered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.containerd.cri import Cri
from tests.node.guest import node


@pytest.fixture(scope="session")
def installed() -> None:
    """What `make install` installs."""
    node.install()


@pytest.fixture(params=[1, 2], ids=["containerd-1.7", "containerd-2"], scope="session")
def generation(request: pytest.FixtureRequest, installed: None) -> int:
    """A containerd of each generation, with the bridge registered."""
    node.configure(node.CLEARCFS, node.KONFINE)
    node.use_containerd(request.param)
    return int(request.param)


@pytest.fixture
def cri(generation: int) -> Iterator[Cri]:
    """A client of a containerd; the plugins are configured afresh."""
    node.configure(node.CLEARCFS, node.KONFINE)
    with Cri(node.SOCKET) as cri:
        yield cri
