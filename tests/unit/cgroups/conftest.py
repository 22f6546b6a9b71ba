"""The cgroup trees of these tests: of plain files, and the kernel's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.real_cgroups import Real, real_cgroups
from tests.unit.cgroups.trees import KINDS, make

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nri.testing.cgroup_files import CgroupFiles


@pytest.fixture(params=KINDS)
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> CgroupFiles:
    return make(tmp_path, request.param)


@pytest.fixture
def real() -> Iterator[Real]:
    with real_cgroups() as real:
        yield real
