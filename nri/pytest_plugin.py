"""The pytest plugin: the fixtures ``nri_pod`` and ``nri_cgroups``, and the marker that chooses the cgroups.

    @pytest.mark.nri_cgroups("v1", driver="systemd", cpus="0-3")
    def test_it(nri_cgroups, nri_pod): ...

It is an entry point of the package, so pytest loads it in every project: it imports nothing before a fixture is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from nri.testing import CgroupTree, Pod

MARKER = (
    "nri_cgroups(kind='v2', *, driver='cgroupfs', cpus='0-7'): the cgroups of the fixture "
    "nri_cgroups"
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def nri_cgroups(request: pytest.FixtureRequest) -> Iterator[CgroupTree]:
    """Cgroups of plain files, which ``nri.cgroups.find`` finds: a ``nri.testing.CgroupTree``.

    The marker ``nri_cgroups`` has its arguments; an indirect parameter is its kind, or a dictionary of arguments.
    """
    from nri.testing import CgroupTree

    with CgroupTree(**_arguments(request)) as tree:
        yield tree


@pytest.fixture
def nri_pod(request: pytest.FixtureRequest) -> Pod:
    """A pod that fits to the cgroups of the test: a ``nri.testing.Pod`` named ``shop`` on containerd 2.1."""
    from nri.testing import Pod

    if "nri_cgroups" not in request.fixturenames:
        return Pod(cgroup_driver=_marked(request).get("driver", "cgroupfs"))
    tree: CgroupTree = request.getfixturevalue("nri_cgroups")
    version = 2 if tree.kind == "v2" else 1
    return Pod(cgroup_driver=tree.driver, cgroup_version=version)


def _arguments(request: pytest.FixtureRequest) -> dict[str, Any]:
    parameter = getattr(request, "param", {})
    if isinstance(parameter, str):
        given = {"kind": parameter}
    else:
        given = dict(parameter)
    return _marked(request) | given


def _marked(request: pytest.FixtureRequest) -> dict[str, Any]:
    marker = request.node.get_closest_marker("nri_cgroups")
    if marker is None:
        return {}
    named: dict[str, Any] = dict(zip(("kind",), marker.args, strict=False))
    named.update(marker.kwargs)
    return named
