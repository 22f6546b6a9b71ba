"""The NRI of a runtime, from what it says of itself."""

import pytest

from nri.v2.api import events
from nri.v2.api.runtimes import RELEASES, nri_version
from nri.v2.stub import RuntimeInfo


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("containerd", "v1.7.0", (0, 3)),
        ("containerd", "v2.1.4-k3s1", (0, 8)),
        ("containerd", "v2.2", (0, 10)),
        ("cri-o", "1.34.0", (0, 10)),
        ("cri-o", "1.25.0", (0, 9)),
        ("containerd", "(devel)", (0, 9)),
        ("containerd", "9" * 100, (0, 9)),
        ("docker", "99.0.0", (0, 9)),
    ],
)
def test_one_that_says_nothing_of_its_nri_is_looked_up(name: str, version: str, expected: events.Version) -> None:
    assert nri_version(name, version) == expected
    assert RuntimeInfo(name=name, version=version).knows == events.valid(expected)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("v0.12.0", (0, 12)),
        ("v1.0.0", (1, 0)),
        ("v0.0.0-20260101000000-0123456789ab", (0, 12)),
        ("v0.11.1-0.20260101000000-0123456789ab", (0, 11)),
        ("v" + "9" * 5000, (0, 12)),
    ],
)
def test_runtime_with_an_odd_nri_version_has_0_12_or_newer(said: str, expected: events.Version) -> None:
    assert nri_version("containerd", "v1.7.24", said) == expected
    assert RuntimeInfo(name="containerd", version="v1.7.24", nri_version=said).knows == events.VALID


@pytest.mark.parametrize("name", RELEASES)
def test_the_table_is_in_order(name: str) -> None:
    releases = RELEASES[name]
    assert [first for first, _ in releases] == sorted({first for first, _ in releases})
    assert [nri for _, nri in releases] == sorted(nri for _, nri in releases)
