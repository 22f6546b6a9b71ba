"""The cgroup trees of these tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.cgroups.trees import KINDS, make

if TYPE_CHECKING:
    from pathlib import Path

    from harness.cgroup_tree import Tree


@pytest.fixture(params=KINDS)
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    return make(tmp_path, request.param)
