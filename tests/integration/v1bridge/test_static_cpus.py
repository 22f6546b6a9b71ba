"""konfine on a node whose kubelet has the static CPU manager."""

from __future__ import annotations

from tests.support.cgroup_node import CONTAINER, OTHER, CgroupSite, site

__all__ = ["site"]


def test_a_container_stays_on_the_kubelets_cpus_if_all_others_are_exclusive(site: CgroupSite) -> None:
    node = site.node
    node.configure({"type": "konfine", "states": ["update"], "conf": node.places | {"systemReserved": [0]}})
    exclusive, shared = ({"cpu": {"cpus": cpus}} for cpus in ("1-3", "0"))
    for path, cpus in ((OTHER, "1-3"), (CONTAINER, "0")):
        node.tree.put(path, "cpuset.cpus", f"{cpus}\n")  # as the runtime does
    site.runtime.start_container(site.pod(), site.container("side", OTHER, **exclusive))
    site.runtime.start_container(site.pod(), site.container("app", CONTAINER, **shared))
    assert node.tree.get(OTHER, "cpuset.cpus") == "1-3"
    assert node.tree.get(CONTAINER, "cpuset.cpus") == "0"
