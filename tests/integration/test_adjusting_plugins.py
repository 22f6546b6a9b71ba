"""The compiled plugins that adjust containers, in one chain: each sees what the one before it left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.adjust import Changes, OCIAbilities
from nri.client import Client, DirectInvoker, Sandbox, Task
from nri.client.resident import Residents
from nri.config.entries import ConfigList, PluginEntry
from tests.support.waiting import SOON

ROOT = Path(__file__).parent.parent.parent
NAMES = ("device-injector", "hook-injector", "logger", "ulimit-adjuster")
POD = Sandbox("pod", {"io.kubernetes.pod.namespace": "shop"})
DEVICES = "- path: /dev/nri-null\n  type: c\n  major: 1\n  minor: 3\n"
CONFIG: dict[str, Any] = {
    "annotations": {
        "io.kubernetes.cri.container-name": "web",
        "devices.noderesource.dev/container.web": DEVICES,
        "mounts.nri.io/pod": '[{"source": "/home", "destination": "/host-home", "type": "bind", "options": ["ro"]}]',
        "ulimits.nri.containerd.io/container.web": "- type: memlock\n  hard: 987654\n  soft: 645321\n",
    },
    "process": {"args": ["/bin/sh"], "env": ["TOKEN=secret"]},
    "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
    "linux": {"namespaces": [{"type": "pid"}], "cgroupsPath": "/pod/web"},
}


class Chain:
    """A logger, an injector of devices, one of limits, one of hooks, and the logger again."""

    def __init__(self, folder: Path) -> None:
        self.log, hooks = folder / "log", folder / "hooks.d"
        hooks.mkdir()
        hook = {
            "version": "1.0.0",
            "hook": {"path": "/bin/true"},
            "when": {"hasBindMounts": True},
            "stages": ["poststop"],
        }
        (hooks / "10-true.json").write_text(json.dumps(hook))
        states, log = ("setup",), {"file": str(self.log)}
        allowed = {"allow": {"devices": ["shop"], "mounts": ["shop"]}}
        self.config = ConfigList(
            plugins=[
                PluginEntry(type="logger", conf=log, states=states),
                PluginEntry(type="device-injector", conf=allowed, states=states),
                PluginEntry(type="ulimit-adjuster", conf={"allow": {"ulimits": ["shop"]}}, states=states),
                PluginEntry(type="hook-injector", conf={"dirs": [str(hooks)]}, states=states),
                PluginEntry(type="logger", conf=log, states=states),
            ]
        )

    def run(self, invoker: DirectInvoker) -> dict[str, Any]:
        """Return the configuration of a container that the chain has set up."""
        changes = Changes(OCIAbilities("runc", lambda: (1, 3)), CONFIG)
        client = Client(self.config, invoker, timeout=30)
        client.invoke(Task("web", 0, CONFIG), "setup", POD, changes=changes, log=lambda *line: None)
        return changes.config


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path)


@pytest.fixture(params=["spawned", "resident"])
def invoker(request: pytest.FixtureRequest, binaries: Path) -> Iterator[DirectInvoker]:
    if request.param == "spawned":
        yield DirectInvoker([str(binaries)])
        return
    residents = Residents([str(binaries)])
    try:
        residents.keep([(name, True) for name in NAMES])
        residents.prepare(SOON)
        assert {residents.standing(f"{binaries}/{name}").state for name in NAMES} == {"ready"}
        yield residents
    finally:
        residents.close()


def test_allowed_pod_gets_what_it_asks_for(chain: Chain, invoker: DirectInvoker) -> None:
    for _ in range(2):
        config = chain.run(invoker)
        assert config["linux"]["devices"] == [{"path": "/dev/nri-null", "type": "c", "major": 1, "minor": 3}]
        assert config["mounts"][1] == {
            "destination": "/host-home",
            "source": "/home",
            "type": "bind",
            "options": ["ro"],
        }
        assert config["process"]["rlimits"] == [{"type": "RLIMIT_MEMLOCK", "hard": 987654, "soft": 645321}]
        assert config["hooks"] == {"poststop": [{"path": "/bin/true"}]}  # the injected mount is a bind mount
        before, after = map(json.loads, chain.log.read_text().splitlines()[-2:])
        assert before["changes"] == []
        asked = [(change["plugin"], sorted(change["adjust"])) for change in after["changes"]]
        assert asked == [
            ("device-injector", ["linux", "mounts"]), ("ulimit-adjuster", ["rlimits"]), ("hook-injector", ["hooks"])
        ]  # fmt: skip
        assert "rlimits" not in before["spec"]["process"]
        assert after["spec"]["process"]["env"] == ["TOKEN=…"]
