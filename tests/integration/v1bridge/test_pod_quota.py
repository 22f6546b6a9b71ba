"""clearcfs with ``pod``: the quota of a pod stays cleared, for whichever of its containers it was."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cgroup_node import CONTAINER, OTHER, POD, CgroupSite, site

__all__ = ["site"]


def update_app(site: CgroupSite) -> None:
    site.runtime.post_update_container(site.pod(), site.container("app", CONTAINER))


def update_sandbox(site: CgroupSite) -> None:
    site.runtime.post_update_pod_sandbox(site.pod())


@pytest.mark.parametrize("update", [update_app, update_sandbox])
def test_a_pods_quota_stays_cleared_for_the_one_container_of_a_class(site: CgroupSite, update: Any) -> None:
    node = site.node
    node.configure({"type": "clearcfs", "states": ["update"], "conf": node.places | {"pod": True}})
    site.runtime.start_container(site.pod(), site.container("side", OTHER))
    site.runtime.start_container(site.pod(), site.container("app", CONTAINER))
    quotas = [node.quota(path) for path in (OTHER, CONTAINER, POD)]
    assert quotas == ["max", "50000", "max"]
    node.limit(POD)  # as the kubelet does
    update(site)
    assert node.quota(CONTAINER) == "50000"
    assert node.quota(POD) == "max"
