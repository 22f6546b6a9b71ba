"""A plugin that grants something runs only where its condition is known to hold, if its entry says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.integration.cli.running import process
from tests.support.cgroup_node import CONTAINER, CgroupNode
from tests.support.host import OCI_CONFIG

if TYPE_CHECKING:
    from tests.support.host import Host


def test_a_plugin_that_lifts_a_limit_is_skipped_where_the_namespace_is_not_known(host: Host) -> None:
    node = CgroupNode(host)
    when = {"namespaces": ["kube-system"], "unknown": "skip"}
    node.configure({"type": "clearcfs", "when": when, "conf": node.places})
    host.bundle(OCI_CONFIG | {"annotations": {"qos.class": "ls"}, "linux": {"cgroupsPath": CONTAINER}})
    ran = process("hook", "create", *host.options, stdin=host.state())
    assert ran.status == 0, ran.stderr
    assert node.quota() == "50000"
