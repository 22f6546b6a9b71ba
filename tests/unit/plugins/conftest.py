"""A pod on the kernel's own cgroups, and the nodes on which konfine gives out CPUs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.giving import GivingNode
from tests.support.kernel_pod import kernel_pod
from tests.support.real_cgroups import Real


@pytest.fixture
def real() -> Iterator[Real]:
    with kernel_pod() as real:
        yield real


@pytest.fixture(params=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> GivingNode:
    return GivingNode(tmp_path, request.param, cores=4, threads=2)


@pytest.fixture
def v2(tmp_path: Path) -> GivingNode:
    return GivingNode(tmp_path, cores=4, threads=2)
