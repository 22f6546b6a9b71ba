"""A pod on the kernel's own cgroups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.kernel_pod import kernel_pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.real_cgroups import Real


@pytest.fixture
def real() -> Iterator[Real]:
    with kernel_pod() as real:
        yield real
