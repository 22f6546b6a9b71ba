"""konfine moves containers, and systemd has not been told of all of them in time."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from harness.fake_systemd import FakeSystemd
from nri.cgroups import systemd_bus
from tests.support.giving import GivingNode

SHARED = [f"w{number}" for number in range(10)]


def path_of(name: str, **_: object) -> str:
    """Return the cgroup of a container with the systemd driver."""
    pod = name.partition("/")[0]
    slice_ = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{pod}.slice"
    return f"{slice_}/cri-containerd-{name.replace('/', '-')}.scope"


class SlowSystemd(FakeSystemd):
    """Serves each connection in a thread, and takes its time for each change."""

    seconds = 0.0

    def set_properties(self, message: Any) -> Any:
        time.sleep(self.seconds)
        return super().set_properties(message)

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve_one, args=(peer,), daemon=True).start()

    def _serve_one(self, peer: Any) -> None:
        with peer:
            try:
                self._talk(peer)
            except OSError:
                pass


@pytest.mark.parametrize("state", ["create", "setup"])
def test_units_that_were_not_told_are_reported_and_told_later(
    tmp_path: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    within = systemd_bus.TIMEOUT
    monkeypatch.setattr(systemd_bus, "TIMEOUT", 60)
    node = GivingNode(tmp_path, cores=4, threads=2)
    node.path = path_of  # type: ignore[method-assign]
    with SlowSystemd(tmp_path / "run", *map(path_of, (*SHARED, "db/main"))) as systemd:
        node.conf["run"] = str(systemd.run)
        for name in SHARED:
            node.start(name)
        systemd.seconds = 0.05
        monkeypatch.setattr(systemd_bus, "TIMEOUT", within)
        result = node.start("db/main", ask=2) if state == "create" else node.run("setup", "db/main", ask=2)
        assert result.metadata["systemd"].startswith("not told: systemd did not answer")
        assert {node.cpus(name) for name in SHARED} == {"1-3,5-7"}
        systemd.seconds = 0.0
        monkeypatch.setattr(systemd_bus, "TIMEOUT", 60)
        result = node.run("update", "w0")
        assert "moved" not in result.metadata
        assert "systemd" not in result.metadata
        units = [systemd.properties[path_of(name).rpartition("/")[2]] for name in SHARED]
        assert {unit["AllowedCPUs"] for unit in units} == {b"\xee"}
        assert not any(entry.get("untold") for entry in node.state()["containers"].values())
