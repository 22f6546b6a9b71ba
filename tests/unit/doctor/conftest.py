"""A scratch root for each test."""

from pathlib import Path

import pytest

from tests.support.scratch_node import ScratchNode


@pytest.fixture
def node(tmp_path: Path) -> ScratchNode:
    root = tmp_path / "root"
    root.mkdir(mode=0o755)
    return ScratchNode(root)
