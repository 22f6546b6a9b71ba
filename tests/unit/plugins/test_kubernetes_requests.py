"""What the plugins find in the requests that a real Kubernetes made: 1.34.9, cgroupfs on v1 and systemd on v2."""

from typing import Any

import pytest

from nri.cgroups.paths import expand, is_pod
from nri.plugins.clearcfs import ClearCFS
from nri.plugins.konfine import Konfine
from nri.testing import recorded, recordings
from nri.types.v1 import Request
from tests.unit.plugins.running import PluginNode

REQUESTS = recordings("kubernetes/*")


@pytest.mark.parametrize("plugin", [ClearCFS(), Konfine()], ids=lambda plugin: plugin.type)
def test_the_plugins_do_their_work(plugin: Any) -> None:
    nodes = {kind: PluginNode(plugin, kind) for kind in ("v1", "v2")}
    assert len(REQUESTS) == 46
    for name in REQUESTS:
        request = Request.from_value(recorded(name), "request")
        assert request.spec is not None
        node = nodes[name.removeprefix("kubernetes/")[:2]]
        cgroup = expand(request.spec.cgroups_path)
        parent = cgroup.rpartition("/")[0]
        assert is_pod(parent)
        node.make(cgroup)
        for each in (cgroup, parent):
            node.limit(each, 40_000)
        conf = {"pod": True} if plugin.type == "clearcfs" else {"systemReserved": [0]}
        names = ("state", "id", "sandbox_id", "spec", "labels")
        result = node.run(conf, **{name: getattr(request, name) for name in names})
        assert result.error == ""
        if request.state not in ("create", "update"):
            assert result.metadata == {}
        elif plugin.type == "clearcfs" and request.spec.annotations.get("qos.class") == "ls":
            assert result.metadata["quota"] == "40000/100000"
            assert ("podQuota" in result.metadata) is not request.is_sandbox
        elif plugin.type == "clearcfs":
            assert list(result.metadata) == ["skipped"]
        else:
            listed = request.spec.resources.get("cpu", {}).get("cpus", "")
            assert result.metadata["cpus"] == {"": "1-7", "0-3": "1-3", "1": "1"}[listed]
