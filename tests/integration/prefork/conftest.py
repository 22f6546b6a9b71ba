"""The host of this folder's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.prefork.preforked import PreforkHost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.host import Host


@pytest.fixture
def node(host: Host) -> Iterator[PreforkHost]:
    node = PreforkHost(host)
    yield node
    node.close()
