"""A pod on the kernel's own cgroups."""

from collections.abc import Iterator

import pytest

from tests.support.kernel_pod import kernel_pod
from tests.support.real_cgroups import Real


@pytest.fixture
def real() -> Iterator[Real]:
    with kernel_pod() as real:
        yield real
